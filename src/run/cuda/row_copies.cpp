#include "run/cuda/row_copies.h"

#include <algorithm>

namespace fourfold::run::cuda {
namespace {

std::int64_t bytes_of(const Rows& rows) {
  return rows.rows * rows.row_bytes;
}

/// Dense memory has rows of any length.
Rows cut_as(const Rows& rows, const Rows& other) {
  const bool is_dense = rows.rows == 1 || rows.pitch_bytes == rows.row_bytes;
  const bool fits = other.row_bytes > 0 && bytes_of(rows) % other.row_bytes == 0;
  if (!is_dense || !fits) return rows;
  return {rows.start, bytes_of(rows) / other.row_bytes, other.row_bytes, other.row_bytes};
}

RowCopy copy_of(std::byte* to, std::int64_t to_pitch, const std::byte* from,
                std::int64_t from_pitch, std::int64_t row_bytes, std::int64_t rows) {
  return {to,  std::max(to_pitch, row_bytes), from, std::max(from_pitch, row_bytes), row_bytes,
          rows};
}

/// Each row of `from` makes several of `to`.
void split_longer_from(const Rows& from, const Rows& to, std::vector<RowCopy>& copies) {
  const std::int64_t parts = from.row_bytes / to.row_bytes;
  for (std::int64_t part = 0; part < parts; ++part)
    copies.push_back(copy_of(to.start + part * to.pitch_bytes, parts * to.pitch_bytes,
                             from.start + part * to.row_bytes, from.pitch_bytes, to.row_bytes,
                             from.rows));
}

void split_longer_to(const Rows& from, const Rows& to, std::vector<RowCopy>& copies) {
  const std::int64_t parts = to.row_bytes / from.row_bytes;
  for (std::int64_t part = 0; part < parts; ++part)
    copies.push_back(copy_of(to.start + part * from.row_bytes, to.pitch_bytes,
                             from.start + part * from.pitch_bytes, parts * from.pitch_bytes,
                             from.row_bytes, to.rows));
}

/// Run by run, for rows of which neither length divides the other.
void copy_runs(const Rows& from, const Rows& to, std::vector<RowCopy>& copies) {
  std::int64_t from_row = 0, to_row = 0, from_at = 0, to_at = 0;
  while (from_row < from.rows && to_row < to.rows) {
    const std::int64_t bytes = std::min(from.row_bytes - from_at, to.row_bytes - to_at);
    copies.push_back(copy_of(to.start + to_row * to.pitch_bytes + to_at, bytes,
                             from.start + from_row * from.pitch_bytes + from_at, bytes, bytes, 1));
    from_at += bytes;
    to_at += bytes;
    if (from_at == from.row_bytes) ++from_row, from_at = 0;
    if (to_at == to.row_bytes) ++to_row, to_at = 0;
  }
}

struct Part {
  std::int64_t first_byte = 0;  // of its rows in a plain row
  std::int64_t bytes = 0;       // of a row that are values
  std::int64_t room = 0;        // of a row in the part
};

Part part_of(const Reorder& order, std::int64_t part) {
  const std::int64_t first = std::min(part * order.part_length, order.length);
  const std::int64_t count = std::min(order.part_length, order.length - first);
  return {first * order.inner_bytes, count * order.inner_bytes,
          order.part_length * order.inner_bytes};
}

}  // namespace

std::vector<RowCopy> row_copies(const Rows& wide_from, const Rows& wide_to) {
  const Rows from = cut_as(wide_from, wide_to), to = cut_as(wide_to, from);
  std::vector<RowCopy> copies;
  const bool is_in_place = from.start == to.start && from.row_bytes == to.row_bytes &&
                           (from.rows == 1 || from.pitch_bytes == to.pitch_bytes);
  if (is_in_place || bytes_of(from) == 0) return copies;
  if (from.row_bytes == to.row_bytes)
    copies.push_back(
        copy_of(to.start, to.pitch_bytes, from.start, from.pitch_bytes, to.row_bytes, to.rows));
  else if (from.row_bytes % to.row_bytes == 0)
    split_longer_from(from, to, copies);
  else if (to.row_bytes % from.row_bytes == 0)
    split_longer_to(from, to, copies);
  else
    copy_runs(from, to, copies);
  return copies;
}

std::vector<RowCopy> pack_copies(const Reorder& order, std::byte* plain, std::byte* blocked) {
  std::vector<RowCopy> copies;
  for (std::int64_t i = 0; i < order.parts; ++i) {
    const Part part = part_of(order, i);
    if (part.bytes > 0)
      copies.push_back({blocked + i * order.outer * part.room, part.room, plain + part.first_byte,
                        order.length * order.inner_bytes, part.bytes, order.outer});
  }
  return copies;
}

std::vector<RowCopy> unpack_copies(const Reorder& order, std::byte* plain, std::byte* blocked) {
  std::vector<RowCopy> copies;
  for (std::int64_t i = 0; i < order.parts; ++i) {
    const Part part = part_of(order, i);
    if (part.bytes > 0)
      copies.push_back({plain + part.first_byte, order.length * order.inner_bytes,
                        blocked + i * order.outer * part.room, part.room, part.bytes, order.outer});
  }
  return copies;
}

std::vector<RowClear> pack_padding(const Reorder& order, std::byte* blocked) {
  std::vector<RowClear> clears;
  for (std::int64_t i = 0; i < order.parts; ++i) {
    const Part part = part_of(order, i);
    if (part.room > part.bytes)
      clears.push_back({blocked + i * order.outer * part.room + part.bytes, part.room,
                        part.room - part.bytes, order.outer});
  }
  return clears;
}

}  // namespace fourfold::run::cuda
