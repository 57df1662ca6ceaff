// Who touches which buffer, in the order of a program that is being changed.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "program/program.h"

namespace fourfold::compile {

/// Takes instructions, and activations that nothing touches any more, out of the program.
void erase(program::Program& program, const std::vector<bool>& gone);

/// Places of instructions are their indices in `instructions`, also of those that are gone. Cost of
/// a question: logarithmic, and the uses that it looks at: those of a task, of a value, or between
/// two places. Cost of a replacement: logarithmic, and the uses between the members of the buffers
/// that they touch, however often a buffer is used elsewhere.
class Uses {
 public:
  explicit Uses(program::Program& program);

  /// The compute instruction on the same stream and in the same task as `reader` that wrote all of
  /// the slice last before it; none when something else did.
  std::optional<std::size_t> writer(const program::Slice& slice, std::size_t reader) const;
  /// Who touches the value that `writer` wrote to the slice, until it is overwritten.
  std::vector<std::size_t> of_value(const program::Slice& slice, std::size_t writer) const;
  bool same_task(std::size_t a, std::size_t b) const { return tasks_[a] == tasks_[b]; }

  /// Whether the instructions `moved` may run at the place `to`: nothing that stays between touches
  /// what they touch, other than to read what they read.
  bool may_move(std::vector<std::size_t> moved, std::size_t to) const;

  /// Puts `what`, which touches what the members do, at the place `to`; the other `members` are
  /// gone.
  void replace(const std::vector<std::size_t>& members, std::size_t to, program::What what);
  bool is_gone(std::size_t index) const { return gone_[index]; }
  /// Takes what is gone out of the program. Ends the use of this object.
  void finish() { erase(program_, gone_); }

  /// How many uses have been moved within a list, for tests of the cost.
  std::size_t num_moved() const { return num_moved_; }

 private:
  struct Use {
    std::size_t index;
    program::Access access;
    bool is_gone = false;  // kept in its place, so that nothing behind it moves
  };
  /// Places in the list of a buffer of what is freed for new uses, each the index of its use.
  using Freed = std::map<program::BufferId, std::vector<std::size_t>>;

  /// Those of a buffer by instructions from `first` on and before `last`, what is gone among them.
  std::span<const Use> between(program::BufferId buffer, std::size_t first, std::size_t last) const;
  /// Whether the access is of the step block, which nothing here writes: its many reads, of each
  /// micro-batch, are in nobody's way and need not be kept.
  bool is_given(const program::Access& access) const {
    return program_.buffer(access.slice.buffer).role == program::BufferRole::step_block;
  }
  void add(std::size_t index, Freed& freed);
  void remove(std::size_t index, Freed& freed);

  program::Program& program_;
  std::vector<std::vector<Use>> by_buffer_;  // in the order of the instructions
  std::vector<std::size_t> tasks_;           // of each instruction
  std::vector<bool> gone_;
  std::size_t num_moved_ = 0;
};

}  // namespace fourfold::compile
