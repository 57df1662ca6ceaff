// Elements of tensors on the device: f32, and bf16 storage that is computed in f32; 16 bytes at a
// time where a tensor allows it.
#pragma once

#include <cstdint>
#include <type_traits>

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

/// The elements of an access, as they lie.
template <class T>
struct Pack {
  std::uint32_t words[4] = {};

  /// values[first ...], each stored as T.
  template <int count>
  __device__ static Pack of(const float (&values)[count], int first) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if constexpr (std::is_same_v<T, float>)
        pack.words[i] = __float_as_uint(values[first + i]);
      else
        pack.words[i] = bf16_pair(values[first + 2 * i], values[first + 2 * i + 1]);
    return pack;
  }
  __device__ float operator[](int i) const {
    if constexpr (std::is_same_v<T, float>)
      return __uint_as_float(words[i]);
    else
      return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000U);
  }
  __device__ T element(int i) const {
    if constexpr (std::is_same_v<T, float>) {
      return __uint_as_float(words[i]);
    } else {
      BFloat16 stored;
      stored.bits = static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16));
      return stored;
    }
  }
  /// Sets an element that is zero.
  __device__ void set(int i, T element) {
    if constexpr (std::is_same_v<T, float>)
      words[i] = __float_as_uint(element);
    else
      words[i / 2] |= static_cast<std::uint32_t>(element.bits) << (i % 2 * 16);
  }
};

/// Which elements of a pack are there: all, 16-byte aligned, or none.
struct WholePack {
  bool there;

  __device__ bool has(int) const { return there; }
  __device__ WholePack after(int) const { return *this; }
};
/// The first `count`; `whole` says that all are, and aligned.
struct PackPart {
  std::int64_t count;
  bool whole;

  __device__ bool has(int i) const { return i < count; }
  __device__ PackPart after(int elements) const { return {count - elements, whole}; }
};
/// The part of a pack from which on `left` > 0 elements are left.
template <class T>
__device__ PackPart part_of_pack(std::int64_t left, bool aligned) {
  return {left < pack_size<T> ? left : pack_size<T>, aligned && left >= pack_size<T>};
}

/// Zeros where nothing is there. The words are converted where they are used, after all ways have
/// joined: a warp then begins its next access before this one has come.
template <class T>
__device__ Pack<T> load_words_of(const T* from, WholePack part) {
  Pack<T> pack;
  if (part.there) load_words(from, pack.words);
  return pack;
}
template <class T>
__device__ Pack<T> load_words_of(const T* from, PackPart part) {
  Pack<T> pack;
  if (part.whole) {
    load_words(from, pack.words);
  } else {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (part.has(i)) pack.set(i, from[i]);
  }
  return pack;
}

template <class T>
__device__ void store_words_of(const Pack<T>& pack, WholePack part, T* to) {
  if (part.there) store_words(pack.words, to);
}
template <class T>
__device__ void store_words_of(const Pack<T>& pack, PackPart part, T* to) {
  if (part.whole) {
    store_words(pack.words, to);
  } else {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (part.has(i)) to[i] = pack.element(i);
  }
}

/// As many elements as a pack of T, which lie as X: as T, or wide, as float.
template <class T, class X>
struct PackOf {
  Pack<X> parts[pack_size<T> / pack_size<X>];

  __device__ float operator[](int i) const { return parts[i / pack_size<X>][i % pack_size<X>]; }
};

template <class T, class X, class Part>
__device__ PackOf<T, X> load_packs(const X* from, Part part) {
  PackOf<T, X> packs;
#pragma unroll
  for (int first = 0; first < pack_size<T>; first += pack_size<X>)
    packs.parts[first / pack_size<X>] = load_words_of(from + first, part.after(first));
  return packs;
}

/// Values, each stored as X.
template <class T, class X>
__device__ PackOf<T, X> packs_of(const float (&values)[pack_size<T>]) {
  PackOf<T, X> packs;
#pragma unroll
  for (int first = 0; first < pack_size<T>; first += pack_size<X>)
    packs.parts[first / pack_size<X>] = Pack<X>::of(values, first);
  return packs;
}

template <class T, class X, class Part>
__device__ void store_packs(const PackOf<T, X>& packs, Part part, X* to) {
#pragma unroll
  for (int first = 0; first < pack_size<T>; first += pack_size<X>)
    store_words_of(packs.parts[first / pack_size<X>], part.after(first), to + first);
}
template <class T, class X, class Part>
__device__ void store_packs(const float (&values)[pack_size<T>], Part part, X* to) {
  store_packs<T>(packs_of<T, X>(values), part, to);
}

/// `count` <= pack_size elements from `from`; `whole` says that all are there and 16-byte aligned.
template <class T, class X>
__device__ void load_pack_of(const X* from, bool whole, std::int64_t count,
                             float (&values)[pack_size<T>]) {
  const auto packs = load_packs<T>(from, PackPart{count, whole});
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i) values[i] = packs[i];
}
template <class T>
__device__ void load_pack(const T* from, bool whole, std::int64_t count,
                          float (&values)[pack_size<T>]) {
  load_pack_of<T>(from, whole, count, values);
}

template <class T, class X>
__device__ void store_pack_of(const float (&values)[pack_size<T>], bool whole, std::int64_t count,
                              X* to) {
  store_packs<T>(values, PackPart{count, whole}, to);
}
template <class T>
__device__ void store_pack(const float (&values)[pack_size<T>], bool whole, std::int64_t count,
                           T* to) {
  store_pack_of<T>(values, whole, count, to);
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
