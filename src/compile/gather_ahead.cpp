#include "compile/gather_ahead.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "compile/uses.h"

namespace fourfold::compile {
namespace {

using program::AllGather;
using program::Instruction;
using program::Program;

/// Where each instruction of a program goes.
class Goals {
 public:
  explicit Goals(const Program& program)
      : program_(program),
        touched_(program.buffers.size(), 0),
        written_(program.buffers.size(), 0),
        is_received_(program.buffers.size(), false),
        last_(program.streams.size()) {
    goals_.reserve(program.instructions.size());
  }

  std::vector<Goal> run() {
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      while (task_ < program_.tasks.size() && program_.tasks[task_].end <= i) ++task_;
      const auto* gather = std::get_if<AllGather>(&program_.instructions[i].what);
      const std::size_t at = gather == nullptr ? i : place(*gather, i);
      goals_.push_back(at == i ? Goal::own(i) : Goal::before(at));
      note(i);
    }
    return std::move(goals_);
  }

 private:
  /// The gather that a stream had last, while nobody has read what it brought.
  struct Last {
    std::vector<program::BufferId> brought;
    std::size_t at = 0;  // where it goes
    std::size_t first_read = 0;
    bool is_read = false;
  };

  /// The instruction in front of which the gather goes.
  std::size_t place(const AllGather& gather, std::size_t index) {
    const std::size_t own = program_.instructions[index].stream.index();
    Last& last = last_[own];
    std::size_t at = index;
    if (last.is_read) {
      at = std::max(last.at, last.first_read);
      for (const program::Slice& from : gather.from)
        at = std::max(at, written_[from.buffer.index()]);
      for (const program::Slice& to : gather.to) at = std::max(at, touched_[to.buffer.index()]);
      if (gathers_a_message(gather)) at = std::max(at, program_.tasks[task_].begin);
      at = std::min(at, index);
    }
    last = {{}, at, 0, false};
    for (const program::Slice& to : gather.to) last.brought.push_back(to.buffer);
    return at;
  }

  bool gathers_a_message(const AllGather& gather) const {
    return std::ranges::any_of(
        gather.from, [&](const program::Slice& from) { return is_received_[from.buffer.index()]; });
  }

  /// Who has touched and written each buffer last; who has read what was gathered first.
  void note(std::size_t index) {
    const Instruction& instruction = program_.instructions[index];
    for (const program::Access& access : program::accesses(instruction)) {
      const std::size_t buffer = access.slice.buffer.index();
      touched_[buffer] = index + 1;
      if (access.role != op::Role::read) {
        written_[buffer] = index + 1;
        is_received_[buffer] = task_ < program_.tasks.size() &&
                               program_.tasks[task_].kind == program::TaskKind::receive;
      }
      for (std::size_t s = 0; s < last_.size(); ++s) {
        Last& last = last_[s];
        if (last.is_read || s == instruction.stream.index()) continue;
        if (std::ranges::find(last.brought, access.slice.buffer) == last.brought.end()) continue;
        last.is_read = true;
        last.first_read = index;
      }
    }
  }

  const Program& program_;
  std::vector<std::size_t> touched_, written_;  // by buffer: the instruction after the last
  std::vector<bool> is_received_;               // by buffer: a task of its own brought its value
  std::size_t task_ = 0;                        // of the instruction that is looked at
  std::vector<Last> last_;                      // by stream
  std::vector<Goal> goals_;
};

}  // namespace

Program gather_ahead(Program program) {
  rearrange(program, Goals(program).run());
  return program;
}

}  // namespace fourfold::compile
