#include "compile/fuse_casts.h"

#include <utility>
#include <vector>

#include "compile/join.h"

namespace fourfold::compile {
namespace {

using program::Compute;
using program::Program;

bool is_cast(const Compute& compute) {
  return compute.op.is<op::Cast>();
}

Compute joined(std::vector<const Compute*> members) {
  Compute all;
  all.op = op::CastList{.tensors = static_cast<std::int64_t>(members.size())};
  all.dtype = members[0]->dtype;
  for (const std::size_t operand : {0U, 1U})
    for (const Compute* one : members) all.slices.push_back(one->slices[operand]);
  return all;
}

}  // namespace

Program fuse_casts(Program program, const machine::Target& target) {
  if (!machine::fuses(target, op::CastList::name)) return program;
  const auto groups = find_groups(program, is_cast, [&](const Members& group, std::size_t index) {
    const auto &first = program.instructions[group[0]], &one = program.instructions[index];
    return first.stream == one.stream &&
           std::get<Compute>(first.what).dtype == std::get<Compute>(one.what).dtype;
  });
  return join_groups(std::move(program), groups, joined);
}

}  // namespace fourfold::compile
