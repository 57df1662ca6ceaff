// Which value each byte of a program holds while rule sum walks it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/interval_map.h"
#include "verify/content.h"
#include "verify/rules.h"

namespace fourfold::verify {

/// What has become of a value since a row made it: nothing, or it was rounded and only moved since,
/// by collectives too. Such a value may lead back to the type of sums.
enum class Way : std::uint8_t { none, rounded, carried };

/// What bytes hold.
struct Held {
  ValueId value = Contents::zero();
  std::uint32_t writer = 0;    // instruction
  std::uint32_t received = 0;  // number of the value that came with messages, from 1; or 0
  Way way = Way::none;
  std::int64_t begin = 0;  // address of the slice that was written, or the tensor that is received

  /// Nothing has been written, or zero.
  bool is_blank() const { return value == Contents::zero() && received == 0; }
  bool is_same(const Held& other) const {
    return value == other.value && begin == other.begin && way == other.way &&
           received == other.received;
  }
};

/// By address. One copy of a buffer that is two by parity is followed.
class HeldBytes {
 public:
  explicit HeldBytes(const Program& program) : program_(program), bytes_(Held{}) {}

  /// The address of the first byte of a slice.
  std::int64_t begin_of(const Slice& slice) const {
    return address(program_, slice.buffer) + slice.offset_bytes;
  }
  void write(const Slice& slice, const Held& held) {
    for_each_row(slice,
                 [&](std::int64_t begin, std::int64_t end) { bytes_.assign(begin, end, held); });
  }
  /// All of a buffer.
  void write(BufferId id, const Held& held) {
    const std::int64_t begin = address(program_, id);
    bytes_.assign(begin, begin + program_.buffer(id).size_bytes, held);
  }
  /// Calls visit(held) for every run.
  template <class Visit>
  void visit(const Slice& slice, Visit&& visit) const {
    for_each_row(slice,
                 [&](std::int64_t begin, std::int64_t end) { bytes_.visit(begin, end, visit); });
  }
  /// Calls change(held) for every run.
  template <class Change>
  void change(const Slice& slice, Change&& change) {
    for_each_row(slice,
                 [&](std::int64_t begin, std::int64_t end) { bytes_.change(begin, end, change); });
  }
  /// Calls visit(begin, end, held) with the addresses of what was written at once, row by row.
  template <class Visit>
  void visit_runs(const Slice& slice, Visit&& visit) const {
    for_each_row(slice, [&](std::int64_t begin, std::int64_t end) {
      std::optional<Held> held;
      std::int64_t from = begin;
      bytes_.visit_runs(begin, end, [&](std::int64_t start, const Held& next) {
        if (held) visit(from, start, *held);
        from = std::max(begin, start);
        held = next;
      });
      if (held) visit(from, end, *held);
    });
  }
  /// What the first byte of a slice holds.
  Held first(const Slice& slice) const {
    Held held;
    const std::int64_t begin = begin_of(slice);
    bytes_.visit(begin, begin + 1, [&](const Held& here) { held = here; });
    return held;
  }

 private:
  template <class Visit>
  void for_each_row(const Slice& slice, Visit&& visit) const {
    const std::int64_t begin = begin_of(slice);
    if (slice.rows == 1 || slice.pitch_bytes == slice.row_bytes) {
      visit(begin, begin + slice.bytes());
      return;
    }
    for (std::int64_t row = 0; row < slice.rows; ++row)
      visit(begin + row * slice.pitch_bytes, begin + row * slice.pitch_bytes + slice.row_bytes);
  }

  const Program& program_;
  IntervalMap<Held> bytes_;
};

}  // namespace fourfold::verify
