// A library of convolutions that is not there: plain sums in double, rounded once. It wants a
// workspace, which it spoils.
#pragma once

#include "kernels/cuda/library_convolution.h"

namespace fourfold::test {

/// What it has kernels for besides convolutions that are read and written in one type.
struct ModelledConvolutions {
  bool with_bias = true;
  bool f32_of_bf16 = true;
};

inline constexpr std::int64_t model_convolution_bytes = 1000;
kernels::cuda::FindConvolution model_of_convolutions(const ModelledConvolutions& which);

}  // namespace fourfold::test
