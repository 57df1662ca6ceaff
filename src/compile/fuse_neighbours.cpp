#include "compile/fuse_neighbours.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compile/uses.h"

namespace fourfold::compile {
namespace {

using program::Compute;
using program::Program;
using program::Slice;

/// Joins around one instruction at a time: the last row of a chain, or the first of a loss.
class Fuser {
 public:
  Fuser(Program& program, const machine::Target& target)
      : program_(program), target_(target), uses_(program) {}

  void run() {
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      if (uses_.is_gone(i)) continue;
      const Compute* one = compute(i);
      if (one != nullptr) std::visit([&](const auto& row) { fuse(row, i); }, op::Op(one->op));
    }
    uses_.finish();
  }

 private:
  template <class Row>
  void fuse(const Row&, std::size_t) {}

  void fuse(const op::Gelu&, std::size_t gelu) {
    const Compute& last = *compute(gelu);
    const auto bias = writer<op::AddBias>(last.slices[0], gelu);
    if (!wants<op::BiasGelu>() || !bias) return;
    const Compute& first = *compute(*bias);
    join(op::BiasGelu{}, {first.slices[0], first.slices[1], last.slices[0], last.slices[1]},
         {*bias, gelu}, gelu);
  }

  void fuse(const op::LayerNorm& norm, std::size_t index) {
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

  void fuse(const op::LayerNormGradient&, std::size_t index) {
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

  void fuse(const op::CrossEntropy&, std::size_t index) {
    if (!wants<op::CrossEntropyBoth>()) return;
    const std::vector<Slice>& own = compute(index)->slices;
    for (const std::size_t reader : uses_.of_value(own[3], index)) {
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

  const Compute* compute(std::size_t index) const {
    return std::get_if<Compute>(&program_.instructions[index].what);
  }
  Shape shape(const Slice& slice) const {
    return program_.view_shape(slice, program_.buffer(slice.buffer).dtype);
  }
  template <class Row>
  bool wants() const {
    return machine::fuses(target_, Row::name);
  }
  template <class Row>
  bool is(std::size_t index) const {
    const Compute* one = compute(index);
    return one != nullptr && std::holds_alternative<Row>(one->op);
  }
  /// Whether one instruction can do the work of both.
  bool alike(std::size_t a, std::size_t b) const {
    return program_.instructions[a].stream == program_.instructions[b].stream &&
           compute(a)->dtype == compute(b)->dtype;
  }

  template <class Row>
  std::optional<std::size_t> writer(const Slice& slice, std::size_t reader) const {
    const auto found = uses_.writer(slice, reader);
    return found && is<Row>(*found) && alike(*found, reader) ? found : std::nullopt;
  }
  /// As above, where nobody else reads the value.
  template <class Row>
  std::optional<std::size_t> sole_writer(const Slice& slice, std::size_t reader) const {
    const auto found = writer<Row>(slice, reader);
    return found && uses_.of_value(slice, *found).size() == 1 ? found : std::nullopt;
  }
  template <class Row>
  std::optional<std::size_t> first_reader(const Slice& slice, std::size_t from) const {
    for (const std::size_t reader : uses_.of_value(slice, from))
      if (is<Row>(reader) && compute(reader)->slices[0] == slice)
        return uses_.same_task(from, reader) && alike(from, reader) ? std::optional(reader)
                                                                    : std::nullopt;
    return std::nullopt;
  }
  template <class Row>
  std::optional<std::size_t> only_reader(const Slice& slice, std::size_t from) const {
    const std::vector<std::size_t> readers = uses_.of_value(slice, from);
    const bool fits = readers.size() == 1 && is<Row>(readers[0]) &&
                      uses_.same_task(from, readers[0]) && alike(from, readers[0]);
    return fits ? std::optional(readers[0]) : std::nullopt;
  }

  template <class Row>
  static void set_dropout(Row& row, const op::Dropout& dropout) {
    row.stream = dropout.stream, row.rate = dropout.rate;
    row.window = dropout.window, row.part = dropout.part;
  }

  void join(op::Op row, std::vector<Slice> slices, const std::vector<std::size_t>& members,
            std::size_t to) {
    if (!uses_.may_move(members, to)) return;
    uses_.replace(members, to,
                  Compute{std::move(row), compute(to)->dtype, std::move(slices), std::nullopt, {}});
  }

  Program& program_;
  const machine::Target& target_;
  Uses uses_;
};

}  // namespace

Program fuse_neighbours(Program program, const machine::Target& target) {
  Fuser(program, target).run();
  return program;
}

}  // namespace fourfold::compile
