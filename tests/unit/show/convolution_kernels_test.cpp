#include "show/convolution_kernels.h"

#include <gtest/gtest.h>

namespace fourfold::show {
namespace {

using Libraries = std::vector<machine::CudaLibrary>;

TEST(ConvolutionKernels, of_a_step_are_counted_by_who_computes_them) {
  const Libraries libraries = {{"cuBLASLt", "13.0.2", "13.0.2"}, {"cuDNN", "9.19.0", "9.19.0"}};
  EXPECT_EQ(convolutions_text({"cudnn", "cudnn/2", "cublaslt/1", "cudnn_widened"}, libraries),
            "cuDNN 3, cuBLASLt 1");
  EXPECT_EQ(convolutions_text({"own", "cudnn_fast"}, libraries),
            "cuDNN 1, own kernels 1: cuDNN 9.19.0 has no kernel for their shapes");
}

TEST(ConvolutionKernels, of_our_own_are_there_for_a_reason) {
  const auto reason = [](const Libraries& libraries) {
    return convolutions_text({"own", "own"}, libraries);
  };
  EXPECT_EQ(reason({}), "own kernels 2: this build is without cuDNN");
  EXPECT_EQ(reason({{"cuDNN", "", "9.1.0"}}), "own kernels 2: this build is without cuDNN");
  EXPECT_EQ(reason({{"cuDNN", "9.1.0", ""}}), "own kernels 2: cuDNN cannot be loaded");
  EXPECT_EQ(reason({{"cuDNN", "9.1.0", "8.9.7"}}), "own kernels 2: cuDNN 8.9.7 is older than 9.0");
}

}  // namespace
}  // namespace fourfold::show
