// Elementary functions as the language has them, on CPUs and GPUs. Where a backend has faster ones,
// a type of its own derives from this one.
#pragma once

#include <cmath>

#include "kernels/on_device.h"

namespace fourfold::kernels {

struct StandardMath {
  template <class T>
  FOURFOLD_CUDA static T exp(T x) {
    return std::exp(x);
  }
  template <class T>
  FOURFOLD_CUDA static T log(T x) {
    return std::log(x);
  }
  template <class T>
  FOURFOLD_CUDA static T tanh(T x) {
    return std::tanh(x);
  }
  template <class T>
  FOURFOLD_CUDA static T cosh(T x) {
    return std::cosh(x);
  }
};

}  // namespace fourfold::kernels
