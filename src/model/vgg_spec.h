// What a VGG is made of: filled by config/, read by model/.
#pragma once

#include <cstdint>
#include <vector>

#include "model/family.h"

namespace fourfold::model {

struct VggSpec {
  static constexpr Family family = {.name = "vgg",
                                    .title = "VGG",
                                    .does = "names what a picture shows",
                                    .reads = Reads::pictures};
  /// Channels that each 3 x 3 convolution gives, in order; 0 stands for max-pooling.
  std::vector<std::int64_t> widths = {64, 0, 128, 0, 256, 256, 0};
  std::vector<std::int64_t> hidden = {512};  // widths of the linear layers before the last one
  std::vector<std::int64_t> picture;         // height, width, channels; empty: those of the data
  std::int64_t num_classes = 0;              // 0: those of the data
  double dropout = 0.5;                      // after each hidden linear layer
  /// What the values of a picture, which lie from 0 to 1, have: one number for each channel, or one
  /// for all.
  std::vector<double> mean = {0.5}, deviation = {0.25};
  bool operator==(const VggSpec&) const = default;
};

}  // namespace fourfold::model
