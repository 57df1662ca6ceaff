#include "kernels/norm_chains.h"

#include <algorithm>
#include <vector>

namespace fourfold::kernels {
namespace {

/// Takes the pieces of a chain by their rows, in any order that leads from one to the next.
class PieceSet {
 public:
  explicit PieceSet(const op::Fused& chain)
      : chain_(chain), operands_(chain.operands()), is_taken_(chain.size(), false) {}

  /// One piece of that row, and its operands.
  template <class Row>
  struct Taken {
    const Row* row = nullptr;
    const std::vector<std::size_t>* operands = nullptr;
    std::size_t place = 0;  // among the pieces
    explicit operator bool() const { return row != nullptr; }
    std::size_t operator[](std::size_t index) const { return (*operands)[index]; }
  };
  /// The first piece of that row that is left and that `fits`.
  template <class Row, class Fits>
  Taken<Row> take_if(Fits fits) {
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      const op::Piece& piece = chain_.piece(i);
      const auto* row = piece.op.get_if<Row>();
      if (is_taken_[i] || row == nullptr) continue;
      const Taken<Row> taken{row, &piece.operands, i};
      if (!fits(taken)) continue;
      is_taken_[i] = true;
      return taken;
    }
    return {};
  }
  template <class Row>
  Taken<Row> take() {
    return take_if<Row>([](const Taken<Row>&) { return true; });
  }
  bool are_all_taken() const { return std::ranges::find(is_taken_, false) == is_taken_.end(); }
  /// True if a kernel need not write an operand: it lies between pieces.
  bool is_between(std::size_t operand) const { return operands_[operand].is_between; }
  bool is_read(std::size_t operand) const { return operands_[operand].role == op::Role::read; }

 private:
  const op::Fused& chain_;
  op::Operands operands_;
  std::vector<bool> is_taken_;
};

template <class Row>
std::optional<ChainDropout> dropout_of(const PieceSet::Taken<Row>& taken) {
  return ChainDropout{*taken.row, taken[1], taken[2]};
}

bool is_whole_channels(const op::BiasGradient& row, const Shape& grad, const Shape& bias) {
  return bias == Shape{grad.back()} &&
         row.summed_dims == static_cast<std::int64_t>(grad.rank()) - 1;
}

/// Takes a bias and a sum that lead to x, as far as there are some; the first hands its result on.
std::optional<BiasAndSum> take_bias_and_sum(PieceSet& pieces, std::size_t x, op::Shapes shapes) {
  const auto bias = pieces.take<op::AddBias>();
  const auto sum = pieces.take<op::Add>();
  BiasAndSum made{.in = x, .x = x};
  if (bias) {
    if (bias[2] != x || shapes[bias[1]] != Shape{shapes[x].back()}) return std::nullopt;
    made.in = bias[0];
    made.bias = bias[1];
  }
  if (sum) {
    if (sum[2] != x || sum.row->wide) return std::nullopt;
    made.bias_first = bias && bias.place < sum.place;
    const bool is_first_handed_on = made.bias_first && sum[0] == x;
    if (made.bias_first && !is_first_handed_on && sum[1] != x) return std::nullopt;
    if (bias && !made.bias_first && bias[0] != x) return std::nullopt;
    if (!made.bias_first) made.in = sum[0];
    made.other = is_first_handed_on || !made.bias_first ? sum[1] : sum[0];
  }
  for (const std::size_t read : {made.in, made.other.value_or(made.in)})
    if (read != x && !pieces.is_read(read)) return std::nullopt;
  const bool is_made = bias || sum;
  if (is_made && (made.in == x || made.other == x)) return std::nullopt;
  return made;
}

/// True if both rows go by the same channels of the same groups.
template <class A, class B>
bool have_same_channels(const A& a, const B& b) {
  return a.groups == b.groups && a.width == b.width && a.before == b.before && a.first == b.first;
}

/// The norm that is computed again, of the tensors of its gradient; its y lies between pieces.
PieceSet::Taken<op::GroupNormApply> take_repeated_norm(PieceSet& pieces, std::size_t x,
                                                       std::size_t statistics, std::size_t gain) {
  return pieces.take_if<op::GroupNormApply>([&](const auto& norm) {
    return norm[0] == x && norm[1] == statistics && norm[2] == gain && pieces.is_between(norm[4]);
  });
}

}  // namespace

