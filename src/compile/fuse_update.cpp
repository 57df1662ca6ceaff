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
using program::Slice;

/// What the operands of an update are to a list of updates.
enum class Kind { scalar, gradient, state, count };

std::vector<Slice> slices_of(const Compute& compute, Kind wanted) {
  const op::Operands operands = op::operands(compute.op);
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Kind kind = operands[i].state == op::State::gradient ? Kind::gradient
                      : operands[i].role == op::Role::read     ? Kind::scalar
                      : operands[i].state != op::State::none   ? Kind::state
                                                               : Kind::count;
    if (kind == wanted) slices.push_back(compute.slices[i]);
  }
  return slices;
}

/// Joins the updates of one row into a list of them.
template <class List>
class UpdateFuser {
 public:
  using One = typename List::One;

  static Program run(Program program, const machine::Target& target) {
    if (!machine::fuses(target, List::name)) return program;
    const auto groups = find_groups(
        program, [](const Compute& one) { return one.op.is<One>(); },
        [&](const Members& group, std::size_t index) { return may_join(program, group, index); });
    return join_groups(std::move(program), groups, joined);
  }

 private:
  static const One& row_of(const Compute& compute) { return compute.op.get<One>(); }

  /// The decay of those that have one.
  static double decay_of(const std::vector<const Compute*>& members) {
    for (const Compute* one : members)
      if (const double decay = row_of(*one).weight_decay; decay != 0) return decay;
    return 0;
  }

  /// What all rows of a list have in common.
  static One settings_of(One row) {
    row.weight_decay = 0;
    row.accumulate = false;
    return row;
  }

  static bool may_join(const Program& program, const Members& group, std::size_t index) {
    const Instruction &first = program.instructions[group[0]], &one = program.instructions[index];
    const auto &a = std::get<Compute>(first.what), &b = std::get<Compute>(one.what);
    const double decay = decay_of(computes_of(program, group)), own = row_of(b).weight_decay;
    return first.stream == one.stream && a.dtype == b.dtype &&
           settings_of(row_of(a)) == settings_of(row_of(b)) &&
           (own == 0 || decay == 0 || own == decay) && row_of(b).accumulate &&
           slices_of(a, Kind::scalar) == slices_of(b, Kind::scalar) &&
           slices_of(a, Kind::count) == slices_of(b, Kind::count);
  }

  static Compute joined(std::vector<const Compute*> members) {
    const bool adds = row_of(*members[0]).accumulate;
    const auto decays = [](const Compute* one) { return row_of(*one).weight_decay != 0; };
    const auto plain = std::stable_partition(members.begin(), members.end(), decays);
    One settings = row_of(*members[0]);
    settings.weight_decay = decay_of(members);
    settings.accumulate = adds;
    Compute all;
    all.op = List::of(settings, std::ssize(members), plain - members.begin());
    all.dtype = members[0]->dtype;
    const auto append = [&](const Compute& from, Kind kind) {
      for (const Slice& slice : slices_of(from, kind)) all.slices.push_back(slice);
    };
    append(*members[0], Kind::scalar);
    for (const Compute* one : members) append(*one, Kind::gradient);
    for (const Compute* one : members) append(*one, Kind::state);
    append(*members[0], Kind::count);
    return all;
  }
};

}  // namespace

Program fuse_update(Program program, const machine::Target& target) {
  op::for_each_optimizer([&]<class Row>() {
    program = UpdateFuser<op::UpdateList<Row>>::run(std::move(program), target);
  });
  return program;
}

}  // namespace fourfold::compile
