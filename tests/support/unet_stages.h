// Pipelines of a small U-Net, whose first stages feed far ones: skips, the time, class labels.
// Header only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/format.h"
#include "support/stages.h"

namespace fourfold::test::stages {

struct UnetCase {
  std::int64_t stages = 2, laps = 1, micros = 2;
  Schedule schedule = Schedule::one_f_one_b;
  std::string delay = "none";
  bool is_beside = true, is_conditional = true;
  std::int64_t y = 1;  // ranks that share a stage

  std::string text() const {
    return format("{} stages of {}, {} a mesh, {} micro-batches, delay {}, y {}{}{}", stages,
                  to_string(schedule), laps, micros, delay, y,
                  is_beside ? "" : ", nothing beside computation",
                  is_conditional ? ", of classes" : "");
  }
};

inline RunSetup unet_of(bool is_conditional) {
  RunSetup setup = diffusion_model();
  setup.unet->channels = 8;
  setup.unet->num_heads = 2;
  setup.unet->norm_groups = 4;
  setup.unet->layers_per_level = 2;
  setup.unet->class_conditional = is_conditional;
  setup.writes = model::Writes::nothing;  // pictures are made on one mesh
  return setup;
}

inline std::int64_t num_unet_layers() {
  const RunSetup setup = unet_of(true);
  return model::build(setup.model(), {1, 1, 12}, setup.optimizer).num_layers;
}

/// The first stages that there are, each of so many layers.
inline Pipeline deep(std::int64_t stages, std::int64_t layers) {
  Pipeline pipeline;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    pipeline.grids.push_back({.data = 1});
    if (stage > 0) pipeline.last_layers.push_back(stage * layers / stages - 1);
  }
  return pipeline;
}

/// A pipeline that a seed says: how its stages lie, in which order they work, and the model.
struct DrawnUnet {
  UnetCase its;
  Pipeline pipeline;
  std::optional<std::int64_t> delay;
};

inline DrawnUnet draw_unet(std::uint64_t seed, std::int64_t layers) {
  std::mt19937_64 random(seed);
  const auto pick = [&]<class T>(const std::vector<T>& list) {
    return list[random() % list.size()];
  };
  DrawnUnet drawn;
  UnetCase& its = drawn.its;
  its.schedule = pick(std::vector{Schedule::gpipe, Schedule::one_f_one_b,
                                  Schedule::eager_one_f_one_b, Schedule::interleaved});
  const std::int64_t most = std::min<std::int64_t>(layers, 10);
  its.laps = its.schedule != Schedule::interleaved ? 1 : random() % 3 == 0 ? 3 : 2;
  const std::int64_t meshes =
      2 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most / its.laps - 1));
  its.stages = meshes * its.laps;
  its.micros = pick(std::vector<std::int64_t>{2, 3, 4, 5, 8, 12});
  if (its.laps > 1) its.micros = meshes * pick(std::vector<std::int64_t>{1, 2});
  its.is_beside = random() % 3 != 0;
  its.is_conditional = random() % 2 == 0;
  if (random() % 2 == 0) drawn.delay = pick(std::vector<std::int64_t>{0, 1, 2, 3});
  its.delay = drawn.delay ? format("{}", *drawn.delay) : "none";
  drawn.pipeline = deep(its.stages, layers);
  drawn.pipeline.stages_per_mesh = its.laps;
  drawn.pipeline.grids.clear();
  for (std::int64_t mesh = 0, ranks = 0; mesh < meshes; ++mesh) {
    const bool has_room = ranks + 2 + meshes - mesh - 1 <= 10;
    drawn.pipeline.grids.push_back(pick(has_room ? std::vector<plan::Grid>{{.data = 1},
                                                                           {.data = 1},
                                                                           {.data = 2},
                                                                           {.x = 2, .data = 1},
                                                                           {.y = 2, .data = 1},
                                                                           {.z = 2, .data = 1}}
                                                 : std::vector<plan::Grid>{{.data = 1}}));
    const plan::Grid& grid = drawn.pipeline.grids.back();
    ranks += grid.x * grid.y * grid.z * grid.data;
  }
  return drawn;
}

/// Two samples of a micro-batch, on any grid. Its serial run has the same ones.
inline RunSetup unet_of_micros(bool is_conditional, std::int64_t micros, const plan::Grid& first) {
  RunSetup setup = unet_of(is_conditional);
  setup.plan.global_batch_size = 2 * micros;
  setup.plan.micro_batch_size = 2 / (first.z * first.data);
  return setup;
}

}  // namespace fourfold::test::stages
