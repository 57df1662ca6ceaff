// Row 55 of the robustness catalogue (tests/README.md): column slices whose rows stand gigabytes
// apart.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "run/prepared_program.h"
#include "support/sparse_memory.h"

namespace fourfold::run {
namespace {

TEST(Row55, rows_are_copied_over_a_pitch_beyond_31_and_32_bits) {
  for (const std::int64_t pitch : {(std::int64_t{1} << 31) + 64, (std::int64_t{1} << 32) + 64}) {
    constexpr std::int64_t rows = 4, row_bytes = 8;
    const test::SparseMemory wide(rows * pitch);
    if (!wide.is_there()) GTEST_SKIP() << "no address space of 16 GiB is to be had";
    for (std::int64_t row = 0; row < rows; ++row)
      std::memset(wide.data() + row * pitch, 'a' + static_cast<int>(row), row_bytes);
    std::string dense(rows * row_bytes, '?');
    const Rows from{wide.data(), rows, row_bytes, pitch};
    const Rows to{reinterpret_cast<std::byte*>(dense.data()), 1, rows * row_bytes,
                  rows * row_bytes};
    copy_rows(from, to);
    EXPECT_EQ(dense, "aaaaaaaabbbbbbbbccccccccdddddddd");
    dense = "11111111222222223333333344444444";
    copy_rows(to, from);
    for (std::int64_t row = 0; row < rows; ++row)
      EXPECT_EQ(std::memcmp(wide.data() + row * pitch, dense.data() + row * row_bytes, row_bytes),
                0);
    EXPECT_EQ(wide.data()[pitch - 1], std::byte{0});
  }
}

}  // namespace
}  // namespace fourfold::run