std::optional<BiasAndSum> bias_and_sum(const op::Fused& chain, op::Shapes shapes) {
  PieceSet pieces(chain);
  if (chain.size() != 2 || shapes.back().rank() < 2) return std::nullopt;
  const auto made = take_bias_and_sum(pieces, shapes.size() - 1, shapes);
  return made && made->bias && made->other ? made : std::nullopt;
}

std::optional<NormStatistics> norm_statistics(const op::Fused& chain, op::Shapes shapes) {
  PieceSet pieces(chain);
  const auto moments = pieces.take<op::GroupNormMoments>();
  const auto statistics = pieces.take<op::GroupNormStatistics>();
  if (!moments || !statistics) return std::nullopt;
  const auto of = take_bias_and_sum(pieces, moments[0], shapes);
  if (!of || !pieces.are_all_taken()) return std::nullopt;
  NormStatistics made{*of, moments[1], statistics.operands->back(), *statistics.operands,
                      *statistics.row};
  made.parts.pop_back();
  return made;
}

std::optional<NormAndSilu> norm_and_silu(const op::Fused& chain) {
  PieceSet pieces(chain);
  const auto norm = pieces.take<op::GroupNormApply>();
  if (!norm) return std::nullopt;
  NormAndSilu made{.row = *norm.row};
  made.x = norm[0], made.statistics = norm[1], made.gain = norm[2], made.bias = norm[3];
  std::size_t handed_on = norm[4];
  if (const auto scaled = pieces.take<op::ScaleShift>()) {
    if (scaled[0] != handed_on || scaled[2] != handed_on) return std::nullopt;
    made.modulation = scaled[1];
  }
  const auto silu = pieces.take<op::Silu>();
  if (!silu || silu[0] != handed_on) return std::nullopt;
  if (const auto dropout = pieces.take<op::Dropout>()) {
    if (silu[1] != handed_on || dropout[0] != handed_on || dropout[3] != handed_on ||
        dropout.row->wide)
      return std::nullopt;
    made.dropout = dropout_of(dropout);
  }
  made.y = silu[1];
  return made.y == handed_on && pieces.are_all_taken() ? std::optional(made) : std::nullopt;
}

std::optional<NormSumsOfGradient> norm_sums_of_gradient(const op::Fused& chain) {
  PieceSet pieces(chain);
  const auto sums = pieces.take<op::GroupNormSums>();
  const auto weights = pieces.take<op::GroupNormWeightGradient>();
  const auto groups = pieces.take<op::GroupNormGroupSums>();
  if (!sums || !weights || !groups || weights[0] != sums[3] || groups[0] != sums[3] ||
      groups[1] != sums[1])
    return std::nullopt;
  NormSumsOfGradient made{.row = *sums.row};
  made.x = sums[0], made.statistics = sums[1], made.grad = sums[2], made.sums = sums[3];
  made.gain_grad = weights[1], made.bias_grad = weights[2];
  made.accumulate = weights.row->accumulate;
  made.gain = groups[2], made.statistics_grad = groups[3];
  if (pieces.are_all_taken()) return made;

  // One tensor takes the gradient through all pieces.
  const std::size_t y_grad = sums[2];
  const auto silu = pieces.take<op::SiluGradient>();
  const auto norm = take_repeated_norm(pieces, made.x, made.statistics, made.gain);
  if (!silu || !norm || silu[2] != y_grad || !have_same_channels(*norm.row, made.row))
    return std::nullopt;
  made.silu = {norm[3], pieces.is_between(y_grad) ? std::nullopt : std::optional(y_grad)};
  std::size_t read = norm[4];
  if (const auto scaled = pieces.take<op::ScaleShift>()) {
    const auto of_scale = pieces.take<op::ScaleShiftSums>();
    const auto back = pieces.take<op::ScaleShiftGradient>();
    if (!of_scale || !back || scaled[0] != read || scaled[2] == read ||
        !pieces.is_between(scaled[2]) || of_scale[0] != read || of_scale[1] != y_grad ||
        back[0] != scaled[1] || back[1] != y_grad || back[2] != y_grad ||
        of_scale.place > back.place)
      return std::nullopt;
    made.modulation = {scaled[1], of_scale[2]};
    read = scaled[2];
  }
  made.grad = silu[1];
  if (const auto dropout = pieces.take<op::Dropout>()) {
    if (silu[1] != y_grad || dropout[3] != y_grad || dropout.row->wide) return std::nullopt;
    made.grad = dropout[0];
    made.dropout = dropout_of(dropout);
  }
  const bool fits = silu[0] == read && pieces.is_read(made.grad) && pieces.are_all_taken();
  return fits ? std::optional(made) : std::nullopt;
}

