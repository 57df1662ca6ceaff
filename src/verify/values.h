// What the values of one program are, in numbers that the ranks of a mesh share wherever they are
// on it and however their messages are cut: for whoever holds ranks against each other. Found by
// the walk of rule sum (sums.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "verify/language.h"

namespace fourfold::verify {

/// A value that comes with the messages of one tag, in boxes of one buffer. What comes for bytes
/// that have come already, or for another buffer or task, is another value.
struct Received {
  /// A hash of the kind of task, the tag, and how many values have come with it there before: one
  /// for all micro-batches.
  std::uint64_t name = 0;
  std::int64_t tag = 0;
  BufferId buffer;
  std::uint32_t instruction = 0;  // the first recv of it
  bool is_shared = false;         // it is used with what is of several micro-batches
};

/// What one message carries.
struct Carried {
  /// Which value a recv brings a box of, or a send passes on: an index into Values::received.
  std::optional<std::uint32_t> received;
  std::uint64_t made = 0;  // a send that passes on nothing: a hash of what its buffer holds
  /// The micro-batch that what is sent is of alone; for a recv that of its task.
  std::optional<std::int64_t> micro;
};

/// What one row makes: a hash of the row, its kind of task and micro-batch, and what it reads.
struct Computed {
  std::uint64_t hash = 0;
  std::uint32_t instruction = 0;
};

struct Values {
  std::vector<Carried> messages;  // in the order of the list
  std::vector<Received> received;
  std::vector<std::vector<Computed>> computed;  // of each stream, in its order
  std::int64_t num_micros = 0;
  /// Buffers that were read as one value though zero stands in bytes that are padding on this rank.
  std::vector<BufferId> with_padding;
};

/// Requires what check_structure proves. Cost: that of check_sums.
Values values_of(const Program& program);

}  // namespace fourfold::verify
