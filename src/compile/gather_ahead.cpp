#include "compile/gather_ahead.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace fourfold::compile {
namespace {

using program::AllGather;
using program::Instruction;
using program::Program;

/// Where each instruction of a program goes: before which of the others.
class Places {
 public:
  explicit Places(const Program& program)
      : program_(program),
        touched_(program.buffers.size(), 0),
        written_(program.buffers.size(), 0),
        last_(program.streams.size()) {
    before_.resize(program.instructions.size());
    std::iota(before_.begin(), before_.end(), std::size_t{0});
  }

  std::vector<std::size_t> run() {
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      if (const auto* gather = std::get_if<AllGather>(&program_.instructions[i].what))
        place(*gather, i);
      note(i);
    }
    return std::move(before_);
  }

 private:
  /// The gather that a stream had last, while nobody has read what it brought.
  struct Last {
    std::vector<program::BufferId> brought;
    std::size_t at = 0;  // where it goes
    std::size_t first_read = 0;
    bool is_read = false;
  };

  void place(const AllGather& gather, std::size_t index) {
    const std::size_t own = program_.instructions[index].stream.index();
    Last& last = last_[own];
    std::size_t at = index;
    if (last.is_read) {
      at = std::max(last.at, last.first_read);
      for (const program::Slice& from : gather.from)
        at = std::max(at, written_[from.buffer.index()]);
      for (const program::Slice& to : gather.to) at = std::max(at, touched_[to.buffer.index()]);
      before_[index] = at = std::min(at, index);
    }
    last = {{}, at, 0, false};
    for (const program::Slice& to : gather.to) last.brought.push_back(to.buffer);
  }

  /// Who has touched and written each buffer last; who has read what was gathered first.
  void note(std::size_t index) {
    const Instruction& instruction = program_.instructions[index];
    for (const program::Access& access : program::accesses(instruction)) {
      const std::size_t buffer = access.slice.buffer.index();
      touched_[buffer] = index + 1;
      if (access.role != op::Role::read) written_[buffer] = index + 1;
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
  std::vector<Last> last_;                      // by stream
  std::vector<std::size_t> before_;
};

}  // namespace

Program gather_ahead(Program program) {
  const std::vector<std::size_t> before = Places(program).run();
  std::vector<std::size_t> order(before.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // What goes before an instruction stands in front of it, in the order that it had.
  const auto key = [&](std::size_t i) { return std::pair(before[i], before[i] == i); };
  std::ranges::stable_sort(order, {}, key);
  std::vector<Instruction> list;
  list.reserve(order.size());
  for (const std::size_t i : order) list.push_back(std::move(program.instructions[i]));
  program.instructions = std::move(list);
  // A task begins with what stands in front of its first instruction.
  for (program::Task& task : program.tasks) {
    const auto place = [&](std::size_t index) {
      return static_cast<std::size_t>(
          std::ranges::lower_bound(order, std::pair(index, false), {}, key) - order.begin());
    };
    task.begin = place(task.begin);
    task.end = place(task.end);
  }
  return program;
}

}  // namespace fourfold::compile
