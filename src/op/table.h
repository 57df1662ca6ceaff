// The closed table of ops: one variant, and what can be asked of any row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "op/fused.h"
#include "op/fused_products.h"

namespace fourfold::op {

/// The rows of the table with their attributes. To add an op: a struct in ops.h with its rules, a
/// line here, its gradient in graph/, its kernels in kernels/. A row without rules or without
/// reference kernel does not compile.
using AnyRow =
    std::variant<Matmul, Embedding, EmbeddingGradient, AddPositions, PositionsGradient, Dropout,
                 LayerNorm, LayerNormGradient, LayerNormWeightGradient, LayerNormMoments,
                 LayerNormApply, LayerNormGradientSums, LayerNormGradientApply, AddBias,
                 BiasGradient, Gelu, GeluGradient, Cast, CastList, Add, Attention,
                 AttentionGradient, AttentionCached, TakePosition, CrossEntropy, LogitMax,
                 LogitSums, CrossEntropyMerge, CrossEntropyGradient, LossSum, SquaredNorm,
                 CountNonFinite, Vote, UpdateControl, AdamW, AdamWList, CountUpdate, InitNormal,
                 Fill, Digest, BiasGelu, AddLayerNorm, AddLayerNormGradient, CrossEntropyBoth,
                 MatmulBias, MatmulBiasGelu, MatmulGeluGradient>;

/// One of the rows. Copying and comparing look at every row; they are compiled once, not in every
/// file that copies a program.
class Op : public AnyRow {
 public:
  template <class T>
    requires requires(AnyRow& any) { std::get<T>(any); }
  Op(T row) : AnyRow(std::in_place_type<T>, std::move(row)) {}
  Op();
  Op(const Op& other);
  Op(Op&& other) noexcept;
  Op& operator=(const Op& other);
  Op& operator=(Op&& other) noexcept;
  ~Op();
  bool operator==(const Op& other) const;
};

std::string_view name(const Op& op);
Operands operands(const Op& op);
std::vector<Shape> outputs(const Op& op, Shapes reads);
FactorRule factors(const Op& op, Shapes reads);
double flops(const Op& op, Shapes all);

/// What a fused row stands for: rows to run in this order, and which of its operands each has. A
/// row over a list of tensors has one for each of them; a part may read what an earlier one wrote.
/// Any other row stands for itself. What an op means (shapes, factors, who updates what) is judged
/// by its parts; what it touches and when, as a whole.
struct Part {
  Op op;
  std::vector<std::size_t> operands;
};
std::vector<Part> parts(const Op& op);
std::vector<Part> parts_of(const SquaredNorm& row);
std::vector<Part> parts_of(const CountNonFinite& row);
std::vector<Part> parts_of(const AdamWList& row);
std::vector<Part> parts_of(const CastList& row);
std::vector<Part> parts_of(const BiasGelu& row);
std::vector<Part> parts_of(const AddLayerNorm& row);
std::vector<Part> parts_of(const AddLayerNormGradient& row);
std::vector<Part> parts_of(const CrossEntropyBoth& row);
std::vector<Part> parts_of(const MatmulBias& row);
std::vector<Part> parts_of(const MatmulBiasGelu& row);
std::vector<Part> parts_of(const MatmulGeluGradient& row);
double flops_of_parts(const Op& op, Shapes all);
/// The product in a row: its first two operands are then those of the row.
std::optional<Matmul> product_of(const Op& op);
bool is_list(const Op& op);
/// Whether operands of Element::compute may hold any element type, one for all of them, instead of
/// the run's: the instruction's dtype says which. Start, update and digest of state that is kept in
/// the type of sums, and sums of any kind.
bool takes_any_element(const Op& op);
/// Bytes read and written, each operand once (an update counts twice).
double traffic_bytes(const Op& op, Shapes all, DType compute);

/// Whether the op can add to its outputs instead of overwriting them, and the same op told to do so
/// (or not to).
bool can_accumulate(const Op& op);
Op with_accumulate(Op op, bool accumulate);
/// The same op with its output in the type of its sums; ops whose outputs have it anyway are
/// returned as they are.
Op with_unrounded(Op op);
/// The same op for another micro-batch; ops that do not depend on it are returned as they are.
Op with_micro(Op op, std::int64_t micro);

/// The attributes that differ from their defaults, "eps 1e-05 bias true"; "" when none does. A
/// window of samples prints as "micro M samples S first F", one of a tensor as "global [8, 4] at
/// [0, 2]"; `micro` equal to `task_micro` prints as the word "micro", so that equal tasks have
/// equal text. Numbers print so that they read back exactly.
std::string attributes_text(const Op& op, std::optional<std::int64_t> task_micro);
/// Reads a name and what attributes_text writes. Throws UserError (bad_config) naming the word it
/// did not understand.
Op parse_op(std::string_view name, std::string_view attributes,
            std::optional<std::int64_t> task_micro);

}  // namespace fourfold::op
