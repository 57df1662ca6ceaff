#include "cli/version.h"

#include "base/format.h"
#include "job/build_info.h"
#include "job/cuda_parts.h"

namespace fourfold::cli {

std::string version_text() {
  const job::BuildInfo info = job::build_info();
  std::string text = format("fourfold {}, commit {}\nbuilt with {}, {}{}{}", info.version,
                            info.commit, info.compiler, info.type,
                            info.sanitizers.empty() ? "" : ", sanitizers ", info.sanitizers);
  for (const auto& [name, version] : job::library_versions())
    text += format("\n{} {}", name, version);
  const machine::CudaFacts cuda = job::cuda_facts();
  if (cuda.state == machine::CudaState::not_built) return text + "\nCUDA none";
  text += format("\nCUDA {} for {}", machine::cuda_version(cuda.runtime), cuda.architectures);
  for (const machine::CudaLibrary& library : job::cuda_libraries())
    if (!library.loaded.empty()) text += format("\n{} {}", library.name, library.loaded);
  return text;
}

}  // namespace fourfold::cli
