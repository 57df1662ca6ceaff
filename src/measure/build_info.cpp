#include "measure/build_info.h"

#include "base/format.h"
#include "base/text.h"
#include "comm/mpi.h"
#include "kernels/cpu/libraries.h"
#include "measure/cuda_parts.h"

namespace fourfold::measure {

BuildInfo build_info() {
  return {FOURFOLD_VERSION,    build_commit,   FOURFOLD_COMPILER,
          FOURFOLD_BUILD_TYPE, FOURFOLD_FLAGS, FOURFOLD_SANITIZERS};
}

NamedVersions product_libraries() {
  return kernels::cpu::product_libraries();
}

NamedVersions library_versions() {
  NamedVersions result = kernels::cpu::library_versions();
  result.emplace_back("MPI", comm::mpi_library());
  for (const std::string& entry : split(FOURFOLD_LIBRARIES, ',')) {
    const auto space = entry.find(' ');
    if (space != std::string::npos)
      result.emplace_back(entry.substr(0, space), entry.substr(space + 1));
  }
  return result;
}

Json build_json() {
  const BuildInfo info = build_info();
  Json instruction_sets = Json::array();
  for (const std::string& name : kernels::cpu::instruction_sets()) instruction_sets.push(name);
  return Json::object()
      .set("version", info.version)
      .set("commit", info.commit)
      .set("compiler", info.compiler)
      .set("type", info.type)
      .set("flags", info.flags)
      .set("sanitizers", info.sanitizers)
      .set("instruction_sets", instruction_sets);
}

Json libraries_json() {
  Json libraries = Json::object();
  for (const auto& [name, version] : library_versions()) libraries.set(name, version);
  return libraries;
}

std::string version_text() {
  const BuildInfo info = build_info();
  std::string text = format("fourfold {}, commit {}\nbuilt with {}, {}{}{}", info.version,
                            info.commit, info.compiler, info.type,
                            info.sanitizers.empty() ? "" : ", sanitizers ", info.sanitizers);
  for (const auto& [name, version] : library_versions()) text += format("\n{} {}", name, version);
  const machine::CudaFacts cuda = cuda_facts();
  if (cuda.state == machine::CudaState::not_built) return text + "\nCUDA none";
  text += format("\nCUDA {} for {}", machine::cuda_version(cuda.runtime), cuda.architectures);
  for (const machine::CudaLibrary& library : cuda_libraries())
    if (!library.loaded.empty()) text += format("\n{} {}", library.name, library.loaded);
  return text;
}

}  // namespace fourfold::measure
