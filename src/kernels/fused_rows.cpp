#include "kernels/fused_rows.h"

#include <algorithm>
#include <array>

#include "kernels/norm_operands.h"

namespace fourfold::kernels {
namespace {

/// The pieces of a chain, one after another.
class Pieces {
 public:
  explicit Pieces(const op::Fused& chain) : chain_(chain) {}

  /// The row of the next piece, where it is such a row; `operand(i)` then has its operands.
  template <class Row>
  const Row* take() {
    if (next_ == chain_.size()) return nullptr;
    const op::Piece& piece = chain_.piece(next_);
    const auto* row = piece.op.get_if<Row>();
    if (row == nullptr) return nullptr;
    taken_ = &piece;
    ++next_;
    return row;
  }
  std::size_t operand(std::size_t index) const { return taken_->operands[index]; }
  std::optional<std::size_t> operand(const std::optional<std::size_t>& index) const {
    return index ? std::optional(operand(*index)) : std::nullopt;
  }

 private:
  const op::Fused& chain_;
  std::size_t next_ = 0;
  const op::Piece* taken_ = nullptr;
};

BiasGelu bias_gelu(Pieces pieces) {
  pieces.take<op::AddBias>();
  BiasGelu made{pieces.operand(0), pieces.operand(1), pieces.operand(2), 0};
  pieces.take<op::Gelu>();
  made.y = pieces.operand(1);
  return made;
}

std::optional<ResidualNorm> residual_norm(Pieces pieces, op::Shapes shapes) {
  ResidualNorm made;
  std::optional<std::size_t> handed_on;
  bool fits = true;
  // The first piece reads the branch, each of the others what the one before it handed on.
  const auto enter = [&](std::size_t written) {
    if (handed_on)
      fits = fits && pieces.operand(0) == *handed_on;
    else
      made.branch = pieces.operand(0);
    handed_on = pieces.operand(written);
  };
  if (pieces.take<op::AddBias>() != nullptr) {
    enter(2);
    made.branch_bias = pieces.operand(1);
    fits = fits && shapes[*made.branch_bias] == Shape{shapes[*handed_on].back()};
  }
  if (const auto* dropout = pieces.take<op::Dropout>()) {
    enter(3);
    made.dropout = *dropout;
    made.seed = pieces.operand(1), made.step = pieces.operand(2);
  }
  if (pieces.take<op::AddRounded>() != nullptr) {
    made.other = pieces.operand(0), made.branch = pieces.operand(1);
    handed_on = pieces.operand(2);
    made.wide = true;
  } else {
    fits = fits && !pieces.take<op::Add>()->wide;
    enter(2);
    made.other = pieces.operand(1);
  }
  made.sum = *handed_on;
  const auto* norm = pieces.take<op::LayerNorm>();
  fits = fits && pieces.operand(0) == made.sum;
  made.epsilon = norm->epsilon;
  const NormOperands at(*norm, 1);
  made.gain = pieces.operand(at.gain), made.bias = pieces.operand(at.bias);
  made.y = pieces.operand(at.y), made.mean = pieces.operand(at.mean);
  made.rstd = pieces.operand(at.rstd);
  return fits ? std::optional(made) : std::nullopt;
}

std::optional<ResidualNormGradient> residual_norm_gradient(Pieces& pieces) {
  ResidualNormGradient made;
  bool fits = true;
  const auto* norm = pieces.take<op::LayerNormGradient>();
  const NormGradientOperands at(norm->centred, 2);
  made.wide = norm->wide;
  made.x = pieces.operand(0), made.gain = pieces.operand(1), made.mean = pieces.operand(at.mean);
  made.rstd = pieces.operand(at.rstd), made.y_grad = pieces.operand(at.y_grad);
  made.sum_grad = pieces.operand(at.next);
  if (pieces.take<op::Add>() != nullptr) {
    made.addend = pieces.operand(1);
    fits = fits && pieces.operand(0) == made.sum_grad && pieces.operand(2) == made.sum_grad;
  }
  if (pieces.take<op::Cast>() != nullptr) {
    fits = fits && pieces.operand(0) == made.sum_grad;
    made.branch_grad = pieces.operand(1);
  }
  if (const auto* dropout = pieces.take<op::Dropout>()) {
    const std::size_t read = made.branch_grad.value_or(made.sum_grad);
    made.dropout = *dropout;
    made.seed = pieces.operand(1), made.step = pieces.operand(2);
    fits = fits && pieces.operand(0) == read && !dropout->wide &&
           (!made.branch_grad || pieces.operand(3) == read);
    made.branch_grad = pieces.operand(3);
  }
  return fits ? std::optional(made) : std::nullopt;
}

std::optional<LossAndGradient> loss_and_gradient(Pieces pieces) {
  pieces.take<op::CrossEntropy>();
  LossAndGradient made{
      pieces.operand(0), pieces.operand(1), pieces.operand(2), pieces.operand(3), 0, 0};
  const auto* gradient = pieces.take<op::CrossEntropyGradient>();
  made.logits_grad = pieces.operand(3);
  made.scale = gradient->scale;
  const bool is_of_the_same = pieces.operand(0) == made.logits &&
                              pieces.operand(1) == made.labels && pieces.operand(2) == made.lse;
  const bool is_whole = gradient->first_column == 0 && gradient->columns == 0;
  return is_of_the_same && is_whole ? std::optional(made) : std::nullopt;
}

template <class Chain>
std::optional<RowChain> any(const std::optional<Chain>& chain) {
  return chain ? std::optional<RowChain>(*chain) : std::nullopt;
}

}  // namespace

std::optional<NormGradients> norm_gradients(const op::Fused& chain, op::Shapes shapes) {
  if (std::ranges::find(norm_gradient_chains, chain.chain_name()) == norm_gradient_chains.end())
    return std::nullopt;
  Pieces pieces(chain);
  const auto* weights = pieces.take<op::LayerNormWeightGradient>();
  const NormGradientOperands at(weights->centred, 1);
  NormGradients made;
  made.gain_grad = pieces.operand(at.next);
  made.accumulate = weights->accumulate;
  if (weights->bias) made.bias_grad = pieces.operand(at.next + 1);
  const std::array read{pieces.operand(0), pieces.operand(at.rstd), pieces.operand(at.y_grad)};
  const auto mean = pieces.operand(at.mean);
  const auto rows = residual_norm_gradient(pieces);
  if (!rows || rows->mean != mean || read != std::array{rows->x, rows->rstd, rows->y_grad})
    return std::nullopt;
  made.rows = *rows;
  if (const auto* sums = pieces.take<op::BiasGradient>()) {
    made.branch_bias_grad = pieces.operand(1);
    made.accumulate_branch = sums->accumulate;
    if (pieces.operand(0) != rows->branch_grad.value_or(rows->sum_grad) ||
        shapes[*made.branch_bias_grad] != shapes[rows->gain])
      return std::nullopt;
  }
  return made;
}

std::optional<RowChain> row_chain(const op::Fused& chain, op::Shapes shapes) {
  const std::string_view name = chain.chain_name();
  if (std::ranges::find(row_chains, name) == row_chains.end()) return std::nullopt;
  if (name == "add_bias&gelu") return bias_gelu(Pieces(chain));
  if (name.starts_with("layer_norm_gradient")) {
    Pieces pieces(chain);
    return any(residual_norm_gradient(pieces));
  }
  if (name.starts_with("cross_entropy")) return any(loss_and_gradient(Pieces(chain)));
  return any(residual_norm(Pieces(chain), shapes));
}

}  // namespace fourfold::kernels
