#include "op/degrees.h"

#include <algorithm>
#include <bit>
#include <span>
#include <string_view>
#include <variant>

namespace fourfold::op {
namespace {

template <class Row, class... Rows>
constexpr bool is_row_of = (std::is_same_v<Row, Rows> || ...);

/// The largest of every `step`-th element from `first` on.
Degree largest(const ResidueTensor& tensor, std::size_t first = 0, std::size_t step = 1) {
  Degree most_of_all;
  if (tensor.is_integer) return most_of_all;
  for (std::size_t i = first; i < tensor.elements.size(); i += step)
    most_of_all = larger(most_of_all, degree_of(tensor.elements[i]));
  return most_of_all;
}

/// True of pairs of a mean and of what a variance or its root is made of.
bool are_pairs(std::string_view operand) {
  return operand == "moments" || operand == "statistics";
}

/// True of gradients, and of sums of them: a row is linear in all that it reads of them together.
bool is_gradient(std::string_view operand) {
  return operand.ends_with("grad") || operand == "sums";
}

/// What a row reads, and what it makes of it.
class DegreesOfRow {
 public:
  DegreesOfRow(const Op& op, ResidueTensors all) : operands_(operands(op)), all_(all) {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].role == Role::write || all[i].is_integer) continue;
      const Degree of = largest(all[i]);
      most_ = larger(most_, of);
      sum_ += of.degree;
      if (is_gradient(operands_[i].name))
        gradients_ = std::max(gradients_, of.degree);
      else
        others_ += of.degree;
      // The first one of a pair enters as it is, and the other one's root is hashed.
      plain_ += are_pairs(operands_[i].name) ? largest(all[i], 0, 2).degree : of.degree;
    }
  }

  Degree of(const Op& op) const {
    return visit_row([&](const auto& row) { return of_row(row); }, op);
  }

  void write(const Op& op) {
    const bool is_update = visit_row(
        [&](const auto& row) {
          if constexpr (requires { row.update; })
            return write_update(row.update.degree, row.update.weight_is_hash), true;
          return false;
        },
        op);
    if (is_update) return;
    const Degree made = of(op);
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].role == Role::read || all_[i].is_integer) continue;
      const bool keeps = operands_[i].role == Role::update;
      for (Residue& element : all_[i].elements)
        element = word_of(keeps ? larger(made, degree_of(element)) : made);
    }
    const auto* of_norm = op.get_if<LayerNormMoments>();
    if (of_norm != nullptr && !of_norm->centred) write_pairs(2 * sum_, 2 * sum_);
    if ((of_norm != nullptr && of_norm->centred) || op.is<GroupNormMoments>())
      write_pairs(sum_, 2 * sum_);
    if (op.is<GroupNormStatistics>()) write_pairs(plain_, 1);
  }

 private:
  /// Moments are made of the scaled gradient, to the power `degree`.
  void write_update(double degree, bool weight_is_hash) {
    const double scaled = degree * (largest(all_[0]).degree + largest(all_[2]).degree);
    const Degree moment = {std::max(most_.degree, scaled), most_.before};
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].role != Role::update || all_[i].is_integer) continue;
      const bool is_weight =
          operands_[i].state == State::weight || operands_[i].state == State::rounded;
      std::ranges::fill(all_[i].elements,
                        word_of(weight_is_hash && is_weight ? hashed(3 * moment.degree) : moment));
    }
  }

  /// Pairs of a mean and another number, in the last operand.
  void write_pairs(double of_mean, double of_other) {
    const std::span<Residue> pairs = all_.back().elements;
    const double before = hashed(sum_).before;
    for (std::size_t i = 0; i < pairs.size(); ++i)
      pairs[i] = word_of({i % 2 == 0 ? of_mean : of_other, before});
  }

  /// A value of this degree of which functions of polynomials in what is read, of degree up to
  /// three times `read`, are factors.
  Degree with_hashes(double degree, double read) const {
    return {degree, most_.before + 3 * read + 3};
  }
  Degree hashed(double read) const { return with_hashes(1, read); }

  /// A sum of products, which may have been begun before.
  Degree of_product(const ResidueTensor& a, const ResidueTensor& b) const {
    return {std::max(largest(a).degree + largest(b).degree, most_.degree), most_.before};
  }

  template <class Row>
  Degree of_row(const Row&) const {
    // Sums, and choices among what is read.
    if constexpr (is_row_of<Row, Cast, Widen, Add, AddRounded, AddBias, BiasGradient, AddPositions,
                            PositionsGradient, Embedding, EmbeddingGradient, Upsample,
                            UpsampleGradient, AveragePool, AveragePoolGradient, AddToPixels,
                            PixelSums, TakePosition, LossSum, MovingAverage, Normalize, Fill>)
      return most_;
    if constexpr (is_row_of<Row, MaxPool, MaxPoolGradient, LogitMax>)
      return with_hashes(most_.degree, sum_);
    if constexpr (is_row_of<Row, Dropout, Rotary>) return {most_.degree + 1, most_.before};
    if constexpr (is_row_of<Row, Contract, Convolution, ConvolutionGradient,
                            ConvolutionWeightGradient>)
      return of_product(all_[0], all_[1]);
    if constexpr (is_row_of<Row, SquaredNorm>) return of_product(all_[0], all_[0]);
    if constexpr (is_row_of<Row, Gelu, Silu, Relu, InitNormal, InitUniform, DiffusionSchedule,
                            TimeEmbedding, Digest>)
      return hashed(sum_);
    if constexpr (is_row_of<Row, GeluGradient, SiluGradient, ReluGradient>)
      return with_hashes(gradients_ + 1, others_);
    if constexpr (is_row_of<Row, Gated>) return with_hashes(most_.degree + 1, sum_);
    if constexpr (is_row_of<Row, LayerNorm, LayerNormApply, GroupNormApply, HeadNorm>)
      return with_hashes(plain_ + 1, sum_);
    if constexpr (is_row_of<Row, Attention, AttentionCached>) return with_hashes(sum_ + 3, sum_);
    // Every other row has what it reads up to three times as a factor, but for gradients, in which
    // it is linear.
    return with_hashes(gradients_ + 3 * others_ + 3, gradients_ > 0 ? others_ : sum_);
  }

  Operands operands_;
  ResidueTensors all_;
  Degree most_;  // of all that is read
  double sum_ = 0, gradients_ = 0, others_ = 0, plain_ = 0;
};

}  // namespace

Residue word_of(const Degree& degree) {
  const auto half = [](double number) {
    return Residue{std::bit_cast<std::uint32_t>(static_cast<float>(number))};
  };
  return half(degree.before) << 32 | half(degree.degree);
}
Degree degree_of(Residue word) {
  return {std::bit_cast<float>(static_cast<std::uint32_t>(word)),
          std::bit_cast<float>(static_cast<std::uint32_t>(word >> 32))};
}
Degree larger(const Degree& a, const Degree& b) {
  return {std::max(a.degree, b.degree), std::max(a.before, b.before)};
}

void compute_degrees(const Op& op, ResidueTensors all) {
  DegreesOfRow(op, all).write(op);
}

}  // namespace fourfold::op
