#include "measure/box_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "reshard/slices.h"

namespace fourfold::measure {
namespace {

constexpr std::uint32_t no_element = 0xffffffffU;

}  // namespace

BoxMemory::BoxMemory(reshard::Box box, Shape shape)
    : box_(std::move(box)),
      shape_(std::move(shape)),
      words_(static_cast<std::size_t>(reshard::elements(box_)), no_element) {}

/// Calls `visit(place, number)` for each element in order.
template <class Visit>
void BoxMemory::visit_numbers(const Visit& visit) const {
  const reshard::Box all = reshard::whole(shape_);
  std::size_t place = 0;
  for (const reshard::Slice& slice : reshard::slices_of(box_, all, 1))
    for (std::int64_t row = 0; row < slice.rows; ++row)
      for (std::int64_t i = 0; i < slice.row_bytes; ++i) {
        const std::int64_t number = slice.offset_bytes + row * slice.pitch_bytes + i;
        visit(place++, static_cast<std::uint32_t>(number % no_element));
      }
}

void BoxMemory::number() {
  visit_numbers([&](std::size_t place, std::uint32_t number) { words_[place] = number; });
}

void BoxMemory::forget() {
  std::ranges::fill(words_, no_element);
}

std::int64_t BoxMemory::wrong_elements() const {
  std::int64_t wrong = 0;
  visit_numbers([&](std::size_t place, std::uint32_t number) {
    if (words_[place] != number) ++wrong;
  });
  return wrong;
}

std::optional<std::span<std::byte>> BoxMemory::run_of(const reshard::Box& box) {
  const std::vector<reshard::Slice> slices = reshard::slices_of(box, box_, element_bytes);
  if (slices.size() != 1 || slices[0].rows != 1) return std::nullopt;
  return std::as_writable_bytes(std::span(words_))
      .subspan(static_cast<std::size_t>(slices[0].offset_bytes),
               static_cast<std::size_t>(slices[0].row_bytes));
}

std::span<const std::byte> BoxMemory::view(const reshard::Box& box, std::vector<std::byte>& room) {
  if (const auto run = run_of(box)) return *run;
  read(box, room);
  return room;
}

void BoxMemory::read(const reshard::Box& box, std::vector<std::byte>& bytes) const {
  bytes.resize(static_cast<std::size_t>(reshard::elements(box) * element_bytes));
  const std::byte* const words = std::as_bytes(std::span(words_)).data();
  std::byte* next = bytes.data();
  for (const reshard::Slice& slice : reshard::slices_of(box, box_, element_bytes))
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      std::memcpy(next, words + slice.offset_bytes + row * slice.pitch_bytes,
                  static_cast<std::size_t>(slice.row_bytes));
      next += slice.row_bytes;
    }
}

void BoxMemory::write(const reshard::Box& box, std::span<const std::byte> bytes) {
  std::byte* const words = std::as_writable_bytes(std::span(words_)).data();
  const std::byte* next = bytes.data();
  for (const reshard::Slice& slice : reshard::slices_of(box, box_, element_bytes))
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      std::memcpy(words + slice.offset_bytes + row * slice.pitch_bytes, next,
                  static_cast<std::size_t>(slice.row_bytes));
      next += slice.row_bytes;
    }
}

}  // namespace fourfold::measure
