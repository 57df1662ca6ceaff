#include "graph/gradients.h"

#include "base/error.h"
#include "base/format.h"

namespace fourfold::graph {
namespace {

std::size_t free_dims(const op::Matmul& op, const Shape& a) {
  return op.transpose_a ? a.rank() - static_cast<std::size_t>(op.a_rows)
                        : static_cast<std::size_t>(op.a_rows);
}

// dA first, dB second: the all-reduce of dA can then hide behind the product for dB.
void gradient(const op::Matmul& op, Pullback& p) {
  require(!(op.transpose_a && op.transpose_b), "no model multiplies two transposed operands");
  const ValueId a = p.node().reads[0], b = p.node().reads[1], dy = p.output_gradient();
  const auto rows = static_cast<std::int64_t>(free_dims(op, p.shape(a)));
  if (op.transpose_a) {  // Y = A'B: dA = B dY', dB = A dY
    p.give(0, op::Matmul{.a_rows = op.b_rows, .b_rows = rows, .transpose_b = true}, {b, dy});
    p.give(1, op::Matmul{.a_rows = op.a_rows, .b_rows = rows}, {a, dy});
  } else if (op.transpose_b) {  // Y = AB': dA = dY B, dB = dY'A
    p.give(0, op::Matmul{.a_rows = rows, .b_rows = op.b_rows}, {dy, b});
    p.give(1, op::Matmul{.a_rows = rows, .b_rows = op.a_rows, .transpose_a = true}, {dy, a});
  } else {  // Y = AB: dA = dY B', dB = A'dY
    p.give(0, op::Matmul{.a_rows = rows, .b_rows = op.b_rows, .transpose_b = true}, {dy, b});
    p.give(1, op::Matmul{.a_rows = op.a_rows, .b_rows = rows, .transpose_a = true}, {a, dy});
  }
}

void gradient(const op::Embedding& op, Pullback& p) {
  p.give(1, op::EmbeddingGradient{.rows = p.shape(p.node().reads[1])[0], .first_row = op.first_row},
         {p.node().reads[0], p.output_gradient()});
}

void gradient(const op::AddPositions& op, Pullback& p) {
  require(!op.cached, "positions of a cached text have no gradient");
  p.pass(0, p.output_gradient());
  std::vector<ValueId> reads = {p.output_gradient()};
  if (op.documents) reads.push_back(p.node().reads[2]);
  p.give(1,
         op::PositionsGradient{
             .rows = p.shape(p.node().reads[1])[0], .first = op.first, .documents = op.documents},
         std::move(reads));
}

void gradient(const op::Dropout& op, Pullback& p) {
  p.give(0, op, {p.output_gradient(), p.node().reads[1], p.node().reads[2]});
}

void gradient(const op::LayerNorm& op, Pullback& p) {
  const auto& reads = p.node().reads;
  const ValueId mean = p.node().outputs[1], rstd = p.node().outputs[2], dy = p.output_gradient();
  // The weights first: x_grad may take over the memory of dy.
  std::vector<std::size_t> weights = {1};
  if (op.bias) weights.push_back(2);
  p.give_all(std::move(weights), op::LayerNormWeightGradient{.bias = op.bias},
             {reads[0], mean, rstd, dy});
  p.give(0, op::LayerNormGradient{}, {reads[0], reads[1], mean, rstd, dy});
}

// The moments get no gradient of their own: that of x contains it.
void gradient(const op::LayerNormApply& op, Pullback& p) {
  const auto& node = p.node();
  const ValueId x = node.reads[0], gain = node.reads[2];
  const ValueId mean = node.outputs[1], rstd = node.outputs[2], dy = p.output_gradient();
  std::vector<std::size_t> weights = {2};
  if (op.bias) weights.push_back(3);
  p.give_all(std::move(weights), op::LayerNormWeightGradient{.bias = op.bias}, {x, mean, rstd, dy});
  if (!p.is_wanted(0)) return;
  const ValueId sums =
      p.intermediate(op::LayerNormGradientSums{}, {x, gain, mean, rstd, dy}, "gradient_sums");
  p.give(0, op::LayerNormGradientApply{.width = op.width}, {x, gain, mean, rstd, dy, sums});
}

void gradient(const op::AddBias&, Pullback& p) {
  const auto& reads = p.node().reads;
  const auto summed =
      static_cast<std::int64_t>(p.shape(reads[0]).rank() - p.shape(reads[1]).rank());
  p.pass(0, p.output_gradient());
  p.give(1, op::BiasGradient{.summed_dims = summed}, {p.output_gradient()});
}

void gradient(const op::Gelu&, Pullback& p) {
  p.give(0, op::GeluGradient{}, {p.node().reads[0], p.output_gradient()});
}

void gradient(const op::Add&, Pullback& p) {
  p.pass(0, p.output_gradient());
  p.pass(1, p.output_gradient());
}

void gradient(const op::Attention& op, Pullback& p) {
  const auto& node = p.node();
  std::vector<ValueId> reads = {node.reads[0], node.outputs[0], node.outputs[1],
                                p.output_gradient()};
  reads.insert(reads.end(), node.reads.begin() + 1, node.reads.end());
  p.give(
      0,
      op::AttentionGradient{op.stream, op.rate, op.window, op.first_head, op.heads, op.documents},
      std::move(reads));
}

}  // namespace

void pull_back(const op::Op& op, Pullback& pullback) {
  std::visit(
      [&](const auto& row) {
        if constexpr (requires { gradient(row, pullback); })
          gradient(row, pullback);
        else
          fail_internal(format("{} has a gradient", op::name(op)));
      },
      op);
}

}  // namespace fourfold::graph
