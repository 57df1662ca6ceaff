// The chains of rows (op/fused.h) for which backends have kernels that do all at once: their names,
// and which operand is what. A backend runs the pieces of any other chain one after another.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <variant>

#include "op/table.h"

namespace fourfold::kernels {

/// Chains of rows that go over a tensor row by row, in the order in which a compiler should look
/// for them: one that holds another stands before it.
inline constexpr auto row_chains = std::to_array<std::string_view>(
    {"add_bias&gelu", "add_bias+dropout+add&layer_norm", "add_bias+add&layer_norm",
     "dropout+add&layer_norm", "add&layer_norm", "add_rounded&layer_norm",
     "layer_norm_gradient+add&cast+dropout", "layer_norm_gradient+add&cast",
     "layer_norm_gradient&cast+dropout", "layer_norm_gradient&cast",
     "layer_norm_gradient+add&dropout", "layer_norm_gradient+add", "layer_norm_gradient&dropout",
     "cross_entropy&cross_entropy_gradient"});

/// Chains of rows for a backend that sums over rows while it goes over them, in the same sense and
/// order: the gradients of a norm's gain and bias, with the gradient of the norm, and that of the
/// bias of the branch before it. To be looked for before those above.
inline constexpr auto norm_gradient_chains = std::to_array<std::string_view>(
    {"layer_norm_weight_gradient|layer_norm_gradient+add&cast+dropout&bias_gradient",
     "layer_norm_weight_gradient|layer_norm_gradient+add&cast+dropout",
     "layer_norm_weight_gradient|layer_norm_gradient+add&cast&bias_gradient",
     "layer_norm_weight_gradient|layer_norm_gradient+add&cast",
     "layer_norm_weight_gradient|layer_norm_gradient&cast+dropout&bias_gradient",
     "layer_norm_weight_gradient|layer_norm_gradient&cast+dropout",
     "layer_norm_weight_gradient|layer_norm_gradient&cast&bias_gradient",
     "layer_norm_weight_gradient|layer_norm_gradient&cast",
     "layer_norm_weight_gradient|layer_norm_gradient+add&dropout&bias_gradient",
     "layer_norm_weight_gradient|layer_norm_gradient+add&dropout",
     "layer_norm_weight_gradient|layer_norm_gradient+add&bias_gradient",
     "layer_norm_weight_gradient|layer_norm_gradient+add",
     "layer_norm_weight_gradient|layer_norm_gradient&dropout&bias_gradient",
     "layer_norm_weight_gradient|layer_norm_gradient&dropout",
     "layer_norm_weight_gradient|layer_norm_gradient&bias_gradient",
     "layer_norm_weight_gradient|layer_norm_gradient"});

// Numbers are those of the operands of the chain.

/// sum = x + bias; y = gelu(sum).
struct BiasGelu {
  std::size_t x, bias, sum, y;
};

/// A residual connection and the norm after it: sum = other + dropout(branch + branch_bias); y,
/// mean, where the norm is centred, and rstd as op::LayerNorm of sum. `wide`: other and sum are,
/// and the branch is rounded.
struct ResidualNorm {
  std::size_t branch = 0, other = 0, sum = 0, gain = 0, y = 0, rstd = 0;
  std::optional<std::size_t> branch_bias = {}, bias = {}, mean = {};
  std::optional<op::Dropout> dropout = {};
  std::size_t seed = 0, step = 0;  // where there is dropout
  double epsilon = 0;
  bool wide = false;
};

/// The way back: sum_grad = x_grad of op::LayerNormGradient (+ addend); branch_grad =
/// dropout(sum_grad). `wide`: x, the addend and sum_grad are, and branch_grad is rounded, before
/// the dropout too.
struct ResidualNormGradient {
  std::size_t x = 0, gain = 0, rstd = 0, y_grad = 0, sum_grad = 0;
  std::optional<std::size_t> mean = {};  // where the norm is centred
  std::optional<std::size_t> addend = {}, branch_grad = {};
  std::optional<op::Dropout> dropout = {};
  std::size_t seed = 0, step = 0;
  bool wide = false;
};

/// The same with sums over rows: gain_grad and bias_grad of op::LayerNormWeightGradient;
/// branch_bias_grad of branch_grad as it is stored, or of sum_grad where there is none.
struct NormGradients {
  ResidualNormGradient rows;
  std::size_t gain_grad = 0;
  std::optional<std::size_t> bias_grad = {}, branch_bias_grad = {};
  bool accumulate = false, accumulate_branch = false;
};

/// op::CrossEntropy and op::CrossEntropyGradient of the same whole vocabulary; logits_grad may lie
/// where the logits are.
struct LossAndGradient {
  std::size_t logits, labels, loss, lse, logits_grad;
  double scale;
};

using RowChain = std::variant<BiasGelu, ResidualNorm, ResidualNormGradient, LossAndGradient>;

/// What a chain of `row_chains` is on operands of these shapes; nothing where it has an attribute
/// or a shape that the kernels do not know.
std::optional<RowChain> row_chain(const op::Fused& chain, op::Shapes shapes);
/// Likewise for a chain of `norm_gradient_chains`.
std::optional<NormGradients> norm_gradients(const op::Fused& chain, op::Shapes shapes);

}  // namespace fourfold::kernels
