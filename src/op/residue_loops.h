// Loops, sums and indices that residue forms of several rows have in common. For residues_*.cpp.
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

/// The number of elements of the dims [first, last).
inline std::size_t count(const Shape& shape, std::size_t first, std::size_t last) {
  return static_cast<std::size_t>(shape.elements(first, last));
}
/// The number of rows, which all dims but the last one count.
inline std::size_t count_rows(const Shape& shape) {
  return count(shape, 0, shape.rank() - 1);
}
inline std::size_t last_size(const Shape& shape) {
  return static_cast<std::size_t>(shape.back());
}

/// An integer operand's element as what it stands for, and as a residue: an integer itself could
/// look like a tag.
inline std::int64_t integer_of(Residue element) {
  return static_cast<std::int64_t>(element);
}
inline Residue residue_of_element(Residue integer) {
  return residue_of_integer(integer_of(integer));
}

inline bool has_tag(std::span<const Residue> elements) {
  return std::ranges::any_of(elements, [](Residue element) { return element >= residue_prime; });
}
/// The sum of a[i] b[i], where no element has a tag.
inline Residue dot_of_finite(std::span<const Residue> a, std::span<const Residue> b) {
  using Wide = unsigned __int128;
  const auto fold = [](Wide sum) { return (sum & residue_prime) + (sum >> 61); };
  // A product is below 2^122, so 63 of them and a folded sum, which is below 2^68, fit.
  constexpr std::size_t most = 63;
  Wide sum = 0;
  for (std::size_t begin = 0; begin < a.size(); begin += most) {
    const std::size_t end = std::min(a.size(), begin + most);
    for (std::size_t i = begin; i < end; ++i) sum += static_cast<Wide>(a[i]) * b[i];
    sum = fold(sum);
  }
  const auto folded = static_cast<Residue>(fold(sum));
  return folded >= residue_prime ? folded - residue_prime : folded;
}
/// The sum of a[i] b[i].
inline Residue dot(std::span<const Residue> a, std::span<const Residue> b) {
  return has_tag(a) || has_tag(b) ? not_finite : dot_of_finite(a, b);
}

/// The local place of an index of the whole where `size` places from `first` on are here; `size`
/// where it is not here.
inline std::size_t local_index(Residue index, std::int64_t first, std::size_t size) {
  return std::min<Residue>(index - static_cast<Residue>(first), size);
}

/// The index that stands for an element of padding.
inline constexpr std::uint64_t padding_index = ~std::uint64_t{0};

/// The index in the whole tensor of each local element, or padding_index.
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

/// The index of a local sample among the samples of the step.
inline std::uint64_t sample_of_step(const SampleWindow& window, std::size_t sample) {
  return static_cast<std::uint64_t>(window.micro) * static_cast<std::uint64_t>(window.samples) +
         static_cast<std::uint64_t>(window.first) + sample;
}

/// The index of each element of x (samples, ...) among those of all samples of the step, of which
/// `part`, with a dim less than x, says what is here of each; or padding_index.
inline std::vector<std::uint64_t> indices_in_step(const SampleWindow& window,
                                                  const TensorWindow& part, const Shape& x) {
  Shape sample;
  for (std::size_t dim = 1; dim < x.rank(); ++dim) sample.push_back(x[dim]);
  const std::vector<std::uint64_t> of_sample = indices_in_whole(part, sample);
  std::uint64_t size = 1;
  for (const std::int64_t dim : part == TensorWindow{} ? sample : part.global)
    size *= static_cast<std::uint64_t>(dim);
  const std::size_t samples = x.rank() == 0 ? 1 : static_cast<std::size_t>(x[0]);
  std::vector<std::uint64_t> indices;
  for (std::size_t b = 0; b < samples; ++b)
    for (const std::uint64_t index : of_sample)
      indices.push_back(index == padding_index ? index : sample_of_step(window, b) * size + index);
  return indices;
}

/// What dropout multiplies an element of the step with: a random number, which stands for 0 and for
/// 1 / (1 - rate) alike; 1 where nothing is dropped.
class DropoutFactors {
 public:
  DropoutFactors(const Residues& residues, RandomStream stream, double rate, std::uint64_t seed,
                 std::uint64_t step)
      : residues_(residues), stream_(stream), rate_(residue_of(rate)), seed_(seed), step_(step) {}
  Residue operator()(std::uint64_t element) const {
    static constexpr Residue dropout = function_name("dropout");
    if (rate_ == 0) return 1;
    return residues_.hash(dropout, {residues_.random(stream_, seed_, step_, element), rate_});
  }

 private:
  const Residues& residues_;
  RandomStream stream_;
  Residue rate_;
  std::uint64_t seed_, step_;
};

}  // namespace fourfold::op
