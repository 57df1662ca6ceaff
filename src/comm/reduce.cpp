#include "comm/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace fourfold::comm {
namespace {

/// What is worked on at once: a block of each of some terms stays in the first-level cache (32 KiB
/// and more on x86-64 servers).
constexpr std::size_t block_elements = 1024;

template <class T>
using Sum = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));  // as fourfold::wrapping_add
    } else {
      return a + b;
    }
  }
};

struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return a < b ? b : a;
    // The second test keeps a NaN in `a`; a NaN in `b` fails the first.
    return b <= a || a != a ? a : b;
  }
};

template <class T>
Sum<T> load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<Sum<T>>(value);
}

template <class T>
void store(std::byte* at, Sum<T> sum) {
  const T value(sum);
  std::memcpy(at, &value, sizeof value);
}

template <class T, class Op>
void reduce_block(std::span<const std::byte* const> terms, std::span<std::byte* const> results,
                  std::size_t at, std::size_t count, Op op) {
  alignas(64) Sum<T> sums[block_elements];
  for (std::size_t i = 0; i < count; ++i) sums[i] = load<T>(terms[0] + at + i * sizeof(T));
  for (const std::byte* const term : terms.subspan(1))
    for (std::size_t i = 0; i < count; ++i)
      sums[i] = op(sums[i], load<T>(term + at + i * sizeof(T)));
  std::byte* const first = results[0] + at;
  for (std::size_t i = 0; i < count; ++i) store<T>(first + i * sizeof(T), sums[i]);
  for (std::byte* const result : results.subspan(1))
    std::memcpy(result + at, first, count * sizeof(T));
}

template <class T, class Op>
void reduce_all(std::span<const std::byte* const> terms, std::span<std::byte* const> results,
                std::size_t begin, std::size_t end, Op op) {
  for (std::size_t at = begin; at < end;) {
    const std::size_t count = std::min(block_elements, (end - at) / sizeof(T));
    reduce_block<T>(terms, results, at, count, op);
    at += count * sizeof(T);
  }
}

template <class T, class Op>
void reduce_pair(const std::byte* with, std::byte* into, std::size_t count, Op op) {
  for (std::size_t i = 0; i < count; ++i)
    store<T>(into + i * sizeof(T),
             op(load<T>(into + i * sizeof(T)), load<T>(with + i * sizeof(T))));
}

template <class Visit>
void visit_type(DType type, Visit&& visit) {
  switch (type) {
    case DType::f32:
      return visit(float());
    case DType::f64:
      return visit(double());
    case DType::bf16:
      return visit(BFloat16());
    case DType::i32:
      return visit(std::int32_t());
    case DType::i64:
      return visit(std::int64_t());
    case DType::u64:
      return visit(std::uint64_t());
    case DType::u8:
      return visit(std::uint8_t());
  }
  fail_internal("the element type is one of the enumeration");
}

template <class Visit>
void visit_reduction(Reduction reduction, Visit&& visit) {
  if (reduction == Reduction::sum) return visit(Add());
  return visit(Larger());
}

}  // namespace

void reduce(std::span<const std::byte* const> terms, std::span<std::byte* const> results,
            std::size_t begin, std::size_t end, DType type, Reduction reduction) {
  visit_type(type, [&](auto element) {
    visit_reduction(
        reduction, [&](auto op) { reduce_all<decltype(element)>(terms, results, begin, end, op); });
  });
}

void reduce_into(const std::byte* with, std::byte* into, std::size_t count, DType type,
                 Reduction reduction) {
  visit_type(type, [&](auto element) {
    visit_reduction(reduction,
                    [&](auto op) { reduce_pair<decltype(element)>(with, into, count, op); });
  });
}

}  // namespace fourfold::comm
