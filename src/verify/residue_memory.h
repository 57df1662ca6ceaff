// The memory of one rank whose programs run over residues: both regions of its bundle, in which an
// element is one word, whatever its type. Not what the elements mean: op/residues.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "op/residues.h"
#include "verify/language.h"

namespace fourfold::verify {

/// What stands at an address: the size of its element in bytes, and integer_kind besides where it
/// is an integer; no_element where nothing has been written.
using ElementKind = std::uint8_t;
inline constexpr ElementKind no_element = 0, integer_kind = 16;
constexpr bool is_integer(DType type) {
  return type == DType::i32 || type == DType::i64 || type == DType::u64 || type == DType::u8;
}
inline ElementKind element_kind(DType type) {
  return static_cast<ElementKind>(size_bytes(type) + (is_integer(type) ? integer_kind : 0));
}

/// The elements of a slice, in its order. The word of what is no element is meaningless.
struct Cells {
  std::vector<op::Residue> words;
  std::vector<ElementKind> kinds;
  std::vector<std::uint32_t> writers;  // of each element where a run is traced; else empty

  std::size_t size() const { return words.size(); }
  void resize(std::size_t count, bool is_traced) {
    words.resize(count);
    kinds.resize(count);
    writers.resize(is_traced ? count : 0);
  }
};

/// Both regions of a rank. An element of which a byte has been overwritten, or that is asked for in
/// another size than it was written in, is none. Slices must lie within their buffers, and these
/// within their regions (rule bounds).
class ResidueMemory {
 public:
  /// `is_traced`: each element also knows its writer.
  ResidueMemory(const Bundle& bundle, bool is_traced);
  /// How many bytes the memory of such a bundle takes here.
  static std::int64_t bytes_for(const Bundle& bundle, bool is_traced);

  /// Begins a program for a step: nothing stands in transient memory, and of buffers that are two
  /// by parity the one of this step is seen.
  void begin(std::int64_t step);
  /// Nothing stands anywhere.
  void clear();

  bool is_traced() const { return is_traced_; }
  /// How many elements of this type a slice has.
  static std::size_t count(const Slice& slice, DType type) {
    return static_cast<std::size_t>(slice.bytes() / size_bytes(type));
  }
  void load(const Program& program, const Slice& slice, DType type, Cells& into) const;
  void store(const Program& program, const Slice& slice, DType type, const Cells& from);

 private:
  /// One region. Words of elements of one size stand together, so that programs without small
  /// elements have theirs without gaps; memory that no element is in is never touched.
  struct Memory {
    int shift = 0;            // there is a kind for every two to the power of it bytes
    std::size_t largest = 1;  // the most bytes of an element
    std::array<std::unique_ptr<op::Residue[]>, 4> words;  // by the logarithm of the size
    std::vector<ElementKind> kinds;
    std::vector<std::uint32_t> writers;

    Memory(const Bundle& bundle, Region region, bool is_traced);
    /// Puts elements of one size side by side.
    void put_kinds(std::size_t byte, std::size_t size, std::span<const ElementKind> of_elements);
  };
  /// Calls visit(number of the first element, its first byte, number of elements) for each row.
  template <class Visit>
  void for_each_row(const Program& program, const Slice& slice, DType type, Visit&& visit) const;
  const Memory& of(const Program& program, const Slice& slice) const {
    return program.buffer(slice.buffer).region == Region::persistent ? persistent_ : transient_;
  }

  Memory persistent_, transient_;
  bool is_traced_;
  std::int64_t parity_ = 0;
};

}  // namespace fourfold::verify
