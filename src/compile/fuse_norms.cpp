#include "compile/fuse_norms.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "compile/fuse_norm_values.h"
#include "compile/neighbours.h"

namespace fourfold::compile {
namespace {

using program::Compute;
using program::Program;
using program::Slice;

/// The instructions that become one, and the values between them.
class NormFuser : private Neighbours {
 public:
  using Neighbours::Neighbours;

  void run() {
    for_each_compute([&](const Compute& one, std::size_t index) {
      if (one.op.is<op::GroupNormSums>()) make(members_of_sums(index));
    });
    for_each_compute([&](const Compute& one, std::size_t index) {
      if (one.op.is<op::GroupNormMomentsGradient>()) make(members_of_gradient(index));
    });
    finish();
  }

 private:
  using Members = std::set<std::size_t>;

  template <class Row>
  const Row* row_at(std::size_t index) const {
    const Compute* one = compute(index);
    return one == nullptr ? nullptr : one->op.get_if<Row>();
  }
  const Slice& slice(std::size_t index, std::size_t operand) const {
    return compute(index)->slices[operand];
  }

  /// The instruction with such a row that wrote an operand of `reader`, where both may be one.
  template <class Row>
  std::optional<std::size_t> maker(std::size_t reader, std::size_t operand) const {
    const auto writer = uses().writer(slice(reader, operand), reader);
    if (!writer || row_at<Row>(*writer) == nullptr || !alike(*writer, reader)) return std::nullopt;
    return writer;
  }
  /// The same where nobody else reads the operand.
  template <class Row>
  std::optional<std::size_t> own_maker(std::size_t reader, std::size_t operand) const {
    const auto made = maker<Row>(reader, operand);
    if (!made || uses().of_value(slice(reader, operand), *made).size() != 1) return std::nullopt;
    return made;
  }
  /// The instructions of its task with such a row that read what `writer` wrote to an operand.
  template <class Row>
  std::vector<std::size_t> readers(std::size_t writer, std::size_t operand) const {
    std::vector<std::size_t> list;
    for (const std::size_t reader : uses().of_value(slice(writer, operand), writer))
      if (row_at<Row>(reader) != nullptr && alike(writer, reader) &&
          uses().same_task(writer, reader))
        list.push_back(reader);
    return list;
  }

  /// Adds the instructions that compute the norm and its modulation again for `reader`.
  void add_repeated(std::size_t reader, std::size_t operand, Members& members) const {
    auto norm = maker<op::GroupNormApply>(reader, operand);
    if (const auto modulated = maker<op::ScaleShift>(reader, operand)) {
      norm = maker<op::GroupNormApply>(*modulated, 0);
      if (norm) members.insert(*modulated);
    }
    if (norm) members.insert(*norm);
  }

  Members members_of_sums(std::size_t sums) const {
    constexpr std::size_t y_grad = 2, of_sums = 3;
    Members members = {sums};
    std::size_t reader = sums, read = y_grad;
    if (const auto scaled = maker<op::ScaleShiftGradient>(reader, read)) {
      members.insert(*scaled);
      reader = *scaled, read = 1;
      if (const auto writer = uses().writer(slice(reader, read), reader))
        for (const std::size_t of_scale : uses().of_value(slice(reader, read), *writer))
          if (row_at<op::ScaleShiftSums>(of_scale) != nullptr && alike(of_scale, sums) &&
              uses().same_task(of_scale, sums)) {
            members.insert(of_scale);
            add_repeated(of_scale, 0, members);
          }
    }
    if (const auto silu = maker<op::SiluGradient>(reader, read)) {
      members.insert(*silu);
      add_repeated(*silu, 0, members);
      if (const auto dropout = own_maker<op::Dropout>(*silu, 1)) members.insert(*dropout);
    }
    for (const std::size_t of_weights : readers<op::GroupNormWeightGradient>(sums, of_sums))
      members.insert(of_weights);
    for (const std::size_t of_groups : readers<op::GroupNormGroupSums>(sums, of_sums))
      members.insert(of_groups);
    return members;
  }

