// The part of a class's bundle that differs from rank to rank, once for each way in which it does:
// what must be looked at of every rank whose class has been proved.
#pragma once

#include "verify/language.h"

namespace fourfold::verify {

/// The bundle with fewer instructions: every feed and message; of the computations that are told
/// which part of a tensor they see, of the updates, the copies and the gathers in place, one for
/// each kind of operands and places. What binding sets in one it sets in all of its kind, for it
/// looks at nothing else (program/bind.h). Cost: n log n.
Bundle representatives(const Bundle& bundle);

}  // namespace fourfold::verify
