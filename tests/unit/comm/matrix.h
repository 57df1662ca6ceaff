// Every collective on every type and reduction against a serial sum; for worlds of any kind.
#pragma once

#include <cstdint>
#include <string>

#include "comm/group.h"

namespace fourfold::comm {

/// How strict reductions of bf16 are: threads round once, MPI after every term.
enum class Rounding { once, each_term };
/// What becomes of a NaN in a maximum; NCCL drops it where another member has a number.
enum class NanInMaximum { stays, may_go };

/// Runs all collectives on parts of `count` elements, in place and not. All members call together.
/// Empty when every result was right; else what was wrong first.
std::string check_collectives(Group& group, std::int64_t count, Rounding rounding,
                              NanInMaximum nan = NanInMaximum::stays);

}  // namespace fourfold::comm