std::optional<NormGradientOfX> norm_gradient_of_x(const op::Fused& chain, op::Shapes shapes) {
  PieceSet pieces(chain);
  const auto of_moments = pieces.take<op::GroupNormMomentsGradient>();
  const auto of_statistics = pieces.take<op::GroupNormStatisticsGradient>();
  const auto of_norm = pieces.take<op::GroupNormApplyGradient>();
  if (!of_moments || !of_statistics || !of_norm || of_moments.row->accumulate ||
      of_statistics[3] != of_moments[2] || of_statistics[2] != of_moments[1] ||
      of_statistics[0] != of_norm[0] || !pieces.is_between(of_moments[2]))
    return std::nullopt;
  NormGradientOfX made{.row = *of_statistics.row};
  made.x = of_moments[0], made.moments = of_moments[1];
  made.statistics = of_statistics[0], made.statistics_grad = of_statistics[1];
  made.gain = of_norm[1], made.grad = of_norm[2];
  if (!have_same_channels(*of_norm.row, made.row)) return std::nullopt;
  std::vector<std::size_t> passed_on;  // values that only pieces touch, or the result itself
  if (const auto silu = pieces.take<op::SiluGradient>()) {
    const auto norm = take_repeated_norm(pieces, made.x, made.statistics, made.gain);
    if (!norm || silu[0] != norm[4] || silu[2] != made.grad ||
        !have_same_channels(*norm.row, made.row))
      return std::nullopt;
    passed_on.push_back(silu[2]);
    made.silu_bias = norm[3];
    made.grad = silu[1];
    if (!pieces.is_read(made.grad)) return std::nullopt;
  }

  // (addend + direct) + by the moments; the terms of each sum in any order.
  const std::size_t direct = of_norm[3], by_moments = of_moments[3];
  const auto has = [](const PieceSet::Taken<op::Add>& sum, std::size_t term) {
    return sum[0] == term || sum[1] == term;
  };
  const auto other = [](const PieceSet::Taken<op::Add>& sum, std::size_t term) {
    return sum[0] == term ? sum[1] : sum[0];
  };
  const auto last = pieces.take_if<op::Add>(
      [&](const auto& sum) { return has(sum, by_moments) && !sum.row->wide; });
  if (!last) return std::nullopt;
  made.x_grad = last[2];
  std::size_t last_place = last.place;
  const std::size_t before = other(last, by_moments);
  if (const auto first = pieces.take_if<op::Add>([&](const auto& sum) {
        return has(sum, direct) && sum[2] == before && sum.place < last.place && !sum.row->wide;
      })) {
    made.addend = other(first, direct);
    if (!pieces.is_read(*made.addend)) return std::nullopt;
  } else if (before != direct) {
    return std::nullopt;
  }
  if (const auto later = pieces.take_if<op::Add>([&](const auto& sum) {
        return has(sum, last[2]) && sum.place > last.place && !sum.row->wide;
      })) {
    made.later_addend = other(later, last[2]);
    made.x_grad = later[2];
    last_place = later.place;
    if (!pieces.is_read(*made.later_addend)) return std::nullopt;
  }
  passed_on.insert(passed_on.end(), {direct, by_moments, before, last[2]});
  for (const std::size_t value : passed_on)
    if (value != made.x_grad && !pieces.is_between(value)) return std::nullopt;
  while (const auto of_bias = pieces.take_if<op::BiasGradient>([&](const auto& bias) {
    return bias[0] == made.x_grad && bias.place > last_place &&
           is_whole_channels(*bias.row, shapes[bias[0]], shapes[bias[1]]);
  }))
    made.biases.push_back({of_bias[1], of_bias.row->accumulate});
  return pieces.are_all_taken() ? std::optional(made) : std::nullopt;
}

}  // namespace fourfold::kernels
