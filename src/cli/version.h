// What this binary is.
#pragma once

#include <string>

namespace fourfold::cli {

/// "fourfold 0.1.0" and the compiler it was built with.
std::string version_text();

}  // namespace fourfold::cli
