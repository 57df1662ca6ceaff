// A box of a numbered tensor in memory, to see where its elements come from. Not a tensor of a
// model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/shape.h"
#include "reshard/box.h"

namespace fourfold::measure {

/// Row-major 32-bit words; that of an element is its number in the whole tensor, modulo 2^32 - 1.
class BoxMemory {
 public:
  static constexpr std::int64_t element_bytes = 4;

  /// Without any element yet.
  BoxMemory(reshard::Box box, Shape shape);

  const reshard::Box& box() const { return box_; }
  /// Fills in all elements.
  void number();
  /// Takes all elements away.
  void forget();
  /// How many are not what they should be.
  std::int64_t wrong_elements() const;

  /// The bytes of a box, where they are one run.
  std::optional<std::span<std::byte>> run_of(const reshard::Box& box);
  /// The bytes of a box: those of its run, or a copy in `room`.
  std::span<const std::byte> view(const reshard::Box& box, std::vector<std::byte>& room);
  void read(const reshard::Box& box, std::vector<std::byte>& bytes) const;
  void write(const reshard::Box& box, std::span<const std::byte> bytes);

 private:
  template <class Visit>
  void visit_numbers(const Visit& visit) const;

  reshard::Box box_;
  Shape shape_;  // of the tensor
  std::vector<std::uint32_t> words_;
};

}  // namespace fourfold::measure
