#include "compile/fuse_sums.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "compile/neighbours.h"

namespace fourfold::compile {
namespace {

using program::Compute;
using program::Program;
using program::Slice;

/// Joins around the first of several sums.
class SumFuser : private Neighbours {
 public:
  using Neighbours::Neighbours;

  void run() {
    for_each_compute([&](const Compute& compute, std::size_t index) {
      if (const auto* row = compute.op.get_if<op::SquaredNorm>()) fuse(*row, index);
    });
    finish();
  }

 private:
  void fuse(op::SquaredNorm row, std::size_t index) {
    const std::vector<std::size_t> members = addends(index);
    if (members.size() < 2) return;
    Compute whole{op::Op(), compute(index)->dtype, {}, std::nullopt, {}};
    for (const std::size_t member : members) whole.slices.push_back(compute(member)->slices[0]);
    whole.slices.push_back(compute(index)->slices[1]);
    row.tensors = static_cast<std::int64_t>(members.size());
    whole.op = row;
    replace(members, members.back(), std::move(whole));
  }

  /// The row at `first` and those that add to its number, up to the first other look at it.
  std::vector<std::size_t> addends(std::size_t first) const {
    std::vector<std::size_t> members = {first};
    const Slice& sum = compute(first)->slices[1];
    for (const std::size_t next : uses().of_value(sum, first)) {
      const auto* row =
          compute(next) == nullptr ? nullptr : compute(next)->op.get_if<op::SquaredNorm>();
      if (row == nullptr || !alike(first, next) || !uses().same_task(first, next)) break;
      if (row->tensors != 1 || !row->accumulate || compute(next)->slices[1] != sum) break;
      members.push_back(next);
    }
    return members;
  }
};

}  // namespace

Program fuse_sums(Program program, const machine::Target& target) {
  const auto is_sum = [](const program::Instruction& instruction) {
    const auto* compute = std::get_if<Compute>(&instruction.what);
    return compute != nullptr && compute->op.is<op::SquaredNorm>();
  };
  // The sums of a step stand in its last task; the many before it need no look.
  std::size_t first = program.instructions.size(), last = 0;
  for (const program::Task& task : program.tasks)
    if (std::any_of(program.instructions.begin() + static_cast<std::ptrdiff_t>(task.begin),
                    program.instructions.begin() + static_cast<std::ptrdiff_t>(task.end), is_sum)) {
      first = std::min(first, task.begin);
      last = std::max(last, task.end);
    }
  if (machine::fuses(target, op::SquaredNorm::name) && first < last)
    SumFuser(program, first, last).run();
  return program;
}

}  // namespace fourfold::compile
