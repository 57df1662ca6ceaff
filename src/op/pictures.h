// Rows that compute on pictures: convolutions, pooling, larger pictures, and the numbers that bytes
// of pictures become. Not what they share with other networks: biases, products of whole vectors,
// losses.
//
// B batch (samples), H and W height and width of what is read, P and Q those of what a convolution
// or pooling gives, C channels (those read), O channels given, I and J height and width of a
// kernel. A picture is (B, H, W, C), channels last. With a kernel of I rows
//   P = floor((H + 2 padding - I) / stride) + 1,
// Q likewise. Nothing cuts a picture in its height or width.
#pragma once

#include "op/ops.h"

namespace fourfold::op {

/// y[b,p,q,o] = sum over i, j, c of x[b, p stride + i - padding, q stride + j - padding, c]
/// weight[o,i,j,c], x being 0 outside of the picture. x (B,H,W,C), weight (O,I,J,C), y (B,P,Q,O).
/// Requires a kernel that is no larger than the padded picture.
struct Convolution {
  std::int64_t stride = 1, padding = 0;
  FOURFOLD_OP_ROW(Convolution, "convolution", stride, padding);
};

/// x_grad (B, height, width, C) of op::Convolution from y_grad (B,P,Q,O) and weight (O,I,J,C).
struct ConvolutionGradient {
  std::int64_t height = 1, width = 1, stride = 1, padding = 0;
  FOURFOLD_OP_ROW(ConvolutionGradient, "convolution_gradient", height, width, stride, padding);
};

/// weight_grad (O, kernel_height, kernel_width, C) (+)= that of op::Convolution from x (B,H,W,C)
/// and y_grad (B,P,Q,O). `unrounded` as op::Contract has it.
struct ConvolutionWeightGradient {
  std::int64_t kernel_height = 1, kernel_width = 1, stride = 1, padding = 0;
  bool accumulate = false, unrounded = false;
  FOURFOLD_OP_ROW(ConvolutionWeightGradient, "convolution_weight_gradient", kernel_height,
                  kernel_width, stride, padding, accumulate, unrounded);
};

// Pooling: each element of y is made of a window of `size` times `size` elements of one channel of
// x; windows begin at multiples of `stride` and lie within the picture. x (B,H,W,C), y (B,P,Q,C).

/// y = the largest element of the window; NaN counts as larger than all before it.
struct MaxPool {
  std::int64_t size = 2, stride = 2;
  FOURFOLD_OP_ROW(MaxPool, "max_pool", size, stride);
};

/// x_grad from x and y_grad: each element of y_grad goes to the first of the largest elements of
/// its window, in the order of rows and then of columns, as in PyTorch. Where there is a NaN, the
/// last one gets NaN. What windows that overlap give to one element is added in their order.
struct MaxPoolGradient {
  std::int64_t size = 2, stride = 2;
  FOURFOLD_OP_ROW(MaxPoolGradient, "max_pool_gradient", size, stride);
};

/// y = the average of the window.
struct AveragePool {
  std::int64_t size = 2, stride = 2;
  FOURFOLD_OP_ROW(AveragePool, "average_pool", size, stride);
};

/// x_grad (B, height, width, C) from y_grad (B,P,Q,C), windows in order.
struct AveragePoolGradient {
  std::int64_t height = 2, width = 2, size = 2, stride = 2;
  FOURFOLD_OP_ROW(AveragePoolGradient, "average_pool_gradient", height, width, size, stride);
};

/// y[b,h,w,c] = x[b, floor(h / factor), floor(w / factor), c]: the nearest pixel. x (B,H,W,C), y
/// (B, factor H, factor W, C).
struct Upsample {
  std::int64_t factor = 2;
  FOURFOLD_OP_ROW(Upsample, "upsample", factor);
};

/// x_grad from y_grad: the sum over the pixels that show one of x.
struct UpsampleGradient {
  std::int64_t factor = 2;
  FOURFOLD_OP_ROW(UpsampleGradient, "upsample_gradient", factor);
};

/// y[b,h,w,c] = (x[b,h,w,c] / 255 - mean[c]) / deviation[c]: bytes of pictures to numbers of the
/// computation. Requires a mean and a deviation above 0 for every channel.
struct Normalize {
  Numbers mean, deviation;
  FOURFOLD_OP_ROW(Normalize, "normalize", mean, deviation);
  std::int64_t integer_bound(Shapes all) const;
};

/// FOURFOLD_PICTURE_ROWS(ROW) is ROW(Type, class of its work) for each of the rows above.
#define FOURFOLD_PICTURE_ROWS(ROW)        \
  ROW(Convolution, product)               \
  ROW(ConvolutionGradient, product)       \
  ROW(ConvolutionWeightGradient, product) \
  ROW(MaxPool, reduction)                 \
  ROW(MaxPoolGradient, reduction)         \
  ROW(AveragePool, reduction)             \
  ROW(AveragePoolGradient, reduction)     \
  ROW(Upsample, elementwise)              \
  ROW(UpsampleGradient, reduction)        \
  ROW(Normalize, elementwise)

}  // namespace fourfold::op
