// Small words in which the residue forms of rows are written: sums, sizes of rows and pictures,
// places of elements in a table, a tensor or a step. For residues_*.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/shape.h"
#include "op/residues.h"
#include "op/window.h"

namespace fourfold::op {

// --- arithmetic

/// A sum of products of residues, brought below the modulus only where it would overflow: several
/// times faster than `add` of `multiply`. not_finite as these have it.
class ProductSum {
 public:
  ProductSum() = default;
  explicit ProductSum(Residue first) { add_product(first, 1); }

  void add_product(Residue a, Residue b) {
    bits_ |= a | b;
    sum_ += static_cast<Wide>(a) * b;  // below 2^122
    if (sum_ >> 124 != 0) fold();
  }
  Residue value() {
    if (bits_ >> 61 != 0) return not_finite;
    fold();
    fold();
    const auto sum = static_cast<Residue>(sum_);
    return sum >= residue_prime ? sum - residue_prime : sum;
  }

 private:
  __extension__ using Wide = unsigned __int128;
  void fold() { sum_ = (sum_ & residue_prime) + (sum_ >> 61); }

  Wide sum_ = 0;
  Residue bits_ = 0;  // of all factors: those of tags go beyond 61
};

/// The sum of a[i] b[i].
inline Residue dot(std::span<const Residue> a, std::span<const Residue> b) {
  ProductSum sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum.add_product(a[i], b[i]);
  return sum.value();
}

/// share old + (1 - share) term.
inline Residue average_of(Residue share, Residue old, Residue term) {
  return add(multiply(share, old), multiply(subtract(1, share), term));
}

/// 1 / count, as a mean needs it.
inline Residue one_over(std::int64_t count) {
  return inverse(residue_of_integer(count));
}

/// 1 / sqrt(variance + epsilon), the same function in every norm.
inline Residue reciprocal_deviation(const Residues& residues, Residue variance, double epsilon) {
  return residues.hash(function_name("rsqrt"), {add(variance, residue_of(epsilon))});
}

/// 1 / E(a), of a logarithm of a sum or a maximum; not finite where that is minus infinity.
inline Residue inverse_of_exponential(const Residues& residues, Residue a) {
  return a == minus_infinity ? not_finite : inverse(residues.exponential(a));
}

// --- integers

/// An element of an operand of integers.
inline std::int64_t integer_at(const ResidueTensor& tensor, std::size_t index = 0) {
  return static_cast<std::int64_t>(tensor.elements[index]);
}
/// False for a label of -1, which means: no loss, no gradient.
inline bool is_valid_label(const ResidueTensor& labels, std::size_t index) {
  return integer_at(labels, index) >= 0;
}
/// The local place of an index of the whole where `size` places from `first` on are here; `size`
/// where it is not here.
inline std::size_t local_place(Residue index, std::int64_t first, std::size_t size) {
  return std::min<Residue>(index - static_cast<Residue>(first), size);
}

// --- sizes

/// A tensor as rows along its last dim.
struct RowSizes {
  std::int64_t rows, columns;
  explicit RowSizes(const Shape& x) : rows(x.elements(0, x.rank() - 1)), columns(x.back()) {}
};

/// A tensor (B, ..., C) as samples, pixels and channels.
struct PixelSizes {
  std::int64_t samples, pixels, channels;
  explicit PixelSizes(const Shape& x)
      : samples(x[0]), pixels(x.elements(1, x.rank() - 1)), channels(x.back()) {}

  std::int64_t of_sample() const { return pixels * channels; }
  /// Calls body(sample, channel, index of the element) for all elements, in order.
  template <class Body>
  void for_each(Body&& body) const {
    std::int64_t index = 0;
    for (std::int64_t sample = 0; sample < samples; ++sample)
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
        for (std::int64_t channel = 0; channel < channels; ++channel)
          body(sample, channel, index++);
  }
};

// --- windows

/// The index that stands for an element of padding.
inline constexpr std::uint64_t padding_index = ~std::uint64_t{0};

/// The index in the whole tensor of each element of a local one, or padding_index.
inline std::vector<std::uint64_t> indices_in_whole(const TensorWindow& part, const Shape& local) {
  const bool is_whole = part == TensorWindow{};
  std::vector<std::uint64_t> indices = {0};
  for (std::size_t dim = 0; dim < local.rank(); ++dim) {
    const std::int64_t size = is_whole ? local[dim] : part.global[dim],
                       first = is_whole ? 0 : part.first[dim];
    std::vector<std::uint64_t> finer;
    for (const std::uint64_t outer : indices)
      for (std::int64_t i = 0; i < local[dim]; ++i) {
        const bool is_real = outer != padding_index && first < size && i < size - first;
        finer.push_back(is_real ? outer * static_cast<std::uint64_t>(size) +
                                      static_cast<std::uint64_t>(first + i)
                                : padding_index);
      }
    indices = std::move(finer);
  }
  return indices;
}

/// The number of a local sample among the samples of the step.
inline std::uint64_t sample_of_step(const SampleWindow& window, std::int64_t sample) {
  return static_cast<std::uint64_t>(window.micro) * static_cast<std::uint64_t>(window.samples) +
         static_cast<std::uint64_t>(window.first) + static_cast<std::uint64_t>(sample);
}

/// Where the elements of a local tensor x (B, ...) lie among those of a step, counted over (sample
/// of the step, the other dims): the number by which masks and noise are drawn.
class ElementsOfStep {
 public:
  /// `part` says which part of the dims after the first x is; empty, if they are whole.
  ElementsOfStep(const SampleWindow& window, const TensorWindow& part, const Shape& x)
      : window_(window), local_(x), part_(part) {
    if (!part_.global.dims().empty()) return;
    for (std::size_t dim = 1; dim < x.rank(); ++dim) {
      part_.global.push_back(x[dim]);
      part_.first.push_back(0);
    }
  }

  /// The number of an element of x; `first_sample` is that of the step's first sample, where
  /// samples count over all steps.
  std::uint64_t number(std::int64_t index, std::uint64_t first_sample = 0) const {
    std::uint64_t number = 0, stride = 1;
    for (std::size_t dim = local_.rank(); dim-- > 1;) {
      const std::int64_t coordinate = part_.first[dim - 1] + index % local_[dim];
      number += static_cast<std::uint64_t>(coordinate) * stride;
      stride *= static_cast<std::uint64_t>(part_.global[dim - 1]);
      index /= local_[dim];
    }
    return number + (first_sample + sample_of_step(window_, index)) * stride;
  }

 private:
  SampleWindow window_;
  Shape local_;
  TensorWindow part_;
};

/// What dropout multiplies an element of the step with: a random number, which stands for 0 and for
/// 1 / (1 - rate) alike; 1 where nothing is dropped.
class DropoutFactors {
 public:
  DropoutFactors(const Residues& residues, RandomStream stream, double rate, std::uint64_t seed,
                 std::uint64_t step)
      : residues_(residues), stream_(stream), rate_(residue_of(rate)), seed_(seed), step_(step) {}
  Residue operator()(std::uint64_t element) const {
    if (rate_ == 0) return 1;
    return residues_.hash(function_name("dropout"),
                          {residues_.random(stream_, seed_, step_, element), rate_});
  }

 private:
  const Residues& residues_;
  RandomStream stream_;
  Residue rate_;
  std::uint64_t seed_, step_;
};

}  // namespace fourfold::op
