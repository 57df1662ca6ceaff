#include "verify/residue_memory.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace fourfold::verify {
namespace {

/// The sizes of elements that stand in a region, as a set of powers of two: blocks have fields of 4
/// bytes and of 8.
unsigned sizes_in(const Bundle& bundle, Region region) {
  unsigned sizes = 0;
  for (const Program& program : bundle.programs)
    for (const Buffer& buffer : program.buffers) {
      if (buffer.region != region || buffer.role == BufferRole::workspace) continue;
      sizes |= static_cast<unsigned>(size_bytes(buffer.dtype));
      if (buffer.role == BufferRole::step_block)
        sizes |= static_cast<unsigned>(size_bytes(DType::i32));
    }
  return sizes == 0 ? 8 : sizes;
}
std::size_t smallest(unsigned sizes) {
  return std::size_t{1} << static_cast<unsigned>(std::countr_zero(sizes));
}
std::size_t place_of_size(std::size_t size) {
  return static_cast<std::size_t>(std::countr_zero(size));
}

std::int64_t bytes_of(const Bundle& bundle, Region region) {
  return region == Region::persistent ? bundle.persistent_bytes : bundle.transient_bytes;
}

}  // namespace

ResidueMemory::Memory::Memory(const Bundle& bundle, Region region, bool is_traced) {
  const unsigned sizes = sizes_in(bundle, region);
  const auto bytes = static_cast<std::size_t>(bytes_of(bundle, region));
  shift = std::countr_zero(sizes);
  largest = std::bit_floor(sizes);
  for (std::size_t size = 1; size <= largest; size *= 2)
    if ((sizes & size) != 0)
      words[place_of_size(size)] = std::make_unique_for_overwrite<op::Residue[]>(bytes / size + 1);
  kinds.resize((bytes >> shift) + 1);
  writers.resize(is_traced ? kinds.size() : 0);
}

std::int64_t ResidueMemory::bytes_for(const Bundle& bundle, bool is_traced) {
  std::int64_t bytes = 0;
  for (const Region region : {Region::persistent, Region::transient}) {
    const unsigned sizes = sizes_in(bundle, region);
    const auto of_kind =
        static_cast<std::int64_t>(sizeof(ElementKind) + (is_traced ? sizeof(std::uint32_t) : 0));
    // Integers, and the smaller numbers of a computation, are few: their words take no more than
    // those of the largest.
    bytes += bytes_of(bundle, region) *
             (2 * static_cast<std::int64_t>(sizeof(op::Residue) / std::bit_floor(sizes)));
    bytes += bytes_of(bundle, region) / static_cast<std::int64_t>(smallest(sizes)) * of_kind;
  }
  return bytes;
}

ResidueMemory::ResidueMemory(const Bundle& bundle, bool is_traced)
    : persistent_(bundle, Region::persistent, is_traced),
      transient_(bundle, Region::transient, is_traced),
      is_traced_(is_traced) {}

void ResidueMemory::begin(std::int64_t step) {
  parity_ = step & 1;
  std::ranges::fill(transient_.kinds, no_element);
}

void ResidueMemory::clear() {
  std::ranges::fill(persistent_.kinds, no_element);
  std::ranges::fill(transient_.kinds, no_element);
}

template <class Visit>
void ResidueMemory::for_each_row(const Program& program, const Slice& slice, DType type,
                                 Visit&& visit) const {
  const Buffer& buffer = program.buffer(slice.buffer);
  const auto in_row = static_cast<std::size_t>(slice.row_bytes / size_bytes(type));
  std::int64_t begin = buffer.offset_bytes + slice.offset_bytes +
                       (buffer.two_by_parity ? parity_ * buffer.size_bytes : 0);
  std::size_t number = 0;
  for (std::int64_t row = 0; row < slice.rows; ++row, begin += slice.pitch_bytes, number += in_row)
    visit(number, static_cast<std::size_t>(begin), in_row);
}

void ResidueMemory::load(const Program& program, const Slice& slice, DType type,
                         Cells& into) const {
  const Memory& memory = of(program, slice);
  into.resize(count(slice, type), is_traced_);
  const auto size = static_cast<std::size_t>(size_bytes(type));
  const op::Residue* words = memory.words[place_of_size(size)].get();
  require(words != nullptr, "the buffers of a region have all sizes of elements in it");
  for_each_row(program, slice, type, [&](std::size_t number, std::size_t byte, std::size_t count) {
    std::copy_n(words + byte / size, count, into.words.data() + number);
    for (std::size_t i = 0; i < count; ++i) {
      const ElementKind kind = memory.kinds[(byte + i * size) >> memory.shift];
      into.kinds[number + i] = (kind & ~integer_kind) == size ? kind : no_element;
    }
    for (std::size_t i = 0; is_traced_ && i < count; ++i)
      into.writers[number + i] = memory.writers[(byte + i * size) >> memory.shift];
  });
}

void ResidueMemory::Memory::put_kinds(std::size_t byte, std::size_t size,
                                      std::span<const ElementKind> of_elements) {
  // A larger element that begins before these bytes and has some of them is one no more.
  for (std::size_t larger = 2 * size; larger <= largest; larger *= 2) {
    ElementKind& around = kinds[(byte & ~(larger - 1)) >> shift];
    if (static_cast<std::size_t>(around & ~integer_kind) >= larger) around = no_element;
  }
  const std::size_t begin = byte >> shift, step = size >> shift;
  if (step > 1)
    std::fill_n(kinds.begin() + static_cast<std::ptrdiff_t>(begin), step * of_elements.size(),
                no_element);
  for (std::size_t i = 0; i < of_elements.size(); ++i) kinds[begin + i * step] = of_elements[i];
}

void ResidueMemory::store(const Program& program, const Slice& slice, DType type,
                          const Cells& from) {
  Memory& memory =
      program.buffer(slice.buffer).region == Region::persistent ? persistent_ : transient_;
  const auto size = static_cast<std::size_t>(size_bytes(type));
  op::Residue* words = memory.words[place_of_size(size)].get();
  require(words != nullptr, "the buffers of a region have all sizes of elements in it");
  for_each_row(program, slice, type, [&](std::size_t number, std::size_t byte, std::size_t count) {
    std::copy_n(from.words.data() + number, count, words + byte / size);
    memory.put_kinds(byte, size, std::span(from.kinds).subspan(number, count));
    for (std::size_t i = 0; is_traced_ && i < count; ++i)
      memory.writers[(byte + i * size) >> memory.shift] = from.writers[number + i];
  });
}

}  // namespace fourfold::verify
