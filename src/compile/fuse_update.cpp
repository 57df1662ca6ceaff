#include "compile/fuse_update.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace fourfold::compile {
namespace {

using program::Access;
using program::Compute;
using program::Instruction;
using program::Program;
using program::Slice;

// Operands of op::AdamW.
constexpr std::size_t grad_operand = 0, first_scalar = 1, first_state = 5, num_operands = 8;

/// What instructions that stay where they are touch, by buffer.
class Touched {
 public:
  void add(const Instruction& instruction) {
    for (const Access& access : program::accesses(instruction))
      by_buffer_[access.slice.buffer].push_back(access);
  }
  bool conflicts_with(const Instruction& instruction) const {
    for (const Access& access : program::accesses(instruction)) {
      const auto place = by_buffer_.find(access.slice.buffer);
      if (place == by_buffer_.end()) continue;
      for (const Access& other : place->second)
        if ((access.role != op::Role::read || other.role != op::Role::read) &&
            access.slice.offset_bytes < other.slice.end_bytes() &&
            other.slice.offset_bytes < access.slice.end_bytes())
          return true;
    }
    return false;
  }
  void clear() { by_buffer_.clear(); }

 private:
  std::map<program::BufferId, std::vector<Access>> by_buffer_;
};

const op::AdamW& adamw_of(const Compute& compute) {
  return std::get<op::AdamW>(compute.op);
}

/// AdamW instructions that may become one, at the place of the first.
struct Group {
  std::vector<std::size_t> members;
  double weight_decay = 0;  // of those that decay
};

bool may_join(const Program& program, const Group& group, std::size_t index) {
  const Instruction &first = program.instructions[group.members[0]],
                    &one = program.instructions[index];
  const auto &a = std::get<Compute>(first.what), &b = std::get<Compute>(one.what);
  const op::AdamW &x = adamw_of(a), &y = adamw_of(b);
  const bool same_decay =
      y.weight_decay == 0 || group.weight_decay == 0 || y.weight_decay == group.weight_decay;
  return first.stream == one.stream && a.dtype == b.dtype && x.beta1 == y.beta1 &&
         x.beta2 == y.beta2 && x.epsilon == y.epsilon && same_decay &&
         std::equal(a.slices.begin() + first_scalar, a.slices.begin() + first_state,
                    b.slices.begin() + first_scalar);
}

std::vector<Group> find_groups(const Program& program) {
  std::vector<Group> groups;
  Touched between;  // since the place of the last group
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto* compute = std::get_if<Compute>(&instruction.what);
    if (compute == nullptr || !std::holds_alternative<op::AdamW>(compute->op)) {
      if (!groups.empty()) between.add(instruction);
      continue;
    }
    if (groups.empty() || !may_join(program, groups.back(), i) ||
        between.conflicts_with(instruction)) {
      groups.emplace_back();
      between.clear();
    }
    groups.back().members.push_back(i);
    if (const double decay = adamw_of(*compute).weight_decay; decay != 0)
      groups.back().weight_decay = decay;
  }
  return groups;
}

Compute joined(const Program& program, const Group& group) {
  std::vector<const Compute*> members;
  for (const std::size_t i : group.members)
    members.push_back(&std::get<Compute>(program.instructions[i].what));
  const auto decays = [](const Compute* one) { return adamw_of(*one).weight_decay != 0; };
  const auto plain = std::stable_partition(members.begin(), members.end(), decays);
  const op::AdamW& settings = adamw_of(*members[0]);
  Compute all;
  all.op = op::AdamWList{settings.beta1,
                         settings.beta2,
                         settings.epsilon,
                         group.weight_decay,
                         static_cast<std::int64_t>(members.size()),
                         static_cast<std::int64_t>(plain - members.begin())};
  all.dtype = members[0]->dtype;
  const auto append = [&](const Compute& from, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) all.slices.push_back(from.slices[i]);
  };
  append(*members[0], first_scalar, first_state);
  for (const Compute* one : members) append(*one, grad_operand, grad_operand + 1);
  for (const Compute* one : members) append(*one, first_state, num_operands);
  return all;
}

}  // namespace

Program fuse_update(Program program, const machine::Target& target) {
  if (!machine::fuses(target, op::AdamWList::name)) return program;
  std::vector<bool> moves(program.instructions.size(), false);
  for (const Group& group : find_groups(program)) {
    if (group.members.size() < 2) continue;
    Compute all = joined(program, group);
    program.instructions[group.members[0]].what = std::move(all);
    for (const std::size_t i : std::span(group.members).subspan(1)) moves[i] = true;
  }
  std::vector<std::size_t> now = {0};  // where each instruction stands afterwards
  std::vector<Instruction> kept;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    if (!moves[i]) kept.push_back(std::move(program.instructions[i]));
    now.push_back(kept.size());
  }
  program.instructions = std::move(kept);
  for (program::Task& task : program.tasks) task.begin = now[task.begin], task.end = now[task.end];
  return program;
}

}  // namespace fourfold::compile
