// Rows of group normalisation (Wu, He 2018, arXiv:1803.08494, eqs 1 to 7) of a value that may lie
// in several tensors, the parts, whose channels stand one after another: a group may reach from one
// part into the next. For one sample, over the pixels and channels of a group,
//   y = n gain + bias,  n = (x - mean) rstd,  rstd = 1 / sqrt(variance + epsilon).
//
// It is three rows: moments of each channel of each part, their statistics for all groups, and what
// these make of a part. Whoever has which channels, the same numbers are merged in the same order,
// so that statistics have the same bits on every grid. Ranks that share the channels exchange two
// numbers for each channel of a sample forward, and add two for each group backward.
//
// B samples, "..." the pixels of a sample (any dims), C channels of a part that are here, G groups.
#pragma once

#include "op/ops.h"

namespace fourfold::op {

/// moments[c,b] = (mean, sum of squared distances from it) of channel c in sample b over its
/// pixels: x (B, ..., C), moments (C, B, 2). Corrected two-pass (Chan, Golub, LeVeque 1983,
/// "Algorithms for computing the sample variance").
struct GroupNormMoments {
  FOURFOLD_OP_ROW(GroupNormMoments, "group_norm_moments");
};

/// x_grad (+)= that of op::GroupNormMoments from x, moments and moments_grad.
struct GroupNormMomentsGradient {
  bool accumulate = false;
  FOURFOLD_OP_ROW(GroupNormMomentsGradient, "group_norm_moments_gradient", accumulate);
};

/// statistics[b,g] = (mean, rstd) from the moments (C, B, 2) of the channels of all parts, joined
/// in order by the pairwise formula of Chan, Golub, LeVeque 1983; statistics (B, G, 2). A channel
/// has `pixels` elements. Requires that the groups divide the channels of all parts together.
struct GroupNormStatistics {
  std::int64_t groups = 1, parts = 1, pixels = 1;
  double epsilon = 1e-5;
  FOURFOLD_OP_ROW(GroupNormStatistics, "group_norm_statistics", groups, parts, pixels, epsilon);
};

// Which channels of the norm a part has: its first one is channel `before`, and the first one that
// is here is `first` of the part. All parts together have `width`.

/// moments_grad (C, B, 2) of one part from statistics, statistics_grad and moments (C, B, 2).
struct GroupNormStatisticsGradient {
  std::int64_t groups = 1, width = 1, pixels = 1, before = 0, first = 0;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::first, "first", 2, 0}, self.first);
  }
  FOURFOLD_OP_ROW(GroupNormStatisticsGradient, "group_norm_statistics_gradient", groups, width,
                  pixels, before, first);
};

/// y from x (B, ..., C), statistics (B, G, 2), gain and bias (C).
struct GroupNormApply {
  std::int64_t groups = 1, width = 1, before = 0, first = 0;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::first, "first", 0, Place::last_dim}, self.first);
  }
  FOURFOLD_OP_ROW(GroupNormApply, "group_norm_apply", groups, width, before, first);
};

/// sums[c,b] = the sums over pixels of y_grad and of y_grad n: what the gradients of statistics,
/// gain and bias are made of. Reads x, statistics, y_grad; sums (C, B, 2).
struct GroupNormSums {
  std::int64_t groups = 1, width = 1, before = 0, first = 0;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    GroupNormApply::places(self, visit);
  }
  FOURFOLD_OP_ROW(GroupNormSums, "group_norm_sums", groups, width, before, first);
};

/// gain_grad (C) (+)= the sums of y_grad n, bias_grad (C) (+)= those of y_grad, over all samples.
struct GroupNormWeightGradient {
  bool accumulate = false;
  FOURFOLD_OP_ROW(GroupNormWeightGradient, "group_norm_weight_gradient", accumulate);
};

/// statistics_grad (B, G, 2) from sums (C, B, 2), statistics and gain (C); ranks that share the
/// channels have terms of its sum.
struct GroupNormGroupSums {
  std::int64_t groups = 1, width = 1, before = 0, first = 0;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::first, "first", 0, 0}, self.first);
  }
  FOURFOLD_OP_ROW(GroupNormGroupSums, "group_norm_group_sums", groups, width, before, first);
};

/// x_grad = y_grad gain rstd: what x gets for itself, beside what it gets by the statistics. Reads
/// statistics, gain, y_grad.
struct GroupNormApplyGradient {
  std::int64_t groups = 1, width = 1, before = 0, first = 0;
  template <class Self, class Visit>
  static void places(Self& self, Visit&& visit) {
    visit({Told::first, "first", 2, Place::last_dim}, self.first);
  }
  FOURFOLD_OP_ROW(GroupNormApplyGradient, "group_norm_apply_gradient", groups, width, before,
                  first);
};

/// FOURFOLD_GROUP_NORM_ROWS(ROW) is ROW(Type, class of its work) for each of the rows above.
#define FOURFOLD_GROUP_NORM_ROWS(ROW)         \
  ROW(GroupNormMoments, reduction)            \
  ROW(GroupNormMomentsGradient, elementwise)  \
  ROW(GroupNormStatistics, reduction)         \
  ROW(GroupNormStatisticsGradient, reduction) \
  ROW(GroupNormApply, elementwise)            \
  ROW(GroupNormSums, reduction)               \
  ROW(GroupNormWeightGradient, reduction)     \
  ROW(GroupNormGroupSums, reduction)          \
  ROW(GroupNormApplyGradient, elementwise)

}  // namespace fourfold::op
