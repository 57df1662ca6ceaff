// Notes who made which values while programs run over residues, to tell where a job first computes
// something that its specification never does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/number_set.h"
#include "verify/residue_memory.h"

namespace fourfold::verify {

/// First collects all values that one run makes, then follows another run: each instruction that
/// computes something is a node, which knows if it made a value that is not among those collected,
/// and who made such values that it read. Instructions that only move values are none.
class ResidueTrace {
 public:
  struct Node {
    std::uint32_t rank = 0, place = 0, instruction = 0;
    bool makes_foreign = false, reads_foreign = false, reads_missing = false;
    std::vector<std::uint32_t> from;  // nodes that made what it read and was not collected
  };
  /// The writer of what stands in memory before a program runs.
  static constexpr std::uint32_t no_node = 0;

  void collect(const Cells& cells);
  /// From now on runs are followed.
  void follow() { is_collecting_ = false; }

  void begin(std::size_t rank, std::size_t place, std::size_t instruction);
  void read(const Cells& cells);
  void read_missing() {
    if (!is_collecting_) nodes_.back().reads_missing = true;
  }
  /// Says who writes these cells.
  void write(Cells& cells);

  /// All nodes in the order in which they ran; the first one stands for no instruction.
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  NumberSet collected_;
  bool is_collecting_ = true;
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace fourfold::verify
