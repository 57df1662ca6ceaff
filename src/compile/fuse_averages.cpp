#include "compile/fuse_averages.h"

#include <utility>
#include <vector>

#include "compile/join.h"

namespace fourfold::compile {
namespace {

using program::Compute;
using program::Program;

// Places among the operands of op::MovingAverage.
constexpr std::size_t of_weight = 0, of_applied = 1, of_average = 2;

const op::MovingAverage* average_of(const Compute& compute) {
  return compute.op.get_if<op::MovingAverage>();
}

Compute joined_averages(std::vector<const Compute*> members) {
  Compute all;
  all.op = op::MovingAverageList{.decay = average_of(*members[0])->decay,
                                 .tensors = static_cast<std::int64_t>(members.size())};
  all.dtype = members[0]->dtype;
  all.slices.push_back(members[0]->slices[of_applied]);
  for (const std::size_t operand : {of_weight, of_average})
    for (const Compute* one : members) all.slices.push_back(one->slices[operand]);
  return all;
}

}  // namespace

Program fuse_averages(Program program, const machine::Target& target) {
  if (!machine::fuses(target, op::MovingAverageList::name)) return program;
  const auto groups = find_groups(
      program, [](const Compute& one) { return average_of(one) != nullptr; },
      [&](const Members& group, std::size_t index) {
        const auto &first = program.instructions[group[0]], &one = program.instructions[index];
        const auto &a = std::get<Compute>(first.what), &b = std::get<Compute>(one.what);
        return first.stream == one.stream && a.dtype == b.dtype &&
               *average_of(a) == *average_of(b) && a.slices[of_applied] == b.slices[of_applied];
      });
  return join_groups(std::move(program), groups, joined_averages);
}

}  // namespace fourfold::compile
