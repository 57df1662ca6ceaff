// The chains of rows that targets have kernels for, as the compiler wires them. Header only.
#pragma once

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "op/table.h"

namespace fourfold::op {

inline Op chain_of(std::vector<Piece> pieces) {
  auto made = Fused::of(std::move(pieces));
  const auto* mistake = std::get_if<Mistake>(&made);
  require(mistake == nullptr, [&] { return mistake->sentence; });
  return std::get<Fused>(std::move(made));
}

/// Operands x, bias; sum, y.
inline Op bias_gelu() {
  return chain_of({{AddBias{}, {0, 1, 2}}, {Gelu{}, {2, 3}}});
}

/// Operands branch, (branch_bias,) (seed, step,) other, gain, (bias); sum, y, mean, rstd.
inline Op residual_norm(const LayerNorm& norm, bool branch_bias,
                        const std::optional<Dropout>& dropout) {
  const std::size_t seed = branch_bias ? 2 : 1, other = seed + (dropout ? 2 : 0), gain = other + 1,
                    sum = gain + (norm.bias ? 2 : 1);
  std::vector<Piece> pieces;
  std::size_t branch = 0;
  if (branch_bias) pieces.push_back({AddBias{}, {std::exchange(branch, sum), 1, sum}});
  if (dropout) pieces.push_back({*dropout, {std::exchange(branch, sum), seed, seed + 1, sum}});
  pieces.push_back({Add{}, {branch, other, sum}});
  Piece last{norm, {sum, gain}};
  if (norm.bias) last.operands.push_back(gain + 1);
  last.operands.insert(last.operands.end(), {sum + 1, sum + 2, sum + 3});
  pieces.push_back(std::move(last));
  return chain_of(std::move(pieces));
}

/// Operands x, gain, mean, rstd, y_grad, (addend,) (seed, step); sum_grad, (branch_grad).
inline Op residual_norm_gradient(bool addend, const std::optional<Dropout>& dropout) {
  const std::size_t seed = addend ? 6 : 5, sum = seed + (dropout ? 2 : 0);
  std::vector<Piece> pieces = {{LayerNormGradient{}, {0, 1, 2, 3, 4, sum}}};
  if (addend) pieces.push_back({Add{}, {sum, 5, sum}});
  if (dropout) pieces.push_back({*dropout, {sum, seed, seed + 1, sum + 1}});
  return chain_of(std::move(pieces));
}

/// The same where the residual stream is wide. Operands other, branch, gain, (bias); sum, y, mean,
/// rstd.
inline Op wide_residual_norm(LayerNorm norm) {
  norm.wide = true;
  const std::size_t sum = norm.bias ? 4 : 3;
  Piece last{norm, {sum, 2}};
  if (norm.bias) last.operands.push_back(3);
  last.operands.insert(last.operands.end(), {sum + 1, sum + 2, sum + 3});
  return chain_of({{AddRounded{}, {0, 1, sum}}, std::move(last)});
}
/// Operands x, gain, mean, rstd, y_grad, (addend,) (seed, step); sum_grad, branch_grad.
inline Op wide_residual_norm_gradient(bool addend, const std::optional<Dropout>& dropout) {
  const std::size_t seed = addend ? 6 : 5, sum = seed + (dropout ? 2 : 0);
  std::vector<Piece> pieces = {{LayerNormGradient{true}, {0, 1, 2, 3, 4, sum}}};
  if (addend) pieces.push_back({Add{true}, {sum, 5, sum}});
  pieces.push_back({Cast{}, {sum, sum + 1}});
  if (dropout) pieces.push_back({*dropout, {sum + 1, seed, seed + 1, sum + 1}});
  return chain_of(std::move(pieces));
}

/// Gradients of a norm with sums over rows in the same chain.
struct NormSums {
  bool bias, branch_bias;  // besides those of the gain
  bool accumulate = false;
};
/// Operands x, gain, mean, rstd, y_grad, (addend,) (seed, step); gain_grad, (bias_grad,) sum_grad,
/// (branch_grad,) (branch_bias_grad).
inline Op norm_gradients(const NormSums& sums, bool wide, bool addend,
                         const std::optional<Dropout>& dropout, std::int64_t summed_dims) {
  const std::size_t seed = addend ? 6 : 5;
  std::size_t next = seed + (dropout ? 2 : 0);
  Piece weights{LayerNormWeightGradient{sums.bias, sums.accumulate, wide}, {0, 2, 3, 4, next++}};
  if (sums.bias) weights.operands.push_back(next++);
  const std::size_t sum = next++;
  std::vector<Piece> pieces = {weights, {LayerNormGradient{wide}, {0, 1, 2, 3, 4, sum}}};
  if (addend) pieces.push_back({Add{wide}, {sum, 5, sum}});
  std::size_t branch = sum;
  if (wide) pieces.push_back({Cast{}, {std::exchange(branch, next), next}});
  if (dropout) {
    const std::size_t kept = wide ? branch : next;
    pieces.push_back({*dropout, {std::exchange(branch, kept), seed, seed + 1, kept}});
  }
  if (branch != sum) ++next;
  if (sums.branch_bias)
    pieces.push_back({BiasGradient{summed_dims, sums.accumulate}, {branch, next}});
  return chain_of(std::move(pieces));
}

/// Operands logits, labels; loss, lse, logits_grad.
inline Op loss_and_gradient(double scale) {
  return chain_of({{CrossEntropy{}, {0, 1, 2, 3}}, {CrossEntropyGradient{scale}, {0, 1, 3, 4}}});
}

/// Operands a, b, bias; y.
inline Op product_and_bias(const Contract& product = {}) {
  return chain_of({{product, {0, 1, 3}}, {AddBias{}, {3, 2, 3}}});
}
/// Operands a, b, bias; sum, y.
inline Op product_bias_gelu(const Contract& product = {}) {
  return chain_of({{product, {0, 1, 3}}, {AddBias{}, {3, 2, 3}}, {Gelu{}, {3, 4}}});
}
/// Operands a, b, x; x_grad, (bias_grad).
inline Op product_gelu_gradient(const Contract& product = {},
                                const std::optional<BiasGradient>& bias = {}) {
  std::vector<Piece> pieces = {{product, {0, 1, 3}}, {GeluGradient{}, {2, 3, 3}}};
  if (bias) pieces.push_back({*bias, {3, 4}});
  return chain_of(std::move(pieces));
}

/// Operands x, y_grad; x_grad, bias_grad.
inline Op gelu_gradient_and_sums(const BiasGradient& bias) {
  return chain_of({{GeluGradient{}, {0, 1, 2}}, {bias, {2, 3}}});
}

}  // namespace fourfold::op
