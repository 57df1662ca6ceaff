// The facts about the CPU kernels that compile/ needs: which implementation for which op, and its
// workspace.
#pragma once

#include "machine/target.h"

namespace fourfold::kernels::cpu {

/// The kernels of cpu/, chosen by a table measured on a two-core Zen 3 (see target.cpp).
machine::Target target(int threads);

/// The plain loops of reference/ for every op, on one thread.
machine::Target reference_target();

}  // namespace fourfold::kernels::cpu
