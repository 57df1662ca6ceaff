#include "cli/version.h"

#include "base/format.h"

namespace fourfold::cli {

std::string version_text() {
  return format("fourfold {}\nbuilt with {}", FOURFOLD_VERSION, FOURFOLD_COMPILER);
}

}  // namespace fourfold::cli
