// Jobs whose layouts are searched, and what their layouts take by the demand of their plans. Header
// only.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "machine/known_clusters.h"
#include "search/choose_layout.h"
#include "support/job_setup.h"

namespace fourfold::search {

/// A job and the machine that it is for.
struct Wanted {
  std::string name;
  test::JobSetup setup;
  std::string machine = "perlmutter-40gb";
};

inline Wanted gpt_on(const plan::Grid& grid, std::int64_t samples = 2) {
  Wanted wanted{"gpt", {}};
  wanted.setup.gpt = {.num_layers = 2,
                      .num_attention_heads = 16,
                      .hidden_size = 256,
                      .ffn_hidden_size = 1024,
                      .max_position_embeddings = 64,
                      .vocab_size = 512};
  wanted.setup.plan.seq_length = 64;
  wanted.setup.plan.grid = grid;
  wanted.setup.plan.micro_batch_size = samples;
  wanted.setup.plan.global_batch_size = 4 * samples * grid.z * grid.data;
  return wanted;
}

inline Wanted vgg_on(const plan::Grid& grid) {
  Wanted wanted = gpt_on(grid, 16);
  wanted.name = "vgg";
  wanted.setup.vgg = model::VggSpec{.widths = {64, 0, 128, 0},
                                    .hidden = {512},
                                    .picture = {32, 32, 3},
                                    .num_classes = 64,
                                    .mean = {0.4, 0.5, 0.6},
                                    .deviation = {0.2, 0.25, 0.3}};
  wanted.setup.plan.seq_length = 1;
  return wanted;
}

inline Wanted unet_on(const plan::Grid& grid) {
  Wanted wanted = gpt_on(grid, 8);
  wanted.name = "unet";
  wanted.setup.unet = model::UnetSpec{.picture = {16, 16, 3},
                                      .channels = 64,
                                      .channel_mult = {1, 2},
                                      .layers_per_level = 1,
                                      .attention_resolutions = {8},
                                      .num_heads = 4,
                                      .norm_groups = 8,
                                      .class_conditional = true,
                                      .num_classes = 5,
                                      .diffusion = {.steps = 20, .sampling = {}}};
  wanted.setup.plan.seq_length = 1;
  return wanted;
}

/// A job, what a search for its layout is given, and what a layout takes by the demand of its plan.
struct Sought {
  explicit Sought(const Wanted& wanted)
      : cluster(machine::load_cluster(wanted.machine)),
        model(wanted.setup.graphs()),
        mesh(plan::make_mesh(wanted.setup.plan.grid)),
        batching(std::get<plan::Batching>(plan::solve_batching(wanted.setup.plan))),
        pricer(cluster, *machine::rate_of(cluster.device, DType::f32),
               wanted.setup.plan.bucket_bytes),
        start(std::get<plan::Layout>(plan::make_layout(model, wanted.setup.plan, mesh))) {
    setting.mesh = &mesh;
    setting.groups = groups_in_order(mesh, wanted.setup.plan.grid.order);
    setting.batching = batching;
    setting.bucket_bytes = wanted.setup.plan.bucket_bytes;
  }
  Sought(const Sought&) = delete;

  const graph::Graph& train() const { return model.at(op::ProgramKind::train); }
  AxisId x() const { return plan::axes_of(mesh).x; }
  AxisId data() const { return plan::axes_of(mesh).data; }
  LayoutOutcome outcome() {
    return choose_layout(train(), start, setting, pricer, solve::usual_solver);
  }
  /// Throws std::bad_variant_access where there is none.
  ChosenLayout chosen() { return std::get<ChosenLayout>(outcome()); }
  plan::Plan plan(const plan::Layout& layout) const {
    return std::get<plan::Plan>(plan::make_plan(model, mesh, layout, batching, DType::f32, {}));
  }
  Demand demand(const plan::Layout& layout) const { return demand_of(train(), plan(layout)); }
  double seconds_of(const plan::Layout& layout) {
    return pricer.price(demand(layout), setting.groups).all();
  }
  /// The starts of messages at the end of a step, which several tensors share.
  double shared_seconds(const plan::Layout& layout) {
    double seconds = 0;
    for (const auto& [key, sent] : demand(layout).sent) {
      if (!key.is_at_end) continue;
      std::vector<machine::AxisGroup> along;
      for (const AxisId axis : key.axes) along.push_back(setting.groups[axis.index()]);
      seconds += pricer.seconds(key.kind, along, {sent.calls, 0, 0});
    }
    return seconds;
  }

  machine::Cluster cluster;
  graph::ModelGraphs model;
  Mesh mesh;
  plan::Batching batching;
  Pricer pricer;
  plan::Layout start;
  LayoutSetting setting;
};

/// A GPT of width 512, as in figure 10 of the paper.
inline Wanted wide_512_on(const plan::Grid& grid, std::int64_t layers) {
  Wanted wanted = gpt_on(grid, 4);
  wanted.setup.gpt = {.num_layers = layers,
                      .num_attention_heads = 8,
                      .hidden_size = 512,
                      .ffn_hidden_size = 2048,
                      .max_position_embeddings = 512,
                      .vocab_size = 50304};
  wanted.setup.plan.seq_length = 512;
  return wanted;
}

}  // namespace fourfold::search
