// How the values of several ranks become one. Shared by shardings (op/) and collectives (comm/).
#pragma once

#include <cstdint>

namespace fourfold {

enum class Reduction : std::uint8_t { sum, max };

}  // namespace fourfold
