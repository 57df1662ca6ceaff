// Where the elements of a share lie among those of a step, for what is random: one definition for
// every backend, so that a cut changes no bit of it.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "kernels/on_device.h"
#include "kernels/tensor_stretches.h"
#include "op/window.h"

namespace fourfold::kernels {

/// Index of a local sample among the samples of the step.
FOURFOLD_CUDA inline std::uint64_t global_sample(const op::SampleWindow& window,
                                                 std::int64_t sample) {
  return static_cast<std::uint64_t>(window.micro * window.samples + window.first + sample);
}

/// Where the elements of x lie among those of a step: at first_element plus the index that
/// `stretches` gives. A sample has `of_sample` of them.
struct StepElements {
  std::uint64_t first_element, of_sample;
  TensorStretches stretches;

  FOURFOLD_CUDA std::uint64_t at(std::int64_t local) const {
    return first_element + static_cast<std::uint64_t>(stretches.element(local).first);
  }
};

/// `part` has the dims of x after the first, or is empty where they are whole.
inline StepElements step_elements(const op::SampleWindow& window, const op::TensorWindow& part,
                                  const Shape& x) {
  // All samples of x are real: their dim is whole here, and `window` says where it starts.
  op::TensorWindow whole_samples;
  if (part != op::TensorWindow{}) {
    whole_samples = {{x[0]}, {0}};
    for (std::size_t dim = 0; dim < part.global.rank(); ++dim) {
      whole_samples.global.push_back(part.global[dim]);
      whole_samples.first.push_back(part.first[dim]);
    }
  }
  const Shape& sample = whole_samples.global.rank() == 0 ? x : whole_samples.global;
  const auto of_sample = static_cast<std::uint64_t>(sample.elements(1, x.rank()));
  return {global_sample(window, 0) * of_sample, of_sample, TensorStretches(whole_samples, x)};
}

/// Random::normal, also where the host's libm is not.
FOURFOLD_CUDA inline double standard_normal(const Random& random, std::uint64_t element,
                                            std::uint32_t step) {
  const auto words = random.words(element, step);
  const auto unit = [&](std::size_t first) {
    const std::uint64_t word = (std::uint64_t{words[first + 1]} << 32) | words[first];
    return static_cast<double>(word >> 11) * 0x1.0p-53;
  };
  return std::sqrt(-2.0 * std::log(1.0 - unit(0))) *
         std::cos(6.283185307179586476925286766559 * unit(2));
}

}  // namespace fourfold::kernels
