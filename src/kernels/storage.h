// From the DType of a problem to a kernel's template parameter, and the types in which a storage
// type is summed. Not arithmetic: kernels cast with static_cast<Sum<T>> when they load and
// static_cast<T> when they store.
#pragma once

#include <type_traits>

#include "base/error.h"
#include "kernels/kernel.h"

namespace fourfold::kernels {

/// The type in which sums over T are kept, accumulation_type in C++.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Names a type as a value: `make(As<float>{})`.
template <class T>
using As = std::type_identity<T>;

/// What an output of either type is told by: the storage type, or that of its sums where
/// `unrounded`.
template <class T, class Make>
auto for_output(bool unrounded, Make&& make) {
  return unrounded ? make(As<Sum<T>>{}) : make(As<T>{});
}

/// The storage type of a row all of whose tensors are kept `wide`, or none.
inline DType storage_of(bool wide, DType dtype) {
  return wide ? accumulation_type(dtype) : dtype;
}

/// make(As<T>{}) for the storage type: f32 or f64.
template <class Make>
Run for_float(DType dtype, Make&& make) {
  require(dtype == DType::f32 || dtype == DType::f64, "this kernel computes in f32 or f64");
  return dtype == DType::f32 ? make(As<float>{}) : make(As<double>{});
}

/// make(As<T>{}) for the storage type: f32, f64 or bf16.
template <class Make>
Run for_storage(DType dtype, Make&& make) {
  return dtype == DType::bf16 ? make(As<BFloat16>{}) : for_float(dtype, make);
}

}  // namespace fourfold::kernels
