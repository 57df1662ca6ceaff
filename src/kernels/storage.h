// From the DType of a problem to a kernel's template parameter, and the types in which a storage
// type is summed. Not arithmetic: kernels cast with static_cast<Sum<T>>, or summed(), when they
// load and with static_cast<T>, or store(), when they store.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/kernel.h"

namespace fourfold::kernels {

/// The type in which sums over T are kept, accumulation_type in C++.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// An element in the type in which it is summed.
template <class T>
Sum<T> summed(T x) {
  return static_cast<Sum<T>>(x);
}

/// The type in which rows that take integers too compute each element.
template <class T>
using Computing = std::conditional_t<std::is_integral_v<T>, T, Sum<T>>;
/// to = value, rounded where storing rounds. GCC 12 makes no vector code of an assignment of
/// BFloat16 under `omp simd`, and of this one it does: eight times as fast.
template <class T>
void store(T& to, Computing<T> value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    to.bits = BFloat16(value).bits;
  else
    to = value;
}

/// What is read again where a value was stored as T.
template <class T>
Sum<T> rounded(Sum<T> value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(BFloat16(value).bits) << 16);
  else
    return value;
}

/// The type in which an operand of such an element is stored.
template <class T, op::Element element>
using Stored = std::conditional_t<element == op::Element::accumulate, Computing<T>, T>;

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

/// make(As<T>{}, As<X>{}): the storage type, and that of what a row keeps `wide`.
template <class Make>
Run for_wide(bool wide, DType dtype, Make&& make) {
  return for_storage(dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(wide, [&]<class X>(As<X>) -> Run { return make(As<T>{}, As<X>{}); });
  });
}

}  // namespace fourfold::kernels
