#include "compile/fuse_update.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compile/join.h"

namespace fourfold::compile {
namespace {

using program::Compute;
using program::Instruction;
using program::Program;

// Operands of op::AdamW.
constexpr std::size_t grad_operand = 0, first_scalar = 1, first_state = 5, num_operands = 8;

const op::AdamW& adamw_of(const Compute& compute) {
  return std::get<op::AdamW>(compute.op);
}

/// Of those that decay.
double decay_of(const std::vector<const Compute*>& members) {
  for (const Compute* one : members)
    if (const double decay = adamw_of(*one).weight_decay; decay != 0) return decay;
  return 0;
}

bool may_join(const Program& program, const Members& group, std::size_t index) {
  const Instruction &first = program.instructions[group[0]], &one = program.instructions[index];
  const auto &a = std::get<Compute>(first.what), &b = std::get<Compute>(one.what);
  const op::AdamW &x = adamw_of(a), &y = adamw_of(b);
  const double decay = decay_of(computes_of(program, group));
  const bool same_decay = y.weight_decay == 0 || decay == 0 || y.weight_decay == decay;
  return first.stream == one.stream && a.dtype == b.dtype && x.beta1 == y.beta1 &&
         x.beta2 == y.beta2 && x.epsilon == y.epsilon && same_decay &&
         std::equal(a.slices.begin() + first_scalar, a.slices.begin() + first_state,
                    b.slices.begin() + first_scalar);
}

Compute joined(std::vector<const Compute*> members) {
  const auto decays = [](const Compute* one) { return adamw_of(*one).weight_decay != 0; };
  const auto plain = std::stable_partition(members.begin(), members.end(), decays);
  const op::AdamW& settings = adamw_of(*members[0]);
  Compute all;
  all.op = op::AdamWList{settings.beta1,
                         settings.beta2,
                         settings.epsilon,
                         decay_of(members),
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
  const auto groups = find_groups(
      program, [](const Compute& one) { return std::holds_alternative<op::AdamW>(one.op); },
      [&](const Members& group, std::size_t index) { return may_join(program, group, index); });
  return join_groups(std::move(program), groups, joined);
}

}  // namespace fourfold::compile
