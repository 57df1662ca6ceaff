// Every collective on every type and reduction against a serial sum; for worlds of any kind.
#pragma once

#include <cstdint>
#include <string>

#include "comm/group.h"

namespace fourfold::comm {

/// How strict reductions of bf16 are: threads round once, MPI after every term.
enum class Rounding { once, each_term };

/// Runs all collectives on parts of `count` elements, in place and not. All members call together.
/// Empty when every result was right; else what was wrong first.
std::string check_collectives(Group& group, std::int64_t count, Rounding rounding);

}  // namespace fourfold::comm