  /// Adds what makes the gradient of y for the gradient of a norm alone.
  void add_silu(std::size_t of_norm, Members& members) const {
    constexpr std::size_t y_grad = 2;
    if (const auto silu = own_maker<op::SiluGradient>(of_norm, y_grad)) {
      members.insert(*silu);
      add_repeated(*silu, 0, members);
    }
  }

  /// True if a sum has a term that another norm gives.
  bool is_term_of_norm(std::size_t sum) const {
    return std::ranges::any_of(std::vector{0U, 1U}, [&](std::size_t term) {
      return maker<op::GroupNormApplyGradient>(sum, term) ||
             maker<op::GroupNormMomentsGradient>(sum, term);
    });
  }

  Members members_of_gradient(std::size_t moments) const {
    constexpr std::size_t moments_grad = 2, x_grad = 3;
    Members members = {moments};
    if (const auto of_statistics =
            own_maker<op::GroupNormStatisticsGradient>(moments, moments_grad))
      members.insert(*of_statistics);
    const std::vector<std::size_t> sums = readers<op::Add>(moments, x_grad);
    if (sums.size() != 1 || uses().of_value(slice(moments, x_grad), moments).size() != 1)
      return members;
    const std::size_t sum = sums[0];
    members.insert(sum);
    for (const std::size_t term : {0U, 1U}) {
      if (const auto of_norm = own_maker<op::GroupNormApplyGradient>(sum, term)) {
        members.insert(*of_norm);
        add_silu(*of_norm, members);
      }
      if (const auto earlier = own_maker<op::Add>(sum, term))
        for (const std::size_t its_term : {0U, 1U})
          if (const auto of_norm = own_maker<op::GroupNormApplyGradient>(*earlier, its_term)) {
            members.insert(*of_norm);
            members.insert(*earlier);
            add_silu(*of_norm, members);
          }
    }
    std::size_t last = sum;
    if (const auto later = readers<op::Add>(sum, 2);
        later.size() == 1 && uses().of_value(slice(sum, 2), sum).size() == 1 &&
        !is_term_of_norm(later[0])) {
      last = later[0];
      members.insert(last);
    }
    for (const std::size_t of_bias : readers<op::BiasGradient>(last, 2)) members.insert(of_bias);
    return members;
  }

  /// A value that a member writes and members read: by whom, and where it may lie.
  struct Value {
    std::size_t writer = 0, operand = 0;  // of the writer: its place among the members
    std::vector<std::size_t> readers;     // places among the members, in order
    bool is_own = false;                  // nobody else reads it
  };

  /// Makes one instruction of the members, at the first of their places where it may stand: values
  /// that are terms of later sums then need no memory of their own until there.
  void make(const Members& found) {
    if (found.size() < 2) return;
    const std::vector<std::size_t> members(found.begin(), found.end());
    const std::optional<Compute> whole = join(members);
    if (!whole) return;
    for (const std::size_t place : members)
      if (replace(members, place, *whole)) return;
  }

  std::vector<Value> values_of(const std::vector<std::size_t>& members) const {
    std::vector<Value> values;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const op::Operands operands = op::operands(compute(members[i])->op);
      for (std::size_t k = 0; k < operands.size(); ++k) {
        if (operands[k].role != op::Role::write) continue;
        Value value{i, k, {}, true};
        for (const std::size_t reader : uses().of_value(slice(members[i], k), members[i])) {
          const auto place = std::ranges::find(members, reader);
          if (place == members.end())
            value.is_own = false;
          else
            value.readers.push_back(static_cast<std::size_t>(place - members.begin()));
        }
        value.is_own = value.is_own && !value.readers.empty() && is_activation(members[i], k);
        values.push_back(std::move(value));
      }
    }
    return values;
  }
  /// True if nobody outside the program reads an operand.
  bool is_activation(std::size_t index, std::size_t operand) const {
    return role_of(slice(index, operand).buffer) == program::BufferRole::activation;
  }

