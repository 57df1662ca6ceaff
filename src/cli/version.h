// What this binary is.
#pragma once

#include <string>

namespace fourfold::cli {

/// "fourfold 0.1.0, commit 5e234c5", the compiler it was built with, a line for each library.
std::string version_text();

}  // namespace fourfold::cli
