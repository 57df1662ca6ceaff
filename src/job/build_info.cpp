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

}  // namespace fourfold::job
