// Elements of tensors on the device: f32, and bf16 storage that is computed in f32; 16 bytes at a
// time where a tensor allows it.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cuda/device.cuh"
#include "kernels/storage.h"

namespace fourfold::kernels::cuda {

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(BFloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

template <class T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline BFloat16 from_float<BFloat16>(float value) {
  BFloat16 rounded;
  rounded.bits = bf16_bits(value);
  return rounded;
}

/// What `value` is once it was stored as T.
template <class T>
__device__ float stored(float value) {
  return to_float(from_float<T>(value));
}

/// As many elements as one access moves.
template <class T>
inline constexpr int pack_size = 16 / static_cast<int>(sizeof(T));

/// `count` <= pack_size elements from `from`; `whole` says that all are there and 16-byte aligned.
template <class T>
__device__ void load_pack(const T* from, bool whole, std::int64_t count,
                          float (&values)[pack_size<T>]) {
  struct alignas(16) Pack {
    T elements[pack_size<T>];
  };
  if (whole) {
    const Pack pack = *reinterpret_cast<const Pack*>(from);
    for (int i = 0; i < pack_size<T>; ++i) values[i] = to_float(pack.elements[i]);
  } else {
    for (int i = 0; i < pack_size<T>; ++i) values[i] = i < count ? to_float(from[i]) : 0.F;
  }
}

template <class T>
__device__ void store_pack(const float (&values)[pack_size<T>], bool whole, std::int64_t count,
                           T* to) {
  struct alignas(16) Pack {
    T elements[pack_size<T>];
  };
  if (whole) {
    Pack pack;
    for (int i = 0; i < pack_size<T>; ++i) pack.elements[i] = from_float<T>(values[i]);
    *reinterpret_cast<Pack*>(to) = pack;
  } else {
    for (int i = 0; i < pack_size<T>; ++i)
      if (i < count) to[i] = from_float<T>(values[i]);
  }
}

/// As load_pack<T> and store_pack<T>, where the elements lie as X: as T, or wide, as float.
template <class T, class X>
__device__ void load_pack_of(const X* from, bool whole, std::int64_t count,
                             float (&values)[pack_size<T>]) {
  constexpr int size = pack_size<X>;
  for (int part = 0; part < pack_size<T>; part += size) {
    float some[size];
    load_pack<X>(from + part, whole, count - part, some);
    for (int i = 0; i < size; ++i) values[part + i] = some[i];
  }
}

template <class T, class X>
__device__ void store_pack_of(const float (&values)[pack_size<T>], bool whole, std::int64_t count,
                              X* to) {
  constexpr int size = pack_size<X>;
  for (int part = 0; part < pack_size<T>; part += size) {
    float some[size];
    for (int i = 0; i < size; ++i) some[i] = values[part + i];
    store_pack<X>(some, whole, count - part, to + part);
  }
}

/// make(As<X>{}) for a tensor of a row on T: T, or float where it is `wide`.
template <class T, class Make>
Enqueue for_wide(bool wide, Make&& make) {
  return wide ? make(As<float>{}) : make(As<T>{});
}

/// True if packs of T may be accessed at all of these.
template <class... Pointers>
bool are_aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// make(As<T>{}) for the storage type: f32 or bf16.
template <class Make>
Enqueue for_element(DType dtype, Make&& make) {
  require(dtype == DType::f32 || dtype == DType::bf16, "CUDA kernels compute on f32 or bf16");
  return dtype == DType::f32 ? make(As<float>{}) : make(As<BFloat16>{});
}

}  // namespace fourfold::kernels::cuda
