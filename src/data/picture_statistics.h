// What all pictures of a set together are: how many of each class, and how bright. Reads every
// picture.
#pragma once

#include <cstdint>
#include <vector>

#include "data/picture_set.h"

namespace fourfold::data {

struct PictureStatistics {
  /// For each channel, of values divided by 255: what a normalisation subtracts and divides by. The
  /// deviation is that of all values, divided by their number.
  std::vector<double> mean, deviation;
};

/// Errors: those of PictureSet::read. Cost: each picture is read once; sums are exact.
PictureStatistics measure_pictures(const PictureSet& set);

/// How many pictures each class has.
std::vector<std::int64_t> count_classes(const PictureSet& set);

}  // namespace fourfold::data
