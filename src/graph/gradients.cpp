#include "graph/gradients.h"

#include "base/error.h"
#include "base/format.h"

namespace fourfold::graph {
namespace {

std::int64_t free_dims(const op::Contract& op, const Shape& a) {
  return op.transpose_a ? static_cast<std::int64_t>(a.rank()) - op.batch - op.a_rows : op.a_rows;
}

// dA first, dB second: the all-reduce of dA can then hide behind the product for dB.
void gradient(const op::Contract& op, Pullback& p) {
  const ValueId a = p.node().reads[0], b = p.node().reads[1], dy = p.output_gradient();
  const std::int64_t rows = free_dims(op, p.shape(a));
  const auto product = [&](std::int64_t a_rows, bool transpose_a, std::int64_t b_rows,
                           bool transpose_b) {
    return op::Contract{.a_rows = a_rows,
                        .b_rows = b_rows,
                        .transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .batch = op.batch};
  };
  // Y = op(A) op(B): of op(A) it is dY op(B)', of op(B) op(A)' dY.
  if (op.transpose_a)
    p.give(0, product(op.b_rows, op.transpose_b, rows, true), {b, dy});
  else
    p.give(0, product(rows, false, op.b_rows, !op.transpose_b), {dy, b});
  if (op.transpose_b)
    p.give(1, product(rows, true, op.a_rows, op.transpose_a), {dy, a});
  else
    p.give(1, product(op.a_rows, !op.transpose_a, rows, false), {a, dy});
}

// As a contract: x_grad first.
void gradient(const op::Convolution& op, Pullback& p) {
  const ValueId x = p.node().reads[0], weight = p.node().reads[1], dy = p.output_gradient();
  const Shape picture = p.shape(x), kernel = p.shape(weight);
  p.give(0, op::ConvolutionGradient{picture[1], picture[2], op.stride, op.padding}, {dy, weight});
  p.give(1, op::ConvolutionWeightGradient{kernel[1], kernel[2], op.stride, op.padding}, {x, dy});
}

void gradient(const op::MaxPool& op, Pullback& p) {
  p.give(0, op::MaxPoolGradient{op.size, op.stride}, {p.node().reads[0], p.output_gradient()});
}

void gradient(const op::AveragePool& op, Pullback& p) {
  const Shape x = p.shape(p.node().reads[0]);
  p.give(0, op::AveragePoolGradient{x[1], x[2], op.size, op.stride}, {p.output_gradient()});
}

void gradient(const op::Upsample& op, Pullback& p) {
  p.give(0, op::UpsampleGradient{op.factor}, {p.output_gradient()});
}

void gradient(const op::Embedding& op, Pullback& p) {
  p.give(1,
         op::EmbeddingGradient{.rows = p.shape(p.node().reads[1])[0],
                               .first_row = op.first_row,
                               .wide = p.is_wide(p.output_gradient())},
         {p.node().reads[0], p.output_gradient()});
}

// What is read is rounded already, and may get a gradient that is wide.
void gradient(const op::AddPositions& op, Pullback& p) {
  require(!op.cached, "positions of a cached text have no gradient");
  p.pass(0, p.output_gradient());
  std::vector<ValueId> reads = {p.output_gradient()};
  if (op.documents) reads.push_back(p.node().reads[2]);
  p.give(1,
         op::PositionsGradient{.rows = p.shape(p.node().reads[1])[0],
                               .first = op.first,
                               .documents = op.documents,
                               .wide = op.wide},
         std::move(reads));
}

void gradient(const op::Dropout& op, Pullback& p) {
  p.give(0, op, {p.output_gradient(), p.node().reads[1], p.node().reads[2]});
}

/// Values, then what the norm that is pulled back gives beside y, its statistics, and the gradient
/// of y.
std::vector<ValueId> with_statistics(std::vector<ValueId> values, Pullback& p) {
  const auto& made = p.node().outputs;
  values.insert(values.end(), made.begin() + 1, made.end());
  values.push_back(p.output_gradient());
  return values;
}

void gradient(const op::LayerNorm& op, Pullback& p) {
  const auto& reads = p.node().reads;
  // The weights come first, as x_grad may take over the memory of the gradient of y.
  std::vector<std::size_t> weights = {1};
  if (op.bias) weights.push_back(2);
  p.give_all(std::move(weights),
             op::LayerNormWeightGradient{.bias = op.bias, .wide = op.wide, .centred = op.centred},
             with_statistics({reads[0]}, p));
  p.give(0, op::LayerNormGradient{op.wide, op.centred}, with_statistics({reads[0], reads[1]}, p));
}

// The moments get no gradient of their own: that of x contains it.
void gradient(const op::LayerNormApply& op, Pullback& p) {
  const ValueId x = p.node().reads[0], gain = p.node().reads[2];
  std::vector<std::size_t> weights = {2};
  if (op.bias) weights.push_back(3);
  p.give_all(std::move(weights),
             op::LayerNormWeightGradient{.bias = op.bias, .wide = op.wide, .centred = op.centred},
             with_statistics({x}, p));
  if (!p.is_wanted(0)) return;
  std::vector<ValueId> read = with_statistics({x, gain}, p);
  read.push_back(
      p.intermediate(op::LayerNormGradientSums{op.wide, op.centred}, read, "gradient_sums"));
  p.give(0, op::LayerNormGradientApply{.width = op.width, .wide = op.wide, .centred = op.centred},
         std::move(read));
}

void gradient(const op::GroupNormMoments&, Pullback& p) {
  p.give(0, op::GroupNormMomentsGradient{},
         {p.node().reads[0], p.node().outputs[0], p.output_gradient()});
}

void gradient(const op::GroupNormStatistics& op, Pullback& p) {
  const std::vector<ValueId>& moments = p.node().reads;
  op::GroupNormStatisticsGradient row{.groups = op.groups, .width = 0, .pixels = op.pixels};
  for (const ValueId of : moments) row.width += p.shape(of)[0];
  for (std::size_t i = 0; i < moments.size(); ++i) {
    p.give(i, row, {p.node().outputs[0], p.output_gradient(), moments[i]});
    row.before += p.shape(moments[i])[0];
  }
}

void gradient(const op::GroupNormApply& op, Pullback& p) {
  const auto& reads = p.node().reads;
  const ValueId x = reads[0], statistics = reads[1], gain = reads[2], dy = p.output_gradient();
  const ValueId sums = p.intermediate(op::GroupNormSums{op.groups, op.width, op.before, op.first},
                                      {x, statistics, dy}, "sums");
  p.give_all({2, 3}, op::GroupNormWeightGradient{}, {sums});
  p.give(1, op::GroupNormGroupSums{op.groups, op.width, op.before, op.first},
         {sums, statistics, gain});
  p.give(0, op::GroupNormApplyGradient{op.groups, op.width, op.before, op.first},
         {statistics, gain, dy});
}

void gradient(const op::ScaleShift&, Pullback& p) {
  const ValueId x = p.node().reads[0], modulation = p.node().reads[1], dy = p.output_gradient();
  p.give(1, op::ScaleShiftSums{}, {x, dy});
  p.give(0, op::ScaleShiftGradient{}, {modulation, dy});
}

void gradient(const op::AddToPixels&, Pullback& p) {
  p.pass(0, p.output_gradient());
  p.give(1, op::PixelSums{}, {p.output_gradient()});
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

void gradient(const op::Silu&, Pullback& p) {
  p.give(0, op::SiluGradient{}, {p.node().reads[0], p.output_gradient()});
}

void gradient(const op::Relu&, Pullback& p) {
  p.give(0, op::ReluGradient{}, {p.node().outputs[0], p.output_gradient()});
}

void gradient(const op::Add&, Pullback& p) {
  p.pass(0, p.output_gradient());
  p.pass(1, p.output_gradient());
}

// A value that is widened may get a wide gradient, as the sum of add_positions does.
void gradient(const op::Widen&, Pullback& p) {
  p.pass(0, p.output_gradient());
}
// The branch goes on in the type of the computation.
void gradient(const op::AddRounded&, Pullback& p) {
  p.pass(0, p.output_gradient());
  p.give(1, op::Cast{}, {p.output_gradient()});
}

void gradient(const op::Attention& op, Pullback& p) {
  const auto& node = p.node();
  std::vector<ValueId> reads = {node.reads[0], node.outputs[0], node.outputs[1],
                                p.output_gradient()};
  reads.insert(reads.end(), node.reads.begin() + 1, node.reads.end());
  p.give(0,
         op::AttentionGradient{op.stream, op.rate, op.window, op.first_head, op.heads, op.documents,
                               op.causal, op.grouped},
         std::move(reads));
}

// The way back turns by minus the angle.
void gradient(const op::Rotary& op, Pullback& p) {
  require(op.positions == 0, "positions of a cached text have no gradient");
  op::Rotary back = op;
  back.negative = !op.negative;
  std::vector<ValueId> reads = {p.output_gradient()};
  if (op.documents) reads.push_back(p.node().reads[1]);
  p.give(0, std::move(back), std::move(reads));
}

// The weights first, as for a layer norm.
void gradient(const op::HeadNorm&, Pullback& p) {
  const auto& reads = p.node().reads;
  const ValueId rstd = p.node().outputs[1], dy = p.output_gradient();
  p.give_all({1, 2}, op::HeadNormWeightGradient{}, {reads[0], rstd, dy});
  p.give(0, op::HeadNormGradient{}, {reads[0], reads[1], reads[2], rstd, dy});
}

void gradient(const op::Gated&, Pullback& p) {
  p.give(0, op::GatedGradient{}, {p.node().reads[0], p.output_gradient()});
}

}  // namespace

bool has_gradient(const op::Op& op) {
  return op::visit_row(
      []<class Row>(const Row& row) {
        if constexpr (std::is_same_v<Row, op::AddPositions>)
          return !row.cached;
        else if constexpr (std::is_same_v<Row, op::Rotary>)
          return row.positions == 0;
        else
          return requires(Pullback& pullback) { gradient(row, pullback); };
      },
      op);
}

void pull_back(const op::Op& op, Pullback& pullback) {
  op::visit_row(
      [&](const auto& row) {
        if constexpr (requires { gradient(row, pullback); })
          gradient(row, pullback);
        else
          fail_internal(format("{} has a gradient", op::name(op)));
      },
      op);
}

}  // namespace fourfold::graph
