// Text formatting: the one door to libfmt (libstdc++ 12 has no <format>).
#pragma once

#include <fmt/core.h>

namespace fourfold {
using fmt::format;
}  // namespace fourfold
