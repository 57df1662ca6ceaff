# The list of all commands: a file of src/cli/commands/ adds those that it holds by a function of its name, as export.cpp by
# add_export. A list and not objects that register themselves when the program starts: the linker leaves out what nobody names.
file(GLOB command_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/commands/*.cpp)
set(command_declarations "")
set(command_calls "")
foreach(command_file IN LISTS command_files)
  get_filename_component(command_name ${command_file} NAME_WE)
  string(APPEND command_declarations "void add_${command_name}(Commands& commands);\n")
  string(APPEND command_calls "  add_${command_name}(commands);\n")
endforeach()
set(command_source ${PROJECT_BINARY_DIR}/generated/add_commands.cpp)
file(WRITE ${command_source}.new "#include \"cli/command.h\"

namespace fourfold::cli {

${command_declarations}
void add_commands(Commands& commands) {
${command_calls}}

}  // namespace fourfold::cli
")
file(COPY_FILE ${command_source}.new ${command_source} ONLY_IF_DIFFERENT)
target_sources(fourfold_cli PRIVATE ${command_source})
