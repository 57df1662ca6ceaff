// Rates of arithmetic as people read them.
#pragma once

#include <string>

namespace fourfold {

/// "70.9 GFLOP/s", " 819 MFLOP/s": three digits and a prefix of the unit, at the same width from
/// one flop a second on.
std::string flops_text(double flops_per_s);

}  // namespace fourfold
