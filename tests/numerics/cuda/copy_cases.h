// Cases of the copies within device memory, against those of the CPU backend (run/), in whatever
// memory a caller provides. Header only.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "base/format.h"
#include "kernels/cuda/copy.h"
#include "run/prepared_program.h"

namespace fourfold::numerics {

using Bytes = std::vector<std::byte>;

/// Calls `copy` with the bytes of both, which begin at multiples of 16, in the memory that kernels
/// see; afterwards `to` holds what was written.
using InMemory = std::function<void(const Bytes& from, Bytes& to,
                                    const std::function<void(const std::byte*, std::byte*)>& copy)>;

inline Bytes counted(std::int64_t bytes) {
  Bytes values(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i * 37 >> 2);
  return values;
}

/// Rows on one side: `first` bytes into its memory.
struct Side {
  std::int64_t first, rows, row_bytes, pitch_bytes;
  std::int64_t end() const { return first + (rows - 1) * pitch_bytes + row_bytes; }
};

inline void expect_rows_copied(const Side& from, const Side& to, const InMemory& in_memory) {
  const Bytes source = counted(from.end() + 32);
  const Bytes painted(static_cast<std::size_t>(to.end() + 32), std::byte{0xA5});
  Bytes expected = painted, got = painted;
  // run::copy_rows takes rows that can be written.
  auto* start = const_cast<std::byte*>(source.data());
  run::copy_rows({start + from.first, from.rows, from.row_bytes, from.pitch_bytes},
                 {expected.data() + to.first, to.rows, to.row_bytes, to.pitch_bytes});
  in_memory(source, got, [&](const std::byte* read, std::byte* written) {
    kernels::cuda::copy_rows(
        {const_cast<std::byte*>(read) + from.first, from.rows, from.row_bytes, from.pitch_bytes},
        {written + to.first, to.rows, to.row_bytes, to.pitch_bytes}, nullptr);
  });
  EXPECT_TRUE(got == expected) << format(
      "{} rows of {} bytes every {} from {} to {} rows of {} bytes every {} at {}", from.rows,
      from.row_bytes, from.pitch_bytes, from.first, to.rows, to.row_bytes, to.pitch_bytes,
      to.first);
}

/// Equal rows, rows cut differently, dense ones, long and short ones, at odd places.
inline void expect_all_rows_copied(const InMemory& in_memory) {
  for (const std::int64_t first : {0, 16, 4, 2, 1})
    for (const auto& [from, to] :
         std::vector<std::pair<Side, Side>>{{{first, 1, 48, 48}, {0, 1, 48, 48}},
                                            {{0, 5, 32, 64}, {first, 5, 32, 48}},
                                            {{first, 6, 32, 40}, {0, 2, 96, 112}},
                                            {{0, 3, 40, 56}, {first, 5, 24, 24}},
                                            {{first, 4, 6, 10}, {8, 3, 8, 12}},
                                            {{0, 7, 3, 5}, {first, 1, 21, 21}},
                                            {{first, 1, 1, 1}, {3, 1, 1, 1}},
                                            {{0, 2, 70'000, 70'016}, {first, 1, 140'000, 140'000}},
                                            {{first, 300, 512, 768}, {0, 300, 512, 512}}})
      expect_rows_copied(from, to, in_memory);
}

inline void expect_reordered(const run::Reorder& order, std::int64_t first,
                             const InMemory& in_memory) {
  const kernels::cuda::BlockOrder same{order.shares, order.outer, order.length, order.share_length,
                                       order.inner_bytes};
  const auto place = static_cast<std::size_t>(first);
  const auto plain_bytes = static_cast<std::size_t>(order.plain_bytes()),
             blocked_bytes = static_cast<std::size_t>(order.blocked_bytes());
  const std::string what =
      format("{} parts of {} of a dim of {}, {} outer, {} inner bytes, first {}", order.shares,
             order.share_length, order.length, order.outer, order.inner_bytes, first);
  const Bytes plain = counted(order.plain_bytes() + first + 16);
  Bytes blocked(blocked_bytes + 16, std::byte{0xA5}), expected = blocked;
  run::pack(order, plain.data() + place, expected.data(), 1);
  in_memory(plain, blocked, [&](const std::byte* read, std::byte* written) {
    kernels::cuda::pack(same, read + place, written, nullptr);
  });
  EXPECT_TRUE(blocked == expected) << "pack: " << what;
  Bytes back(plain_bytes + place + 16, std::byte{0xA5});
  in_memory(blocked, back, [&](const std::byte* read, std::byte* written) {
    kernels::cuda::unpack(same, read, written + place, nullptr);
  });
  Bytes whole(back.size(), std::byte{0xA5});
  std::memcpy(whole.data() + place, plain.data() + place, plain_bytes);
  EXPECT_TRUE(back == whole) << "unpack: " << what;
}

/// Whole parts, padded ones, parts that are padding altogether; elements of 2 to 3072 bytes.
inline void expect_all_reordered(const InMemory& in_memory) {
  for (const std::int64_t first : {0, 4, 2})
    for (const run::Reorder& order : std::vector<run::Reorder>{{4, 1, 8, 2, 16},
                                                               {2, 3, 7, 4, 12},
                                                               {3, 5, 7, 3, 2},
                                                               {5, 2, 7, 2, 40},
                                                               {4, 2, 7, 4, 64},
                                                               {1, 7, 9, 9, 6},
                                                               {2, 1, 40, 20, 3072},
                                                               {8, 300, 8, 1, 128}})
      expect_reordered(order, first, in_memory);
}

}  // namespace fourfold::numerics
