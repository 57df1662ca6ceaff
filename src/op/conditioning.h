// Rows by which numbers of a sample (a time, a class) act on all of its pixels, as a U-Net of
// diffusion models has them (Nichol, Dhariwal 2021, arXiv:2102.09672).
//
// B samples, "..." the pixels of a sample (any dims), C channels.
#pragma once

#include "op/ops.h"

namespace fourfold::op {

/// y[b,i] = cos(a_i), y[b,h+i] = sin(a_i), a_i = t[b] scale max_period^(-i/h) for i below h =
/// floor(width / 2); 0 in the last column of an odd width. The sines of positions of Vaswani et al.
/// 2017 (arXiv:1706.03762, section 3.5), of times. t (B) in 0 ... steps - 1, y (B, width).
struct TimeEmbedding {
  std::int64_t width = 2, steps = 1;
  double scale = 1, max_period = 10000;
  // Times are below `steps`, and no wave depends on it.
  static constexpr std::string_view without_meaning[] = {"steps"};
  FOURFOLD_OP_ROW(TimeEmbedding, "time_embedding", width, steps, scale, max_period);
  std::int64_t integer_bound(Shapes all) const;
};

/// y = x (1 + modulation[b,0,c]) + modulation[b,1,c]: x, y (B, ..., C), modulation (B, 2, C).
struct ScaleShift {
  FOURFOLD_OP_ROW(ScaleShift, "scale_shift");
};

/// x_grad of op::ScaleShift from modulation and y_grad.
struct ScaleShiftGradient {
  FOURFOLD_OP_ROW(ScaleShiftGradient, "scale_shift_gradient");
};

/// modulation_grad (B, 2, C) of op::ScaleShift from x and y_grad: the sums over pixels of y_grad x
/// and of y_grad.
struct ScaleShiftSums {
  FOURFOLD_OP_ROW(ScaleShiftSums, "scale_shift_sums");
};

/// y = x + term[b,c]: x, y (B, ..., C), term (B, C).
struct AddToPixels {
  FOURFOLD_OP_ROW(AddToPixels, "add_to_pixels");
};

/// term_grad (B, C) of op::AddToPixels: the sums over pixels of y_grad.
struct PixelSums {
  FOURFOLD_OP_ROW(PixelSums, "pixel_sums");
};

/// FOURFOLD_CONDITIONING_ROWS(ROW) is ROW(Type, class of its work) for each of the rows above.
#define FOURFOLD_CONDITIONING_ROWS(ROW) \
  ROW(TimeEmbedding, elementwise)       \
  ROW(ScaleShift, elementwise)          \
  ROW(ScaleShiftGradient, elementwise)  \
  ROW(ScaleShiftSums, reduction)        \
  ROW(AddToPixels, elementwise)         \
  ROW(PixelSums, reduction)

}  // namespace fourfold::op
