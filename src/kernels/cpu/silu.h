// The gate of SiLU for one element, to be called in loops that become vector code.
#pragma once

#include <cmath>

#include "kernels/cpu/gelu.h"
#include "kernels/cpu/math.h"

namespace fourfold::kernels::cpu {

/// gate = 1 / (1 + exp(-x)) and rest = 1 - gate, both from exp(-|x|), which neither overflows nor
/// cancels.
template <class T>
struct SiluGate {
  T gate, rest;
};
template <class T>
[[gnu::always_inline]] inline SiluGate<T> silu_gate(T x) {
  const T tail = exp_flushed(-std::abs(x));
  const T upper = gelu_share(tail), lower = tail * upper;
  return {x < 0 ? lower : upper, x < 0 ? upper : lower};
}

}  // namespace fourfold::kernels::cpu
