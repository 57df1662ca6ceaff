// Who touches which buffer, in the order of a program that is being changed.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "program/program.h"

namespace fourfold::compile {

/// Takes instructions, and activations that nothing touches any more, out of the program.
void erase(program::Program& program, const std::vector<bool>& gone);

/// Where an instruction goes: it stays, or stands in front of or right after another one.
class Goal {
 public:
  static Goal own(std::size_t index) { return Goal(index, 1); }
  static Goal before(std::size_t index) { return Goal(index, 0); }
  static Goal after(std::size_t index) { return Goal(index, 2); }
  auto operator<=>(const Goal&) const = default;

 private:
  Goal(std::size_t index, std::uint32_t side)
      : key_(static_cast<std::uint32_t>(index) * 3 + side) {}
  std::uint32_t key_;  // small, as there is one for each instruction
};
/// Puts each instruction where its goal says; those of one goal keep their order. What stands in
/// front of the first instruction of a task is of that task. Within the one list: two would be the
/// peak of compiling. Cost: n log n.
void rearrange(program::Program& program, const std::vector<Goal>& goals);

/// Places of instructions are their indices in `instructions`, also of those that are gone. Cost of
/// a question: logarithmic, and the uses that it looks at: those of a task, of a value, or between
/// two places. Cost of a replacement: logarithmic, and the uses between the members of the buffers
/// that they touch, however often a buffer is used elsewhere.
class Uses {
 public:
  explicit Uses(program::Program& program) : Uses(program, 0, program.instructions.size()) {}
  /// As if there were only the instructions from `first` on and before `last`: whole tasks, for
  /// questions about them. Cost: linear in those.
  Uses(program::Program& program, std::size_t first, std::size_t last);

  /// The compute instruction on the same stream and in the same task as `reader` that wrote all of
  /// the slice last before it; none when something else did.
  std::optional<std::size_t> writer(const program::Slice& slice, std::size_t reader) const;
  /// Who touches the value that `writer` wrote to the slice, until it is overwritten.
  std::vector<std::size_t> of_value(const program::Slice& slice, std::size_t writer) const;
  /// True if no instruction after `first` and before `last` writes anything of the slice.
  bool is_kept(const program::Slice& slice, std::size_t first, std::size_t last) const;
  bool same_task(std::size_t a, std::size_t b) const { return tasks_[a] == tasks_[b]; }

  /// True if the instructions `moved` may run at the place `to`: nothing that stays between touches
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
  /// Small, as there is one for each operand of a program.
  struct Use {
    std::uint32_t index = 0;  // of the instruction
    op::Role role = op::Role::read;
    bool is_gone = false;    // kept in its place, so that nothing after it moves
    bool is_one_row = true;  // what begins and ends alike is the same slice
    std::int64_t begin = 0, end = 0;

    Use() = default;
    Use(std::size_t index, const program::Access& access);
    bool overlaps(const program::Slice& slice) const {
      return begin < slice.end_bytes() && slice.offset_bytes < end;
    }
    bool is(const program::Slice& slice) const {
      return is_one_row && slice.rows == 1 && begin == slice.offset_bytes &&
             end == slice.end_bytes();
    }
  };
  /// Places in the list of a buffer of what is freed for new uses, each the index of its use.
  using Freed = std::map<program::BufferId, std::vector<std::size_t>>;

  /// All uses of a buffer, what is gone among them.
  template <class Self>
  static auto of(Self& self, program::BufferId buffer) {
    const std::size_t begin = self.begin_[buffer.index()], end = self.begin_[buffer.index() + 1];
    return std::span(self.uses_).subspan(begin, end - begin);
  }
  /// Those of a buffer by instructions from `first` on and before `last`, what is gone among them.
  std::span<const Use> between(program::BufferId buffer, std::size_t first, std::size_t last) const;
  /// True if it is of the step block, which nothing here writes: its many reads, of each
  /// micro-batch, are in nobody's way and need not be kept.
  bool is_given(const program::Slice& slice) const {
    return program_.buffer(slice.buffer).role == program::BufferRole::step_block;
  }
  void add(std::size_t index, Freed& freed);
  void remove(std::size_t index, Freed& freed);

  program::Program& program_;
  // The uses of one buffer after another, each in the order of the instructions. A replacement has
  // the uses of its members, so no buffer ever has more.
  std::vector<Use> uses_;
  std::vector<std::size_t> begin_;  // of each buffer in `uses_`, and the end of the last
  std::vector<std::size_t> tasks_;  // of each instruction
  std::vector<bool> gone_;
  std::size_t num_moved_ = 0;
};

}  // namespace fourfold::compile
