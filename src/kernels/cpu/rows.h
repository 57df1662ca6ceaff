// One function for each row of the op table: the implementation "vector", own loops with OpenMP
// threads and vector instructions, in f32, f64 and, but for the rows named below, in bf16. What
// each computes stands at op:: and, executable, in reference/.
#pragma once

#include <type_traits>

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu {

#define FOURFOLD_ROW(Row, work) Run prepare_row(const op::Row& op, const Problem& problem);
FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

template <class Row, class... Others>
inline constexpr bool is_one_of = (... || std::is_same_v<Row, Others>);

/// True for rows that own loops have in f32 and f64 alone: in bf16 they run in f32 (widened.h).
template <class Row>
inline constexpr bool is_widened =
    is_one_of<Row, op::Contract, op::Convolution, op::ConvolutionGradient,
              op::ConvolutionWeightGradient, op::GroupNormMoments, op::GroupNormMomentsGradient,
              op::GroupNormStatistics, op::GroupNormStatisticsGradient, op::GroupNormApply,
              op::GroupNormSums, op::GroupNormWeightGradient, op::GroupNormGroupSums,
              op::GroupNormApplyGradient, op::MaxPool, op::MaxPoolGradient, op::AveragePool,
              op::AveragePoolGradient, op::Upsample, op::UpsampleGradient, op::Normalize,
              op::TimeEmbedding, op::ScaleShift, op::ScaleShiftGradient, op::ScaleShiftSums,
              op::AddToPixels, op::PixelSums>;

/// Bytes of workspace that "vector" needs for an op; rows without an overload need none.
std::int64_t workspace_bytes(const op::Contract& op, const Problem& problem);
std::int64_t workspace_bytes(const op::Convolution& op, const Problem& problem);
std::int64_t workspace_bytes(const op::ConvolutionGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::ConvolutionWeightGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::Attention& op, const Problem& problem);
std::int64_t workspace_bytes(const op::AttentionGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::AttentionCached& op, const Problem& problem);
std::int64_t workspace_bytes(const op::Rotary& op, const Problem& problem);
std::int64_t workspace_bytes(const op::SquaredNorm& op, const Problem& problem);
std::int64_t workspace_bytes(const op::Fused& op, const Problem& problem);
template <class Row>
std::int64_t workspace_bytes(const Row&, const Problem&) {
  return 0;
}

/// The kernel of any row and type, and its workspace.
Run prepare_vector(const Problem& problem);
std::int64_t vector_workspace_bytes(const Problem& problem);

}  // namespace fourfold::kernels::cpu
