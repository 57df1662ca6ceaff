// Plans made up from seeds: a small model, a mesh, how its parameters lie, and for each op of its
// training graph a choice, which axis cuts which of its factors and how its outputs are kept. Not
// what is asked of them: parallel/plans. Header only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/format.h"
#include "plan/make_mesh.h"
#include "plan/plan.h"
#include "support/chance.h"
#include "support/job_setup.h"

namespace fourfold::test {

struct RandomPlan {
  std::string name;    // model and mesh, and how many ops have a choice
  std::string serial;  // the same for all plans that one serial run answers for
  JobSetup setup;      // its grid is that of the mesh
  plan::Layout layout;
  plan::Checkpointing checkpointing;
};

class RandomPlans : Chance {
 public:
  explicit RandomPlans(std::uint64_t seed) : Chance(seed) {}

  RandomPlan make() {
    RandomPlan drawn;
    JobSetup& setup = drawn.setup;
    const bool has_threes = draw_grid(setup.plan.grid);
    const std::string model = pick<std::string>({"gpt", "gpt", "vgg", "vgg", "unet"});
    set_model(setup, model, has_threes);
    drawn.serial = format("{}{}", model, has_threes ? " of threes" : "");
    mesh_ = plan::make_mesh(setup.plan.grid);
    const graph::ModelGraphs graphs = setup.graphs();
    const graph::Graph& train = graphs.at(op::ProgramKind::train);
    drawn.layout = draw_layout(graphs, setup.plan, train);
    draw_choices(train, drawn.layout);
    drawn.checkpointing.layers = chance(0.2) ? 1 : 0;
    drawn.checkpointing.keeps_products = drawn.checkpointing.layers > 0 && chance(0.5);
    const plan::Grid& grid = setup.plan.grid;
    drawn.name = format("{} on x {} y {} z {} data {}, {} choices of {} ops", model, grid.x, grid.y,
                        grid.z, grid.data, drawn.layout.ops.size(), train.nodes.size());
    return drawn;
  }

 private:
  using Number = std::int64_t;

  /// Returns whether an axis has three ranks.
  bool draw_grid(plan::Grid& grid) {
    std::vector<Number plan::Grid::*> axes = {&plan::Grid::x, &plan::Grid::y, &plan::Grid::z,
                                              &plan::Grid::data};
    std::ranges::shuffle(axes, random_);
    const auto sizes = pick<std::vector<Number>>({{2}, {3}, {4}, {2, 2}, {2, 3}, {2, 2, 2}});
    for (std::size_t i = 0; i < sizes.size(); ++i) grid.*axes[i] = sizes[i];
    return std::ranges::find(sizes, 3) != sizes.end();
  }

  /// Two micro-batches of a model whose dims have many divisors, and some few.
  static void set_model(JobSetup& setup, const std::string& model, bool has_threes) {
    const Number samples = has_threes ? 6 : 8, width = has_threes ? 12 : 8;
    setup.writes = model::Writes::samples;
    plan::PlanSpec& spec = setup.plan;
    spec.global_batch_size = 2 * samples;
    spec.micro_batch_size = samples / (spec.grid.z * spec.grid.data);
    spec.seq_length = model == "gpt" ? 4 : 1;
    spec.compute = DType::f64;
    if (model == "gpt")
      setup.gpt = {.num_layers = 2,
                   .num_attention_heads = width / 2,
                   .hidden_size = 2 * width,
                   .ffn_hidden_size = 4 * width,
                   .max_position_embeddings = 6,
                   .vocab_size = has_threes ? 37 : 24,
                   .dropout = 0.1};
    if (model == "vgg")
      setup.vgg = model::VggSpec{.widths = {width, 0, 2 * width, 0},
                                 .hidden = {2 * width},
                                 .picture = {4, 4, 3},
                                 .num_classes = has_threes ? 7 : 8,
                                 .dropout = 0.1,
                                 .mean = {0.4, 0.5, 0.6},
                                 .deviation = {0.2, 0.25, 0.3}};
    if (model == "unet")
      setup.unet = model::UnetSpec{.picture = {4, 4, 3},
                                   .channels = width,
                                   .channel_mult = {1, 2},
                                   .layers_per_level = 1,
                                   .attention_resolutions = {2},
                                   .num_heads = 4,
                                   .norm_groups = 4,
                                   .dropout = 0.1,
                                   .class_conditional = true,
                                   .num_classes = 5,
                                   .diffusion = {.steps = 20, .learn_sigma = true, .sampling = {}}};
  }

