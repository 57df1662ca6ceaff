// One function for each row of the op table: the reference kernel that defines the op, prepared for
// a problem. A row without one does not compile, see prepare.cpp. All are plain loops: one thread,
// sums in index order, no library.
#pragma once

#include "kernels/kernel.h"

namespace fourfold::kernels::reference {

// matmul.cpp
Run prepare_row(const op::Matmul& op, const Problem& problem);

// embedding.cpp
Run prepare_row(const op::Embedding& op, const Problem& problem);
Run prepare_row(const op::EmbeddingGradient& op, const Problem& problem);
Run prepare_row(const op::AddPositions& op, const Problem& problem);
Run prepare_row(const op::PositionsGradient& op, const Problem& problem);

// dropout.cpp
Run prepare_row(const op::Dropout& op, const Problem& problem);

// norm.cpp
Run prepare_row(const op::LayerNorm& op, const Problem& problem);
Run prepare_row(const op::LayerNormGradient& op, const Problem& problem);
Run prepare_row(const op::LayerNormWeightGradient& op, const Problem& problem);

// norm_parts.cpp
Run prepare_row(const op::LayerNormMoments& op, const Problem& problem);
Run prepare_row(const op::LayerNormApply& op, const Problem& problem);
Run prepare_row(const op::LayerNormGradientSums& op, const Problem& problem);
Run prepare_row(const op::LayerNormGradientApply& op, const Problem& problem);

// elementwise.cpp
Run prepare_row(const op::AddBias& op, const Problem& problem);
Run prepare_row(const op::BiasGradient& op, const Problem& problem);
Run prepare_row(const op::Gelu& op, const Problem& problem);
Run prepare_row(const op::GeluGradient& op, const Problem& problem);
Run prepare_row(const op::Cast& op, const Problem& problem);
Run prepare_row(const op::Add& op, const Problem& problem);
Run prepare_row(const op::TakePosition& op, const Problem& problem);

// attention.cpp
Run prepare_row(const op::Attention& op, const Problem& problem);
Run prepare_row(const op::AttentionGradient& op, const Problem& problem);
Run prepare_row(const op::AttentionCached& op, const Problem& problem);

// loss.cpp
Run prepare_row(const op::CrossEntropy& op, const Problem& problem);
Run prepare_row(const op::LogitMax& op, const Problem& problem);
Run prepare_row(const op::LogitSums& op, const Problem& problem);
Run prepare_row(const op::CrossEntropyMerge& op, const Problem& problem);
Run prepare_row(const op::CrossEntropyGradient& op, const Problem& problem);
Run prepare_row(const op::LossSum& op, const Problem& problem);

// update.cpp
Run prepare_row(const op::SquaredNorm& op, const Problem& problem);
Run prepare_row(const op::CountNonFinite& op, const Problem& problem);
Run prepare_row(const op::Vote& op, const Problem& problem);
Run prepare_row(const op::UpdateControl& op, const Problem& problem);
Run prepare_row(const op::AdamW& op, const Problem& problem);
Run prepare_row(const op::AdamWList& op, const Problem& problem);
Run prepare_row(const op::CountUpdate& op, const Problem& problem);

// state.cpp
Run prepare_row(const op::InitNormal& op, const Problem& problem);
Run prepare_row(const op::Fill& op, const Problem& problem);
Run prepare_row(const op::Digest& op, const Problem& problem);

// fused.cpp
Run prepare_row(const op::CastList& op, const Problem& problem);
Run prepare_row(const op::BiasGelu& op, const Problem& problem);
Run prepare_row(const op::AddLayerNorm& op, const Problem& problem);
Run prepare_row(const op::AddLayerNormGradient& op, const Problem& problem);
Run prepare_row(const op::CrossEntropyBoth& op, const Problem& problem);
Run prepare_row(const op::MatmulBias& op, const Problem& problem);
Run prepare_row(const op::MatmulBiasGelu& op, const Problem& problem);
Run prepare_row(const op::MatmulGeluGradient& op, const Problem& problem);

}  // namespace fourfold::kernels::reference
