// Copies and reorderings of a program as what a device copies in one go: rows of equal length at
// equal distances. Plain arithmetic on addresses, which are never followed.
#pragma once

#include <vector>

#include "run/cuda/device.h"
#include "run/prepared_program.h"
#include "run/reorder.h"

namespace fourfold::run::cuda {

/// As run::copy_rows: the same bytes in the same order, whatever the rows of both sides. One copy
/// where both sides have rows of one length or one side is dense; as many as rows of the shorter
/// kind make one of the longer where they divide.
std::vector<RowCopy> row_copies(const Rows& from, const Rows& to);

/// As run::unpack, and the copies of run::pack.
std::vector<RowCopy> pack_copies(const Reorder& order, std::byte* plain, std::byte* blocked);
std::vector<RowCopy> unpack_copies(const Reorder& order, std::byte* plain, std::byte* blocked);

/// What pack fills with zeros: the end of each row of a part.
struct RowClear {
  std::byte* memory = nullptr;
  std::int64_t pitch = 0, row_bytes = 0, rows = 1;
};
std::vector<RowClear> pack_padding(const Reorder& order, std::byte* blocked);

}  // namespace fourfold::run::cuda
