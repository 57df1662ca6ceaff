#include "job/build_info.h"

#include "base/text.h"
#include "comm/mpi.h"
#include "kernels/cpu/libraries.h"

namespace fourfold::job {

BuildInfo build_info() {
  return {FOURFOLD_VERSION,    build_commit,   FOURFOLD_COMPILER,
          FOURFOLD_BUILD_TYPE, FOURFOLD_FLAGS, FOURFOLD_SANITIZERS};
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

}  // namespace fourfold::job
