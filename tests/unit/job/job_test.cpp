// What commands plan: one graph of a model for every grid and layout.
#include "job/job.h"
#include "job/settle.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "base/format.h"
#include "config/config.h"

namespace fourfold::job {
namespace {

struct Layout {
  plan::Strategy strategy = plan::Strategy::axonn;
  plan::Grid grid;

  bool is_allowed() const {
    const bool no_x = grid.x == 1, no_y = grid.y == 1, no_z = grid.z == 1;
    switch (strategy) {
      case plan::Strategy::axonn:
      case plan::Strategy::searched:
        return true;
      case plan::Strategy::atp:
        return no_z;
      case plan::Strategy::megatron:
        return no_y && no_z;
      case plan::Strategy::fsdp:
        return no_x && no_y;
    }
    return false;
  }
  /// What changes shardings beside the grid.
  std::vector<std::string> options() const {
    std::vector<std::string> list = {"optimizer.shard=none", "optimizer.shard=states"};
    if (strategy == plan::Strategy::megatron) list.emplace_back("parallel.shard_sequence=true");
    return list;
  }
  std::string name() const {
    return format("{} x {} y {} z {} data {}", plan::to_string(strategy), grid.x, grid.y, grid.z,
                  grid.data);
  }
};

/// Every ordered grid of so many ranks, with every strategy that takes it.
std::vector<Layout> layouts_of(std::int64_t ranks) {
  std::vector<Layout> layouts;
  for (const auto strategy :
       {plan::Strategy::axonn, plan::Strategy::atp, plan::Strategy::megatron, plan::Strategy::fsdp})
    for (std::int64_t x = 1; x <= ranks; ++x)
      for (std::int64_t y = 1; x * y <= ranks; ++y)
        for (std::int64_t z = 1; x * y * z <= ranks; ++z) {
          if (ranks % (x * y * z) != 0) continue;
          const Layout layout{strategy, {.x = x, .y = y, .z = z, .data = ranks / (x * y * z)}};
          if (layout.is_allowed()) layouts.push_back(layout);
        }
  return layouts;
}

constexpr std::int64_t global_batch = 32, at_once = 16;  // two accumulation steps

/// As a command plans it.
PlannedRun planned(const Layout& layout, const std::string& option) {
  const plan::Grid& g = layout.grid;
  const std::array files{std::string(FOURFOLD_SOURCE_DIR) + "/configs/gpt-quickstart.yaml"};
  const std::vector<std::string> sets = {
      "model.vocab_size=65",
      "model.num_attention_heads=8",
      "model.bias=true",
      "model.dropout=0.1",
      "data.mask_documents=true",
      format("train.global_batch_size={}", global_batch),
      format("train.micro_batch_size={}", at_once / (g.z * g.data)),
      format("parallel.strategy={}", plan::to_string(layout.strategy)),
      format("parallel.tensor={{x: {}, y: {}, z: {}}}", g.x, g.y, g.z),
      format("parallel.data={}", g.data),
      option};
  return plan_run(settle(config::load(files, sets), {}));
}

std::string text_of(const graph::ModelGraphs& model) {
  std::string text;
  for (const graph::Graph& graph : model.graphs) text += to_text(graph);
  return text;
}

TEST(PlannedJob, has_one_graph_for_all_grids_and_layouts) {
  const PlannedRun serial = planned({}, "optimizer.shard=none");
  const std::string text = text_of(serial.graphs);
  EXPECT_EQ(serial.plan.world, 1);
  EXPECT_NE(text.find("layer_norm_gradient"), std::string::npos);
  std::size_t count = 0;
  for (const Layout& layout : layouts_of(8))
    for (const std::string& option : layout.options()) {
      SCOPED_TRACE(layout.name() + ", " + option);
      const PlannedRun job = planned(layout, option);
      ASSERT_EQ(job.plan.world, 8);
      ASSERT_EQ(text_of(job.graphs), text);
      ASSERT_TRUE(job.graphs == serial.graphs) << "in what the text leaves out";
      ++count;
    }
  std::printf("%zu plans of one graph of %zu bytes\n", count, text.size());
  EXPECT_EQ(count, 38U * 2 + 4);
}

}  // namespace
}  // namespace fourfold::job
