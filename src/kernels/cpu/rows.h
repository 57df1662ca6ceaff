// One function for each row of the op table: the implementation "vector", own loops with OpenMP
// threads and vector instructions, in f32 and f64. What each computes stands at op:: and,
// executable, in reference/.
#pragma once

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu {

#define FOURFOLD_ROW(Row, work) Run prepare_row(const op::Row& op, const Problem& problem);
FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

/// Bytes of workspace that "vector" needs for an op; rows without an overload need none.
std::int64_t workspace_bytes(const op::Contract& op, const Problem& problem);
std::int64_t workspace_bytes(const op::Convolution& op, const Problem& problem);
std::int64_t workspace_bytes(const op::ConvolutionGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::ConvolutionWeightGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::Attention& op, const Problem& problem);
std::int64_t workspace_bytes(const op::AttentionGradient& op, const Problem& problem);
std::int64_t workspace_bytes(const op::AttentionCached& op, const Problem& problem);
std::int64_t workspace_bytes(const op::SquaredNorm& op, const Problem& problem);
std::int64_t workspace_bytes(const op::Fused& op, const Problem& problem);
template <class Row>
std::int64_t workspace_bytes(const Row&, const Problem&) {
  return 0;
}

}  // namespace fourfold::kernels::cpu