  /// Puts a value where its last reader writes its result, if that may lie there.
  void hand_on(const Value& value, const std::vector<std::size_t>& members,
               std::vector<std::vector<Slice>>& operands) const {
    const std::size_t last = value.readers.back();
    const op::Op& row = compute(members[last])->op;
    const Slice from = operands[value.writer][value.operand];
    const auto read = std::ranges::find(operands[last], from);
    const auto at = static_cast<std::size_t>(read - operands[last].begin());
    const op::Operands roles = op::operands(row);
    for (std::size_t i = 0; i < roles.size(); ++i) {
      if (roles[i].role != op::Role::write || !roles[i].may_alias) continue;
      if (*roles[i].may_alias != at && !op::is_sum_of_two(row)) continue;
      const Slice to = operands[last][i];
      if (std::ranges::find(operands[last].begin(), operands[last].begin() + reads_of(roles), to) !=
          operands[last].begin() + reads_of(roles))
        continue;  // another term lies there
      for (std::vector<Slice>& list : operands) std::ranges::replace(list, from, to);
      if (*roles[i].may_alias != at)
        std::swap(operands[last][at], operands[last][*roles[i].may_alias]);
      return;
    }
  }
  static std::ptrdiff_t reads_of(const op::Operands& operands) {
    return std::ranges::count(operands, op::Role::read, &op::Operand::role);
  }

  std::optional<Compute> join(const std::vector<std::size_t>& members) const {
    std::vector<std::vector<Slice>> operands;
    for (const std::size_t member : members) operands.push_back(compute(member)->slices);
    const std::vector<Value> values = values_of(members);
    for (auto value = values.rbegin(); value != values.rend(); ++value)
      if (value->is_own) hand_on(*value, members, operands);

    std::vector<Slice> reads, outputs, between;
    const auto add = [](std::vector<Slice>& list, const Slice& slice) {
      if (std::ranges::find(list, slice) == list.end()) list.push_back(slice);
    };
    const auto has = [](const std::vector<Slice>& list, const Slice& slice) {
      return std::ranges::find(list, slice) != list.end();
    };
    std::vector<Slice> kept;  // read by others, or the last of what is handed on
    for (const Value& value : values)
      if (!value.is_own) kept.push_back(operands[value.writer][value.operand]);
    for (std::size_t i = 0; i < members.size(); ++i) {
      const op::Operands roles = op::operands(compute(members[i])->op);
      for (std::size_t k = 0; k < roles.size(); ++k) {
        const Slice& one = operands[i][k];
        const bool is_made = has(outputs, one) || has(between, one);
        if (roles[k].role == op::Role::read) {
          if (!is_made) add(reads, one);
        } else if (roles[k].role == op::Role::write && !has(kept, one)) {
          add(between, one);
        } else {
          add(outputs, one);
        }
      }
    }
    std::vector<Slice> all = reads;
    all.insert(all.end(), outputs.begin(), outputs.end());
    all.insert(all.end(), between.begin(), between.end());
    all.shrink_to_fit();
    std::vector<op::Piece> pieces;
    for (std::size_t i = 0; i < members.size(); ++i) {
      op::Piece piece{compute(members[i])->op, {}};
      for (const Slice& one : operands[i])
        piece.operands.push_back(
            static_cast<std::size_t>(std::ranges::find(all, one) - all.begin()));
      pieces.push_back(std::move(piece));
    }
    auto chain = op::Fused::of(std::move(pieces), between.size());
    if (reads.empty() || std::holds_alternative<op::Mistake>(chain)) return std::nullopt;
    return Compute{std::get<op::Fused>(std::move(chain)),
                   compute(members[0])->dtype,
                   std::move(all),
                   std::nullopt,
                   {}};
  }
};

}  // namespace

Program fuse_norms(Program program, const machine::Target& target) {
  if (!machine::fuses(target, op::GroupNormSums::name)) return program;
  program = repeat_silu_gradients(share_moments(std::move(program)));
  NormFuser(program).run();
  return program;
}

}  // namespace fourfold::compile
