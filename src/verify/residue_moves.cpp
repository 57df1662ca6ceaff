#include "verify/residue_moves.h"

#include <algorithm>

namespace fourfold::verify {
namespace {

void append_cells(const Cells& from, std::size_t begin, std::size_t count, Cells& to) {
  const auto append = [&](const auto& source, auto& target) {
    if (source.empty()) return;
    const auto start = source.begin() + static_cast<std::ptrdiff_t>(begin);
    target.insert(target.end(), start, start + static_cast<std::ptrdiff_t>(count));
  };
  append(from.words, to.words);
  append(from.kinds, to.kinds);
  append(from.writers, to.writers);
}
void copy_cell(const Cells& from, std::size_t source, Cells& to, std::size_t target) {
  to.words[target] = from.words[source];
  to.kinds[target] = from.kinds[source];
  if (!from.writers.empty()) to.writers[target] = from.writers[source];
}

/// A tensor whose dim is cut into equal shares that stand one after another.
struct BlockedSizes {
  std::int64_t outer, size, inner;  // elements before, in and after the dim
  std::int64_t share;
};
/// Nothing where the slices are not a blocked buffer and a plain tensor of its shape.
std::optional<BlockedSizes> blocked_sizes(const Program& program, const Slice& blocked,
                                          const Slice& plain) {
  const Buffer& buffer = program.buffer(blocked.buffer);
  if (!buffer.blocked || buffer.blocked->share < 1 ||
      program.buffer(plain.buffer).dtype != buffer.dtype)
    return std::nullopt;
  const Shape local = program.local_shape(blocked.buffer);
  const std::size_t dim = buffer.blocked->dim;
  const BlockedSizes sizes{local.elements(0, dim), local[dim],
                           local.elements(dim + 1, local.rank()), buffer.blocked->share};
  const auto count = [&](const Slice& slice) {
    return static_cast<std::int64_t>(ResidueMemory::count(slice, buffer.dtype));
  };
  const std::int64_t around = sizes.outer * sizes.inner;
  if (count(plain) != around * sizes.size || count(blocked) < around * sizes.size ||
      count(blocked) % std::max<std::int64_t>(1, around * sizes.share) != 0)
    return std::nullopt;
  return sizes;
}

/// Calls visit(index in the plain tensor, index in the blocked one) for each element of the plain
/// one.
template <class Visit>
void for_each_packed(const BlockedSizes& s, Visit&& visit) {
  std::size_t plain = 0;
  for (std::int64_t outer = 0; outer < s.outer; ++outer)
    for (std::int64_t i = 0; i < s.size; ++i)
      for (std::int64_t inner = 0; inner < s.inner; ++inner) {
        const std::int64_t row = (i / s.share * s.outer + outer) * s.share + i % s.share;
        visit(plain++, static_cast<std::size_t>(row * s.inner + inner));
      }
}

}  // namespace

Cells joined(std::span<const Cells> shares) {
  Cells all;
  for (const Cells& share : shares) append_cells(share, 0, share.size(), all);
  return all;
}

std::vector<Cells> divided(const Cells& whole, std::size_t count) {
  if (whole.size() % count != 0) return {};
  std::vector<Cells> shares(count);
  const std::size_t size = whole.size() / count;
  for (std::size_t i = 0; i < count; ++i) append_cells(whole, i * size, size, shares[i]);
  return shares;
}

std::optional<Cells> packed(const Program& program, const Pack& what, const Cells& from) {
  const auto sizes = blocked_sizes(program, what.to, what.from);
  if (!sizes) return std::nullopt;
  const DType type = program.buffer(what.to.buffer).dtype;
  Cells to;
  to.resize(ResidueMemory::count(what.to, type), !from.writers.empty());
  std::ranges::fill(to.kinds, element_kind(type));
  for_each_packed(
      *sizes, [&](std::size_t plain, std::size_t blocked) { copy_cell(from, plain, to, blocked); });
  return to;
}

std::optional<Cells> unpacked(const Program& program, const Unpack& what, const Cells& from) {
  const auto sizes = blocked_sizes(program, what.from, what.to);
  if (!sizes) return std::nullopt;
  Cells to;
  to.resize(ResidueMemory::count(what.to, program.buffer(what.to.buffer).dtype),
            !from.writers.empty());
  for_each_packed(
      *sizes, [&](std::size_t plain, std::size_t blocked) { copy_cell(from, blocked, to, plain); });
  return to;
}

}  // namespace fourfold::verify