  /// A strategy's layout, or one in which everything is whole at first.
  plan::Layout draw_layout(const graph::ModelGraphs& graphs, const plan::PlanSpec& spec,
                           const graph::Graph& train) {
    if (chance(0.4)) {
      auto made = plan::make_layout(graphs, spec, mesh_);
      if (auto* layout = std::get_if<plan::Layout>(&made)) return std::move(*layout);
    }
    plan::PlanSpec serial = spec;
    serial.grid = {};
    plan::Layout layout =
        std::get<plan::Layout>(plan::make_layout(graphs, serial, plan::make_mesh({})));
    for (auto& [name, parameter] : layout.parameters) parameter.use.reset();
    for (const graph::Value& value : train.values)
      if (value.role == graph::ValueRole::parameter)
        draw_rest(value, layout.parameters.at(value.name));
    for (auto& [name, parameter] : layout.parameters)
      for (const graph::Value& value : train.values)
        if (value.role == graph::ValueRole::parameter && graph::name_of_average(value.name) == name)
          parameter = layout.parameters.at(value.name);
    return layout;
  }

  std::vector<AxisId> shuffled_axes() {
    std::vector<AxisId> axes;
    for (std::size_t axis = 0; axis < mesh_.axes.size(); ++axis)
      if (mesh_.axes[axis].size > 1) axes.emplace_back(axis);
    std::ranges::shuffle(axes, random_);
    return axes;
  }
  Number ranks_of(AxisId axis) const { return mesh_.axes[axis.index()].size; }

  /// Between steps an axis cuts one dim of a parameter, or none; its moments sometimes more rows.
  void draw_rest(const graph::Value& parameter, plan::ParameterLayout& layout) {
    op::Sharding rest;
    rest.dims.resize(parameter.shape.rank());
    bool has_more_rows = false;
    for (const AxisId axis : shuffled_axes()) {
      const std::size_t dim = random_() % parameter.shape.rank();
      const Number size = op::local_size(parameter.shape[dim], rest.dims[dim], mesh_);
      if (chance(0.4) || size % ranks_of(axis) != 0) continue;
      rest.dims[dim].push_back({axis, std::nullopt});
    }
    layout.rest = rest;
    for (const AxisId axis : shuffled_axes()) {
      const bool is_used = std::ranges::any_of(rest.dims, [&](const op::Cuts& cuts) {
        return std::ranges::find(cuts, axis, &op::Cut::axis) != cuts.end();
      });
      const Number rows = op::local_size(parameter.shape[0], rest.dims[0], mesh_);
      if (is_used || has_more_rows || rows % ranks_of(axis) != 0 || chance(0.7)) continue;
      has_more_rows = true;
      rest.dims[0].push_back({axis, std::nullopt});
    }
    layout.moments = rest;
    for (op::Sharding* sharding : {&layout.rest, &layout.moments})
      if (sharding->replicated()) sharding->dims.clear();
  }

  void draw_choices(const graph::Graph& train, plan::Layout& layout) {
    const double share = pick<double>({0.1, 0.5, 1, 1});
    const std::vector<std::string> names = plan::names_of_ops(train);
    for (std::size_t i = 0; i < train.nodes.size(); ++i) {
      const graph::Node& node = train.nodes[i];
      if (plan::sees_state(train, node) || !chance(share)) continue;
      layout.ops[names[i]] = draw_cuts(train, node);
      for (const graph::ValueId id : node.outputs) draw_keep(train.value(id), layout);
    }
  }

  plan::FactorAxes draw_cuts(const graph::Graph& train, const graph::Node& node) {
    op::FactorSizes sizes = plan::factor_sizes(train, node);  // of what is left of each
    plan::FactorAxes cuts;
    for (const AxisId axis : shuffled_axes()) {
      std::vector<char> fitting;
      for (const auto& [factor, size] : sizes)
        if (size % ranks_of(axis) == 0) fitting.push_back(factor);
      if (fitting.empty() || chance(0.25)) continue;
      const char factor = pick(fitting);
      cuts[factor].push_back(axis);
      sizes[factor] /= ranks_of(axis);
    }
    return cuts;
  }

  /// As the op gives it, a partial sum too; or reduced; or whole; or cut by an axis in some dim.
  void draw_keep(const graph::Value& value, plan::Layout& layout) {
    if (value.role != graph::ValueRole::activation && value.role != graph::ValueRole::gradient)
      return;
    plan::Keep keep;
    const double way = static_cast<double>(random_() % 100) / 100;
    if (way < 0.15) return;
    keep.sums_stay = way < 0.6 || way > 0.9;
    if (way > 0.7)
      for (std::size_t dim = 0; dim < value.shape.rank(); ++dim) keep.whole.push_back(dim);
    if (way > 0.8 && value.shape.rank() > 0)
      for (const AxisId axis : shuffled_axes())
        keep.wishes.push_back({axis, {random_() % value.shape.rank()}});
    layout.activations[value.name] = keep;
  }

  Mesh mesh_;
};

}  // namespace fourfold::test
