// The chains of rows around norms over groups of channels, as the compiler wires them. Header only.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "support/chains.h"

namespace fourfold::op {

inline Op chain_with_between(std::vector<Piece> pieces, std::size_t between) {
  auto made = Fused::of(std::move(pieces), between);
  const auto* mistake = std::get_if<Mistake>(&made);
  require(mistake == nullptr, [&] { return mistake->sentence; });
  return std::get<Fused>(std::move(made));
}

/// Operands x, the moments of the other parts in order; moments, statistics. x is part `index`.
inline Op moments_and_statistics(const GroupNormStatistics& row, std::size_t index = 0) {
  const auto parts = static_cast<std::size_t>(row.parts);
  Piece statistics{row, {}};
  std::size_t other = 1;
  for (std::size_t part = 0; part < parts; ++part)
    statistics.operands.push_back(part == index ? parts : other++);
  statistics.operands.push_back(parts + 1);
  return chain_of({{GroupNormMoments{}, {0, parts}}, std::move(statistics)});
}

/// What x is the sum of, in this order.
enum class SumOf : std::uint8_t { bias, other, bias_then_other, other_then_bias };

/// The pieces that make x of operand 0, a bias and another input, which are operands from 1 on.
inline std::vector<Piece> pieces_of_sum(SumOf of, std::size_t x) {
  switch (of) {
    case SumOf::bias:
      return {{AddBias{}, {0, 1, x}}};
    case SumOf::other:
      return {{Add{}, {0, 1, x}}};
    case SumOf::bias_then_other:
      return {{AddBias{}, {0, 1, x}}, {Add{}, {x, 2, x}}};
    case SumOf::other_then_bias:
      return {{Add{}, {0, 1, x}}, {AddBias{}, {x, 2, x}}};
  }
  return {};
}
/// Operands in, bias and other in the order of the sums; x.
inline Op bias_and_sum(SumOf of) {
  return chain_of(pieces_of_sum(of, 3));
}
/// Operands in, what is added, the moments of the other part; x, moments, statistics.
inline Op sum_and_statistics(SumOf of, const GroupNormStatistics& row) {
  const std::size_t added = of == SumOf::bias || of == SumOf::other ? 1 : 2, other = 1 + added,
                    x = other + static_cast<std::size_t>(row.parts) - 1;
  std::vector<Piece> pieces = pieces_of_sum(of, x);
  pieces.push_back({GroupNormMoments{}, {x, x + 1}});
  Piece statistics{row, {x + 1}};
  if (row.parts == 2) statistics.operands.push_back(other);
  statistics.operands.push_back(x + 2);
  pieces.push_back(std::move(statistics));
  return chain_of(std::move(pieces));
}

/// What follows a norm in the forward pass.
struct AfterNorm {
  bool modulated = false;
  std::optional<Dropout> dropout = {};
};
/// Operands x, statistics, gain, bias, (modulation,) (seed, step); y.
inline Op norm_and_silu(const GroupNormApply& row, const AfterNorm& after) {
  const std::size_t modulation = 4, seed = modulation + (after.modulated ? 1 : 0),
                    y = seed + (after.dropout ? 2 : 0);
  std::vector<Piece> pieces = {{row, {0, 1, 2, 3, y}}};
  if (after.modulated) pieces.push_back({ScaleShift{}, {y, modulation, y}});
  pieces.push_back({Silu{}, {y, y}});
  if (after.dropout) pieces.push_back({*after.dropout, {y, seed, seed + 1, y}});
  return chain_of(std::move(pieces));
}

template <class Row>
Row of_channels(const GroupNormApply& norm) {
  Row row;
  row.groups = norm.groups, row.width = norm.width;
  row.before = norm.before, row.first = norm.first;
  return row;
}

/// Operands x, statistics, gain, grad; gain_grad, bias_grad, statistics_grad; between: sums.
inline Op norm_sums(const GroupNormApply& norm, bool accumulate) {
  return chain_with_between({{of_channels<GroupNormSums>(norm), {0, 1, 3, 7}},
                             {GroupNormWeightGradient{accumulate}, {7, 4, 5}},
                             {of_channels<GroupNormGroupSums>(norm), {7, 1, 2, 6}}},
                            1);
}
/// Operands x, statistics, gain, grad, bias, (modulation,) (seed, step); (y_grad,) gain_grad,
/// bias_grad, statistics_grad, (modulation_grad); between: sums, y, (modulated), (y_grad).
inline Op norm_sums_of_silu(const GroupNormApply& norm, const AfterNorm& after, bool accumulate,
                            bool is_y_grad_kept = true) {
  const std::size_t modulation = 5, seed = modulation + (after.modulated ? 1 : 0),
                    first_output = seed + (after.dropout ? 2 : 0),
                    weights = first_output + (is_y_grad_kept ? 1 : 0),
                    statistics_grad = weights + 2, modulation_grad = statistics_grad + 1,
                    sums = modulation_grad + (after.modulated ? 1 : 0), y = sums + 1,
                    modulated = y + 1, behind_y = modulated + (after.modulated ? 1 : 0),
                    y_grad = is_y_grad_kept ? first_output : behind_y;
  std::vector<Piece> pieces;
  if (after.dropout) pieces.push_back({*after.dropout, {3, seed, seed + 1, y_grad}});
  pieces.push_back({norm, {0, 1, 2, 4, y}});
  if (after.modulated) pieces.push_back({ScaleShift{}, {y, modulation, modulated}});
  pieces.push_back(
      {SiluGradient{}, {after.modulated ? modulated : y, after.dropout ? y_grad : 3, y_grad}});
  if (after.modulated) {
    pieces.push_back({ScaleShiftSums{}, {y, y_grad, modulation_grad}});
    pieces.push_back({ScaleShiftGradient{}, {modulation, y_grad, y_grad}});
  }
  pieces.push_back({of_channels<GroupNormSums>(norm), {0, 1, y_grad, sums}});
  pieces.push_back({GroupNormWeightGradient{accumulate}, {sums, weights, weights + 1}});
  pieces.push_back({of_channels<GroupNormGroupSums>(norm), {sums, 1, 2, statistics_grad}});
  return chain_with_between(std::move(pieces),
                            (after.modulated ? 3U : 2U) + (is_y_grad_kept ? 0U : 1U));
}

/// What a norm's gradient of x has besides.
struct AroundGradient {
  bool has_silu = false, has_addend = false, has_later_addend = false;
  std::vector<BiasGradient> biases = {};
};
/// Operands x, moments, statistics, statistics_grad, gain, grad, (bias,) (addend,) (later_addend);
/// x_grad, and a gradient for each of `biases`; between: by_moments, moments_grad, (y).
inline Op norm_gradient(const GroupNormApply& norm, std::int64_t pixels,
                        const AroundGradient& around) {
  auto of_statistics = of_channels<GroupNormStatisticsGradient>(norm);
  of_statistics.pixels = pixels;
  const std::size_t bias = 6, addend = bias + (around.has_silu ? 1 : 0),
                    later = addend + (around.has_addend ? 1 : 0),
                    x_grad = later + (around.has_later_addend ? 1 : 0),
                    by_moments = x_grad + 1 + around.biases.size(), moments_grad = by_moments + 1,
                    y = moments_grad + 1;
  std::vector<Piece> pieces;
  if (around.has_silu) pieces = {{norm, {0, 2, 4, bias, y}}, {SiluGradient{}, {y, 5, x_grad}}};
  pieces.push_back(
      {of_channels<GroupNormApplyGradient>(norm), {2, 4, around.has_silu ? x_grad : 5, x_grad}});
  pieces.push_back({of_statistics, {2, 3, 1, moments_grad}});
  pieces.push_back({GroupNormMomentsGradient{}, {0, 1, moments_grad, by_moments}});
  if (around.has_addend) pieces.push_back({Add{}, {x_grad, addend, x_grad}});
  pieces.push_back({Add{}, {x_grad, by_moments, x_grad}});
  if (around.has_later_addend) pieces.push_back({Add{}, {x_grad, later, x_grad}});
  for (std::size_t i = 0; i < around.biases.size(); ++i)
    pieces.push_back({around.biases[i], {x_grad, x_grad + 1 + i}});
  return chain_with_between(std::move(pieces), around.has_silu ? 3 : 2);
}

}  // namespace fourfold::op
