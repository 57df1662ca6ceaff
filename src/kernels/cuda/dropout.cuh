// Which elements dropout drops, on the device: the bits of kernels/dropout_mask.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.cuh"
#include "kernels/dropout_mask.h"

namespace fourfold::kernels::cuda {

/// The decisions of one step, four elements at a time: Philox gives words for four.
class DroppedElements {
 public:
  __device__ DroppedElements(RandomStream stream, std::uint32_t threshold, std::uint64_t seed,
                             std::int64_t step)
      : random_(seed, stream), step_(static_cast<std::uint32_t>(step)), threshold_(threshold) {}

  /// Cheap where elements are asked for in order.
  __device__ bool dropped(std::uint64_t element) {
    const std::uint64_t four = element / 4;
    if (four != held_) {
      words_ = random_.words(four, step_);
      held_ = four;
    }
    // Not indexed with what is known at run time only: that would keep the words in memory.
    const std::uint32_t low = element % 2 == 0 ? words_[0] : words_[1];
    const std::uint32_t high = element % 2 == 0 ? words_[2] : words_[3];
    return (element % 4 < 2 ? low : high) < threshold_;
  }

 private:
  Random random_;
  std::array<std::uint32_t, 4> words_{};
  std::uint64_t held_ = ~std::uint64_t{0};
  std::uint32_t step_, threshold_;
};

/// Dropout of a tensor's elements, prepared on the host; seed and step are read where the kernel
/// runs.
struct DropoutOfTensor {
  RandomStream stream;
  std::uint32_t threshold = 0;
  float kept_factor = 1;
  StepElements elements;
  const std::uint64_t* seed = nullptr;
  const std::int64_t* step = nullptr;

  DropoutOfTensor(const op::Dropout& op, const Shape& x)
      : stream(op.stream),
        threshold(dropout_threshold(op.rate)),
        kept_factor(static_cast<float>(1 / (1 - op.rate))),
        elements(step_elements(op.window, op.part, x)) {}

  /// With the operands of a call, `seed` and `step` being their places.
  DropoutOfTensor at(Tensors operands, std::size_t seed_index, std::size_t step_index) const {
    DropoutOfTensor bound = *this;
    bound.seed = operands[seed_index].as<std::uint64_t>();
    bound.step = operands[step_index].as<std::int64_t>();
    return bound;
  }

  __device__ DroppedElements decisions() const { return {stream, threshold, *seed, *step}; }
  /// Element `local` of the tensor after dropout. Not contracted with what the caller does next: a
  /// fused row has the bits of its parts.
  __device__ float apply(DroppedElements& decisions, std::int64_t local, float x) const {
    const auto place = static_cast<std::uint64_t>(elements.stretches.element(local).first);
    return decisions.dropped(elements.first_element + place) ? 0 : __fmul_rn(x, kept_factor);
  }
};

}  // namespace fourfold::kernels::cuda
