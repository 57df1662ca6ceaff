// One function for each row of the op table: the implementation "own". What each computes stands at
// op:: and, executable, in reference/.
#pragma once

#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda {

// matmul.cu
Enqueue prepare_row(const op::Matmul& op, const Problem& problem);

// embedding.cu
Enqueue prepare_row(const op::Embedding& op, const Problem& problem);
Enqueue prepare_row(const op::EmbeddingGradient& op, const Problem& problem);
Enqueue prepare_row(const op::AddPositions& op, const Problem& problem);
Enqueue prepare_row(const op::PositionsGradient& op, const Problem& problem);

// dropout.cu
Enqueue prepare_row(const op::Dropout& op, const Problem& problem);

// norm.cu
Enqueue prepare_row(const op::LayerNorm& op, const Problem& problem);
Enqueue prepare_row(const op::LayerNormGradient& op, const Problem& problem);
Enqueue prepare_row(const op::AddLayerNorm& op, const Problem& problem);
Enqueue prepare_row(const op::AddLayerNormGradient& op, const Problem& problem);

// norm_parts.cu
Enqueue prepare_row(const op::LayerNormMoments& op, const Problem& problem);
Enqueue prepare_row(const op::LayerNormApply& op, const Problem& problem);
Enqueue prepare_row(const op::LayerNormGradientSums& op, const Problem& problem);
Enqueue prepare_row(const op::LayerNormGradientApply& op, const Problem& problem);

// column_sums.cu
Enqueue prepare_row(const op::LayerNormWeightGradient& op, const Problem& problem);
Enqueue prepare_row(const op::BiasGradient& op, const Problem& problem);

// elementwise.cu
Enqueue prepare_row(const op::AddBias& op, const Problem& problem);
Enqueue prepare_row(const op::Gelu& op, const Problem& problem);
Enqueue prepare_row(const op::GeluGradient& op, const Problem& problem);
Enqueue prepare_row(const op::Add& op, const Problem& problem);
Enqueue prepare_row(const op::TakePosition& op, const Problem& problem);
Enqueue prepare_row(const op::Fill& op, const Problem& problem);
Enqueue prepare_row(const op::BiasGelu& op, const Problem& problem);

// attention.cu
Enqueue prepare_row(const op::Attention& op, const Problem& problem);

// attention_gradient.cu
Enqueue prepare_row(const op::AttentionGradient& op, const Problem& problem);

// attention_cached.cu
Enqueue prepare_row(const op::AttentionCached& op, const Problem& problem);

// loss.cu
Enqueue prepare_row(const op::CrossEntropy& op, const Problem& problem);
Enqueue prepare_row(const op::LogitMax& op, const Problem& problem);
Enqueue prepare_row(const op::LogitSums& op, const Problem& problem);
Enqueue prepare_row(const op::CrossEntropyMerge& op, const Problem& problem);
Enqueue prepare_row(const op::CrossEntropyGradient& op, const Problem& problem);
Enqueue prepare_row(const op::LossSum& op, const Problem& problem);
Enqueue prepare_row(const op::CrossEntropyBoth& op, const Problem& problem);

// update.cu
Enqueue prepare_row(const op::Vote& op, const Problem& problem);
Enqueue prepare_row(const op::UpdateControl& op, const Problem& problem);
Enqueue prepare_row(const op::AdamW& op, const Problem& problem);
Enqueue prepare_row(const op::AdamWList& op, const Problem& problem);
Enqueue prepare_row(const op::CountUpdate& op, const Problem& problem);

// cast.cu
Enqueue prepare_row(const op::Cast& op, const Problem& problem);
Enqueue prepare_row(const op::CastList& op, const Problem& problem);

// tensor_sums.cu
Enqueue prepare_row(const op::SquaredNorm& op, const Problem& problem);
Enqueue prepare_row(const op::CountNonFinite& op, const Problem& problem);
Enqueue prepare_row(const op::Digest& op, const Problem& problem);

// own_parts.cpp
Enqueue prepare_row(const op::MatmulBias& op, const Problem& problem);
Enqueue prepare_row(const op::MatmulBiasGelu& op, const Problem& problem);
Enqueue prepare_row(const op::MatmulGeluGradient& op, const Problem& problem);

// init.cu
Enqueue prepare_row(const op::InitNormal& op, const Problem& problem);

/// Bytes of workspace that "own" needs for an op, 16-byte aligned; rows without an overload need
/// none.
std::int64_t workspace_bytes(const op::BiasGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::LayerNormWeightGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::AttentionGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::SquaredNorm& op, const Problem& problem);
std::int64_t workspace_bytes(const op::CountNonFinite& op, const Problem& problem);
std::int64_t workspace_bytes(const op::Digest& op, const Problem& problem);
std::int64_t workspace_bytes(const op::MatmulGeluGradient& op, const Problem& problem);
template <class Row>
std::int64_t workspace_bytes(const Row&, const Problem&) {
  return 0;
}

}  // namespace fourfold::kernels::cuda
