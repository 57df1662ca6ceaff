// One function for each row of the op table: the implementation "own". What each computes stands at
// op:: and, executable, in reference/.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/fused_rows.h"
#include "kernels/norm_chains.h"

namespace fourfold::kernels::cuda {

#define FOURFOLD_ROW(Row, work) Enqueue prepare_row(const op::Row& op, const Problem& problem);
FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

/// op::Cast by the kernel of op::CastList.
Enqueue prepare_cast(const Problem& problem);

/// Which operands a product or a convolution has; the bias that is added to what was stored, an
/// element for each column or channel, is none of the row's own.
struct ProductPlaces {
  std::size_t first = 0, second = 1, out = 2;
  std::optional<std::size_t> bias = {};
};
/// `product` is the problem of the row alone, which neither accumulates nor leaves sums unrounded.
Enqueue prepare_with_bias(const op::Contract& op, const Problem& product,
                          const ProductPlaces& places);
Enqueue prepare_with_bias(const op::Convolution& op, const Problem& product,
                          const ProductPlaces& places);

/// A GELU's way back with the gradient of the bias before it: x_grad = op::GeluGradient(x, y_grad);
/// bias_grad of x_grad as it is stored. Numbers of the operands of the chain.
struct GeluGradients {
  std::size_t x, y_grad, x_grad, bias_grad;
  bool accumulate;
};

// The chains that are computed at once.
Enqueue prepare_chain(const GeluGradients& chain, const Problem& problem);
Enqueue prepare_chain(const BiasGelu& chain, const Problem& problem);
Enqueue prepare_chain(const ResidualNorm& chain, const Problem& problem);
Enqueue prepare_chain(const ResidualNormGradient& chain, const Problem& problem);
Enqueue prepare_chain(const NormGradients& chain, const Problem& problem);
/// True if one block has threads for a row; else the chain runs piece by piece.
bool fits_a_block(const NormGradients& chain, const Problem& problem);
Enqueue prepare_chain(const LossAndGradient& chain, const Problem& problem);
Enqueue prepare_chain(const BiasAndSum& chain, const Problem& problem);
Enqueue prepare_chain(const NormStatistics& chain, const Problem& problem);
Enqueue prepare_chain(const NormAndSilu& chain, const Problem& problem);
Enqueue prepare_chain(const NormSumsOfGradient& chain, const Problem& problem);
Enqueue prepare_chain(const NormGradientOfX& chain, const Problem& problem);
/// True if a chain's dropout of x goes by packs; else the chain runs piece by piece.
bool fits_packs(const std::optional<ChainDropout>& dropout, const Shape& x, DType dtype);

/// Bytes of workspace that "own" needs for an op, 16-byte aligned; rows without an overload need
/// none.
std::int64_t workspace_bytes(const op::EmbeddingGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::PositionsGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::BiasGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::LayerNormWeightGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::HeadNormWeightGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::ConvolutionWeightGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::AttentionGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::GroupNormMoments& op, const Problem& problem);
std::int64_t workspace_bytes(const op::GroupNormSums& op, const Problem& problem);
std::int64_t workspace_bytes(const op::ScaleShiftSums& op, const Problem& problem);
std::int64_t workspace_bytes(const op::PixelSums& op, const Problem& problem);
std::int64_t workspace_bytes(const op::SquaredNorm& op, const Problem& problem);
std::int64_t workspace_bytes(const op::Digest& op, const Problem& problem);
#define FOURFOLD_OPTIMIZER(Row)                                            \
  std::int64_t workspace_bytes(const op::Row& op, const Problem& problem); \
  std::int64_t workspace_bytes(const op::Row##List& op, const Problem& problem);
FOURFOLD_OPTIMIZERS(FOURFOLD_OPTIMIZER)
#undef FOURFOLD_OPTIMIZER
std::int64_t workspace_bytes(const op::Fused& op, const Problem& problem);
std::int64_t workspace_bytes(const GeluGradients& chain, const Problem& problem);
std::int64_t workspace_bytes(const NormGradients& chain, const Problem& problem);
std::int64_t workspace_bytes(const NormStatistics& chain, const Problem& problem);
std::int64_t workspace_bytes(const NormSumsOfGradient& chain, const Problem& problem);
std::int64_t workspace_bytes(const NormGradientOfX& chain, const Problem& problem);
template <class Row>
std::int64_t workspace_bytes(const Row&, const Problem&) {
  return 0;
}

}  // namespace fourfold::kernels::cuda
