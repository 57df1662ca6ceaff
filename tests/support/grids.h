// The models and grids on which parallel runs are compared with the serial one. Header only.
#pragma once

#include <string>
#include <vector>

#include "base/format.h"
#include "support/small_run.h"

namespace fourfold::test {

inline std::string name_of(const plan::PlanSpec& spec) {
  const plan::Grid& g = spec.grid;
  return format("x {} y {} z {} data {}{}{}{}", g.x, g.y, g.z, g.data,
                spec.shard_states ? ", states sharded" : "",
                spec.shard_sequence ? ", sequence sharded" : "",
                spec.chunks > 1 ? format(", {} chunks", spec.chunks) : "");
}

/// Hidden 96, 48 heads, 96 samples in two accumulation steps.
inline RunSetup first_model() {
  RunSetup setup;
  setup.gpt = {.num_layers = 2,
               .num_attention_heads = 48,
               .hidden_size = 96,
               .ffn_hidden_size = 192,
               .max_position_embeddings = 4,
               .vocab_size = 48,
               .dropout = 0.1};
  setup.plan = {.global_batch_size = 96, .micro_batch_size = 48, .seq_length = 4};
  setup.plan.compute = DType::f64;
  return setup;
}

/// 14 heads of width 8, an odd vocabulary, an untied head: heads do not divide x y, sometimes not
/// even x.
inline RunSetup second_model() {
  RunSetup setup;
  setup.gpt = {.num_layers = 2,
               .num_attention_heads = 14,
               .hidden_size = 112,
               .ffn_hidden_size = 224,
               .max_position_embeddings = 8,
               .vocab_size = 37,
               .dropout = 0.1,
               .tied_head = false};
  setup.plan = {.global_batch_size = 32, .micro_batch_size = 16, .seq_length = 4};
  setup.plan.compute = DType::f64;
  return setup;
}

/// Two poolings, three convolutions and two linear layers on pictures of 4 x 4; 96 samples in two
/// accumulation steps.
inline RunSetup picture_model() {
  RunSetup setup;
  setup.vgg = model::VggSpec{.widths = {48, 0, 96, 48, 0},
                             .hidden = {96},
                             .picture = {4, 4, 3},
                             .num_classes = 37,
                             .dropout = 0.1,
                             .mean = {0.4, 0.5, 0.6},
                             .deviation = {0.2, 0.25, 0.3}};
  setup.plan = {.global_batch_size = 96, .micro_batch_size = 48, .seq_length = 1};
  setup.plan.compute = DType::f64;
  return setup;
}

/// A U-Net of two levels with all there is: its skips have other widths than what they are read
/// with, and groups of norms reach over the seam. 32 samples in two accumulation steps.
inline RunSetup diffusion_model() {
  RunSetup setup;
  setup.unet = model::UnetSpec{.picture = {4, 4, 3},
                               .channels = 16,
                               .channel_mult = {1, 2},
                               .layers_per_level = 1,
                               .attention_resolutions = {2},
                               .num_heads = 16,
                               .norm_groups = 8,
                               .dropout = 0.1,
                               .class_conditional = true,
                               .num_classes = 5,
                               .diffusion = {.steps = 20, .learn_sigma = true, .sampling = {}}};
  setup.plan = {.global_batch_size = 32, .micro_batch_size = 16, .seq_length = 1};
  setup.plan.compute = DType::f64;
  return setup;
}

/// Every ordered grid of powers of two of at most 16 ranks.
inline std::vector<plan::Grid> grids_of_two() {
  std::vector<plan::Grid> grids;
  for (std::int64_t x = 1; x <= 16; x *= 2)
    for (std::int64_t y = 1; x * y <= 16; y *= 2)
      for (std::int64_t z = 1; x * y * z <= 16; z *= 2)
        for (std::int64_t data = 1; x * y * z * data <= 16; data *= 2)
          grids.push_back({.x = x, .y = y, .z = z, .data = data});
  return grids;
}

inline void set_grid(RunSetup& setup, const plan::Grid& grid, std::int64_t accumulation = 2) {
  setup.plan.grid = grid;
  setup.plan.micro_batch_size = setup.plan.global_batch_size / accumulation / (grid.z * grid.data);
}

/// Every ordered grid of at most 16 ranks that divides the first model.
inline std::vector<plan::Grid> all_grids() {
  std::vector<plan::Grid> grids;
  for (std::int64_t x = 1; x <= 16; ++x)
    for (std::int64_t y = 1; x * y <= 16; ++y)
      for (std::int64_t z = 1; x * y * z <= 16; ++z)
        for (std::int64_t data = 1; x * y * z * data <= 16; ++data) {
          const bool divides =
              48 % (x * y) == 0 && 96 % (y * z) == 0 && 48 % (x * z) == 0 && 48 % (z * data) == 0;
          if (divides) grids.push_back({.x = x, .y = y, .z = z, .data = data});
        }
  return grids;
}

/// Grids of powers of two for the second model.
inline std::vector<plan::Grid> second_grids() {
  std::vector<plan::Grid> grids;
  for (const std::int64_t x : {1, 2, 4, 8})
    for (const std::int64_t y : {1, 2, 4, 8})
      for (const std::int64_t z : {1, 2, 4})
        for (const std::int64_t data : {1, 2})
          if (x * y * z * data <= 16 && x * y * z * data > 1)
            grids.push_back({.x = x, .y = y, .z = z, .data = data});
  return grids;
}

}  // namespace fourfold::test
