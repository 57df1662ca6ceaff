# The files of configs/machines as text in the room machine, so that the binary knows them wherever it is run.
file(GLOB machine_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/configs/machines/*.yaml)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${machine_files})
set(machine_texts "")
foreach(machine_file IN LISTS machine_files)
  get_filename_component(machine_name ${machine_file} NAME_WE)
  file(READ ${machine_file} machine_text)
  string(APPEND machine_texts "    {\"${machine_name}\", R\"yaml(${machine_text})yaml\"},\n")
endforeach()
set(machine_source ${PROJECT_BINARY_DIR}/generated/known_clusters.cpp)
file(WRITE ${machine_source}.new "#include \"machine/known_clusters.h\"

namespace fourfold::machine {

const std::vector<KnownCluster>& known_clusters() {
  static const std::vector<KnownCluster> known = {
${machine_texts}  };
  return known;
}

}  // namespace fourfold::machine
")
file(COPY_FILE ${machine_source}.new ${machine_source} ONLY_IF_DIFFERENT)
target_sources(fourfold_machine PRIVATE ${machine_source})
set_source_files_properties(${machine_source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
