// The micro-batches of a program as rule sum counts them: numbers from 0 on, a chunk for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "verify/language.h"

namespace fourfold::verify {

/// A chunk of a micro-batch, or all of one that has no chunks.
struct Batch {
  std::int64_t micro = 0, chunk = 0;
  auto operator<=>(const Batch&) const = default;
};

class Batches {
 public:
  /// The micro-batches that the program has tasks for; where they are fed in chunks, each chunk is
  /// one of its own.
  explicit Batches(const Program& program);

  bool empty() const { return list_.empty(); }
  std::size_t size() const { return list_.size(); }
  const Batch& at(std::size_t number) const { return list_[number]; }
  /// Nothing where the program has none of this name.
  std::optional<std::size_t> number(const Batch& batch) const;
  /// Numbers [begin, end) of the chunks of a micro-batch.
  struct Range {
    std::size_t begin = 0, end = 0;
  };
  Range chunks_of(std::int64_t micro) const;
  /// How many micro-batches there are, chunks not counted.
  std::int64_t num_micros() const;
  /// "micro-batch 3", "chunk 1 of micro-batch 3".
  std::string text(std::size_t number) const;

 private:
  std::vector<Batch> list_;  // ascending
  bool has_chunks_ = false;
};

}  // namespace fourfold::verify
