// Asks for memory before it is used. What a kernel reads in a step was mostly written long before,
// so that it lies in main memory; where much is computed with each element, or rows lie apart, the
// CPU by itself does not look far enough ahead.
#pragma once

#include <cstdint>

namespace fourfold::kernels::cpu {

/// How far ahead of its use an element is asked for: about as long as main memory takes (200 ns)
/// passes before a core has computed with so many bytes.
inline constexpr std::int64_t fetch_ahead_bytes = 4096;

/// Brings `count` elements to the second-level cache, some time later.
template <class T>
inline void fetch(const T* data, std::int64_t count) {
  constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < count; i += line) __builtin_prefetch(data + i, 0, 2);
}

/// The same for elements that will be written: a cache line that is not there is read first.
template <class T>
inline void fetch_to_write(const T* data, std::int64_t count) {
  constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < count; i += line) __builtin_prefetch(data + i, 1, 2);
}

}  // namespace fourfold::kernels::cpu
