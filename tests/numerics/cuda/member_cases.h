// Cases of sums and maxima over the buffers of several ranks in the memory of one device, against
// those of the host (comm/reduce.h), in whatever memory a caller provides. Header only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "base/random.h"
#include "comm/reduce.h"
#include "kernels/cuda/reduce_members.h"
#include "numerics/cuda/copy_cases.h"

namespace fourfold::numerics {

/// Members' buffers, one after another in one array of bytes that begins at a multiple of 16.
struct MemberBuffers {
  std::int64_t count = 0;  // elements of each
  DType type = DType::f32;
  std::size_t members = 1;

  std::size_t size() const {
    return static_cast<std::size_t>((count * size_bytes(type) + 15) / 16 * 16);
  }
  template <class Byte>
  std::vector<Byte*> places(Byte* first) const {
    std::vector<Byte*> list;
    for (std::size_t i = 0; i < members; ++i) list.push_back(first + i * size());
    return list;
  }
};

/// Random numbers of many sizes, and among floats one NaN, so that the order of a sum shows.
inline Bytes member_values(const MemberBuffers& buffers) {
  const Random random(3, random_stream("test.members"));
  Bytes bytes(buffers.size() * buffers.members);
  for (std::size_t member = 0; member < buffers.members; ++member)
    for (std::int64_t i = 0; i < buffers.count; ++i) {
      std::byte* const at = bytes.data() + member * buffers.size() + i * size_bytes(buffers.type);
      const auto draw = static_cast<std::uint64_t>(i) * buffers.members + member;
      const double exponent = static_cast<double>(random.below(24, draw, 0)) - 12;
      double value = random.normal(draw, 1) * std::exp2(exponent);
      if (i == 5 && member + 1 == buffers.members) value = std::numeric_limits<double>::quiet_NaN();
      const auto put = [&](auto number) { std::memcpy(at, &number, sizeof number); };
      if (buffers.type == DType::f32)
        put(static_cast<float>(value));
      else if (buffers.type == DType::f64)
        put(value);
      else if (buffers.type == DType::bf16)
        put(BFloat16(static_cast<float>(value)));
      else
        for (std::int64_t byte = 0; byte < size_bytes(buffers.type); ++byte)
          at[byte] =
              static_cast<std::byte>(random.below(256, draw, 2 + static_cast<std::uint32_t>(byte)));
    }
  return bytes;
}

/// The NaN that a sum gives has no bits that are agreed on.
inline void expect_same_elements(const Bytes& got, const Bytes& expected, DType type,
                                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  const auto size = static_cast<std::size_t>(size_bytes(type));
  const auto is_nan = [&](const Bytes& bytes, std::size_t at) {
    if (type == DType::f32) {
      float value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      return value != value;
    }
    if (type == DType::f64) {
      double value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof value);
      return value != value;
    }
    BFloat16 value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    const auto wide = static_cast<float>(value);
    return type == DType::bf16 && wide != wide;
  };
  for (std::size_t at = 0; at + size <= got.size(); at += size) {
    if (std::memcmp(got.data() + at, expected.data() + at, size) == 0) continue;
    ASSERT_TRUE(is_nan(got, at) && is_nan(expected, at)) << what << ", byte " << at;
  }
}

inline void expect_members_reduced(const MemberBuffers& buffers, Reduction reduction,
                                   const InMemory& in_memory) {
  const std::string what =
      format("{} {} of {} members, {} elements", to_string(buffers.type),
             reduction == Reduction::sum ? "sum" : "max", buffers.members, buffers.count);
  const Bytes values = member_values(buffers);
  Bytes source = values;
  // One result more than there are terms, which are left as they are.
  MemberBuffers written = buffers;
  written.members += 1;
  Bytes expected(written.size() * written.members, std::byte{0xA5}), got = expected;
  const auto end = static_cast<std::size_t>(buffers.count * size_bytes(buffers.type));
  std::vector<const std::byte*> terms = buffers.places<const std::byte>(source.data());
  comm::reduce(terms, written.places<std::byte>(expected.data()), 0, end, buffers.type, reduction);
  in_memory(source, got, [&](const std::byte* read, std::byte* to) {
    kernels::cuda::reduce_members(buffers.places<const std::byte>(read),
                                  written.places<std::byte>(to), buffers.count, buffers.type,
                                  reduction, nullptr);
  });
  expect_same_elements(got, expected, buffers.type, what);
  // Where the terms lie.
  Bytes in_place = values, expected_in_place = values;
  const std::vector<const std::byte*> own =
      buffers.places<const std::byte>(expected_in_place.data());
  comm::reduce(own, buffers.places<std::byte>(expected_in_place.data()), 0, end, buffers.type,
               reduction);
  in_memory({}, in_place, [&](const std::byte*, std::byte* both) {
    kernels::cuda::reduce_members(buffers.places<const std::byte>(both),
                                  buffers.places<std::byte>(both), buffers.count, buffers.type,
                                  reduction, nullptr);
  });
  expect_same_elements(in_place, expected_in_place, buffers.type, what + ", in place");
}

inline void expect_all_members_reduced(const InMemory& in_memory) {
  for (const DType type :
       {DType::f32, DType::bf16, DType::f64, DType::i64, DType::u64, DType::i32, DType::u8})
    for (const Reduction reduction : {Reduction::sum, Reduction::max})
      for (const std::size_t members :
           {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{16}})
        for (const std::int64_t count : {7, 1000})
          expect_members_reduced({count, type, members}, reduction, in_memory);
}

}  // namespace fourfold::numerics
