// Chains of rows (op/fused.h) around norms over groups of channels for which a backend may have
// kernels that do all at once, and which operand is what. Numbers are those of the operands of the
// chain. A backend runs the pieces of any other chain one after another.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "op/table.h"

namespace fourfold::kernels {

/// Chains of the forward pass, in the order in which a compiler should look for them. Those of the
/// backward pass are as long as compile/fuse_norms.h finds them.
inline constexpr auto norm_chains = std::to_array<std::string_view>(
    {"add_bias+add&group_norm_moments&group_norm_statistics",
     "add+add_bias&group_norm_moments&group_norm_statistics",
     "add_bias&group_norm_moments&group_norm_statistics",
     "add&group_norm_moments&group_norm_statistics", "group_norm_moments&group_norm_statistics",
     "add_bias+add", "add+add_bias", "group_norm_apply+scale_shift+silu+dropout",
     "group_norm_apply+scale_shift+silu", "group_norm_apply+silu+dropout",
     "group_norm_apply+silu"});

/// Rows that a backend with such chains computes again in the backward pass, and for which rows
/// there (machine::Target::repeated).
inline constexpr auto repeated_norm_rows =
    std::to_array<std::string_view>({"group_norm_apply", "scale_shift"});
inline constexpr auto readers_of_repeated_norms =
    std::to_array<std::string_view>({"silu_gradient", "scale_shift_sums"});

/// x = in + bias, in + other, or the sum of all three, each sum stored; `bias_first` says that the
/// bias is added before the other. x = in where there is neither.
struct BiasAndSum {
  std::size_t in = 0, x = 0;
  std::optional<std::size_t> bias = {}, other = {};
  bool bias_first = false;
};

/// op::GroupNormMoments of x; op::GroupNormStatistics of all parts, `moments` being of one of them.
struct NormStatistics {
  BiasAndSum of;
  std::size_t moments = 0, statistics = 0;
  std::vector<std::size_t> parts = {};  // moments of each part
  op::GroupNormStatistics row = {};
};

/// op::Dropout of a tensor of the chain.
struct ChainDropout {
  op::Dropout row;
  std::size_t seed, step;
};

/// op::GroupNormApply of a part, op::ScaleShift where there is a modulation, op::Silu, op::Dropout.
struct NormAndSilu {
  op::GroupNormApply row;
  std::size_t x = 0, statistics = 0, gain = 0, bias = 0, y = 0;
  std::optional<std::size_t> modulation = {};
  std::optional<ChainDropout> dropout = {};
};

/// The way back to what a norm has made. grad is the gradient of what NormAndSilu makes; y_grad
/// that of the norm's y, written unless it lies between pieces, or where the norm is not computed
/// again grad itself. Then op::GroupNormSums of y_grad, op::GroupNormWeightGradient and
/// op::GroupNormGroupSums.
struct NormSumsOfGradient {
  op::GroupNormSums row;
  std::size_t x = 0, statistics = 0, gain = 0, grad = 0, sums = 0, gain_grad = 0, bias_grad = 0,
              statistics_grad = 0;
  bool accumulate = false;
  struct Silu {
    std::size_t bias;
    std::optional<std::size_t> y_grad;  // where it is written
  };
  std::optional<Silu> silu = {};
  struct Modulation {
    std::size_t of, gradient;
  };
  std::optional<Modulation> modulation = {};
  std::optional<ChainDropout> dropout = {};
};

/// x_grad = (addend +) op::GroupNormApplyGradient + op::GroupNormMomentsGradient (+ later_addend),
/// each sum stored.
/// moments_grad is op::GroupNormStatisticsGradient of statistics_grad. bias_grads are
/// op::BiasGradient of x_grad. grad is the gradient of the norm's y, or with `silu_bias`, the bias
/// of the norm, that of its SiLU: both are computed again.
struct NormGradientOfX {
  op::GroupNormStatisticsGradient row;
  std::size_t x = 0, moments = 0, statistics = 0, statistics_grad = 0, gain = 0, grad = 0,
              x_grad = 0;
  std::optional<std::size_t> silu_bias = {}, addend = {}, later_addend = {};
  struct Bias {
    std::size_t gradient;
    bool accumulate;
  };
  std::vector<Bias> biases = {};
};

// What a chain is; nothing where it is another one, or has an attribute that kernels do not know.
std::optional<BiasAndSum> bias_and_sum(const op::Fused& chain, op::Shapes shapes);
std::optional<NormStatistics> norm_statistics(const op::Fused& chain, op::Shapes shapes);
std::optional<NormAndSilu> norm_and_silu(const op::Fused& chain);
std::optional<NormSumsOfGradient> norm_sums_of_gradient(const op::Fused& chain);
std::optional<NormGradientOfX> norm_gradient_of_x(const op::Fused& chain, op::Shapes shapes);

}  // namespace fourfold::kernels
