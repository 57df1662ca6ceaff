#include "cli/version.h"

#include "base/format.h"
#include "cli/build_info.h"

namespace fourfold::cli {

std::string version_text() {
  const BuildInfo info = build_info();
  std::string text = format("fourfold {}, commit {}\nbuilt with {}, {}{}{}", info.version,
                            info.commit, info.compiler, info.type,
                            info.sanitizers.empty() ? "" : ", sanitizers ", info.sanitizers);
  for (const auto& [name, version] : library_versions()) text += format("\n{} {}", name, version);
  return text;
}

}  // namespace fourfold::cli
