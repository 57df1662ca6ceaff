#include "compile/fuse_neighbours.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compile/neighbours.h"

namespace fourfold::compile {
namespace {

using program::Compute;
using program::Program;
using program::Slice;

/// Joins around one instruction at a time: the last row of a chain, or the first of a loss.
class Fuser : private Neighbours {
 public:
  using Neighbours::Neighbours;

  void run() {
    for_each_row([&](const auto& row, std::size_t index) { fuse(row, index); });
  }

 private:
  template <class Row>
  void fuse(const Row&, std::size_t) {}

  void fuse(op::Gelu, std::size_t gelu) {
    const Compute& last = *compute(gelu);
    const auto bias = writer<op::AddBias>(last.slices[0], gelu);
    if (!wants<op::BiasGelu>() || !bias) return;
    const Compute& first = *compute(*bias);
    join(op::BiasGelu{}, {first.slices[0], first.slices[1], last.slices[0], last.slices[1]},
         {*bias, gelu}, gelu);
  }

  void fuse(op::LayerNorm norm, std::size_t index) {
    const Compute& last = *compute(index);
    const auto add = writer<op::Add>(last.slices[0], index);
    if (!wants<op::AddLayerNorm>() || !add) return;
    Branch branch = branch_of(*add);
    op::AddLayerNorm row;
    row.epsilon = norm.epsilon, row.bias = norm.bias, row.branch_bias = branch.bias.has_value();
    std::vector<Slice> slices = {branch.other, branch.slice};
    if (branch.bias) slices.push_back(*branch.bias);
    if (branch.dropout) {
      set_dropout(row, *branch.dropout);
      slices.insert(slices.end(), branch.seed_and_step.begin(), branch.seed_and_step.end());
    }
    const std::size_t written = norm.bias ? 3 : 2;  // y of layer_norm
    slices.insert(slices.end(), last.slices.begin() + 1,
                  last.slices.begin() + static_cast<std::ptrdiff_t>(written));
    slices.push_back(last.slices[0]);
    slices.insert(slices.end(), last.slices.begin() + static_cast<std::ptrdiff_t>(written),
                  last.slices.end());
    branch.members.push_back(index);
    join(row, std::move(slices), branch.members, index);
  }

  void fuse(op::LayerNormGradient, std::size_t index) {
    if (!wants<op::AddLayerNormGradient>()) return;
    std::vector<Slice> slices = compute(index)->slices;
    Slice sum = slices.back();
    slices.pop_back();
    std::vector<std::size_t> members = {index};
    op::AddLayerNormGradient row;
    const auto add = only_reader<op::Add>(sum, index);
    row.addend = add.has_value();
    if (add) {
      const std::vector<Slice>& terms = compute(*add)->slices;
      slices.push_back(terms[0] == sum ? terms[1] : terms[0]);
      sum = terms[2];
      members.push_back(*add);
    }
    if (const auto drop = first_reader<op::Dropout>(sum, members.back())) {
      const Compute& one = *compute(*drop);
      set_dropout(row, std::get<op::Dropout>(one.op));
      slices.insert(slices.end(), {one.slices[1], one.slices[2], sum, one.slices[3]});
      members.push_back(*drop);
    } else {
      slices.push_back(sum);
    }
    if (members.size() > 1) join(row, std::move(slices), members, members.back());
  }

  void fuse(op::CrossEntropy, std::size_t index) {
    if (!wants<op::CrossEntropyBoth>()) return;
    const std::vector<Slice>& own = compute(index)->slices;
    for (const std::size_t reader : uses().of_value(own[3], index)) {
      const Compute* other = compute(reader);
      const auto* row =
          other == nullptr ? nullptr : std::get_if<op::CrossEntropyGradient>(&other->op);
      if (row == nullptr || row->first_column != 0 || row->columns != 0 || !alike(index, reader) ||
          !(other->slices[0] == own[0] && other->slices[1] == own[1] && other->slices[2] == own[3]))
        continue;
      std::vector<Slice> slices = own;
      slices.push_back(other->slices[3]);
      join(op::CrossEntropyBoth{row->scale}, std::move(slices), {index, reader}, index);
      return;
    }
  }

  /// One term of a sum and what made it.
  struct Branch {
    Slice slice, other;
    std::optional<Slice> bias;
    std::optional<op::Dropout> dropout;
    std::vector<Slice> seed_and_step;
    std::vector<std::size_t> members;  // of the chain, the sum last
  };

  Branch branch_of(std::size_t add) const {
    const std::vector<Slice>& terms = compute(add)->slices;
    for (const std::size_t which : {1U, 0U}) {
      Branch branch{terms[which], terms[1 - which], {}, {}, {}, {}};
      std::size_t reader = add;
      if (const auto drop = sole_writer<op::Dropout>(branch.slice, reader)) {
        const Compute& one = *compute(*drop);
        branch.dropout = std::get<op::Dropout>(one.op);
        branch.seed_and_step = {one.slices[1], one.slices[2]};
        branch.slice = one.slices[0];
        branch.members.push_back(reader = *drop);
      }
      if (const auto bias = sole_writer<op::AddBias>(branch.slice, reader);
          bias && shape(compute(*bias)->slices[1]).rank() == 1) {
        branch.bias = compute(*bias)->slices[1];
        branch.slice = compute(*bias)->slices[0];
        branch.members.insert(branch.members.begin(), *bias);
      }
      branch.members.push_back(add);
      if (branch.members.size() > 1 || which == 0) return branch;
    }
    return {};
  }

  template <class Row>
  static void set_dropout(Row& row, const op::Dropout& dropout) {
    row.stream = dropout.stream, row.rate = dropout.rate;
    row.window = dropout.window, row.part = dropout.part;
  }
};

}  // namespace

Program fuse_neighbours(Program program, const machine::Target& target) {
  if (!target.fusions.empty()) Fuser(program, target).run();
  return program;
}

}  // namespace fourfold::compile
