// The closed table of ops: one variant, and what can be asked of any row.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "op/ops.h"

namespace fourfold::op {

/// A row of the table with its attributes. To add an op: a struct in ops.h with its rules, a line
/// here, its gradient in graph/, its kernels in kernels/. A row without rules or without reference
/// kernel does not compile.
using Op =
    std::variant<Matmul, Embedding, EmbeddingGradient, AddPositions, PositionsGradient, Dropout,
                 LayerNorm, LayerNormGradient, LayerNormWeightGradient, AddBias, BiasGradient, Gelu,
                 GeluGradient, Add, Attention, AttentionGradient, AttentionCached, TakePosition,
                 CrossEntropy, CrossEntropyGradient, LossSum, SquaredNorm, CountNonFinite,
                 UpdateControl, AdamW, CountUpdate, InitNormal, Fill, Digest>;

std::string_view name(const Op& op);
Operands operands(const Op& op);
std::vector<Shape> outputs(const Op& op, Shapes reads);
FactorRule factors(const Op& op, Shapes reads);
double flops(const Op& op, Shapes all);
/// Bytes read and written, each operand once (an update counts twice).
double traffic_bytes(const Op& op, Shapes all, DType compute);

/// Whether the op can add to its outputs instead of overwriting them, and the same op told to do so
/// (or not to).
bool can_accumulate(const Op& op);
Op with_accumulate(Op op, bool accumulate);
/// The same op for another micro-batch; ops that do not depend on it are returned as they are.
Op with_micro(Op op, std::int64_t micro);

/// The attributes that differ from their defaults, "eps 1e-05 bias true"; "" when none does. A
/// window prints as "micro M samples S first F"; `micro` equal to `task_micro` prints as the word
/// "micro", so that equal tasks have equal text. Numbers print so that they read back exactly.
std::string attributes_text(const Op& op, std::optional<std::int64_t> task_micro);
/// Reads a name and what attributes_text writes. Throws UserError (bad_config) naming the word it
/// did not understand.
Op parse_op(std::string_view name, std::string_view attributes,
            std::optional<std::int64_t> task_micro);

}  // namespace fourfold::op
