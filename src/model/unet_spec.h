// What a U-Net is made of: filled by config/, read by model/.
#pragma once

#include <cstdint>
#include <vector>

#include "model/diffusion_spec.h"
#include "model/family.h"

namespace fourfold::model {

struct UnetSpec {
  static constexpr Family family = {.name = "unet",
                                    .title = "U-Net",
                                    .does = "makes pictures by diffusion",
                                    .reads = Reads::pictures,
                                    .makes = Makes::pictures};
  std::vector<std::int64_t> picture;  // height, width, channels; empty: those of the data
  std::int64_t channels = 64;         // of the first convolution
  /// The channels of each level as multiples of `channels`; between levels pictures are halved.
  std::vector<std::int64_t> channel_mult = {1, 2, 2, 2};
  std::int64_t layers_per_level = 2;  // of a level on the way down; one more on the way up
  /// Heights of pictures at which residual blocks are followed by attention; in the middle one
  /// always is.
  std::vector<std::int64_t> attention_resolutions = {16, 8};
  std::int64_t num_heads = 4;
  std::int64_t norm_groups = 32;
  double dropout = 0;            // between the two convolutions of a residual block
  bool scale_shift_norm = true;  // the time scales what the second norm gives, or is added before
  bool resample_with_convolution = true;  // or pictures are averaged and repeated alone
  bool class_conditional = false;         // the label of a picture is told to the model
  std::int64_t num_classes = 0;           // 0: those of the data
  DiffusionSpec diffusion;
  bool operator==(const UnetSpec&) const = default;
};

}  // namespace fourfold::model
