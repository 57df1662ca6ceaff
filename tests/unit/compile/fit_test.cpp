// What is left open of a plan, within limits on memory.
#include "compile/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "program/traffic.h"
#include "support/long_run.h"
#include "unit/compile/grid_setup.h"
#include "verify/verify.h"

namespace fourfold::compile::fit_test {
namespace {

constexpr std::int64_t layers = 6;

GridSetup setup_of(const plan::Grid& grid) {
  GridSetup setup;
  setup.gpt.num_layers = layers;
  setup.gpt.ffn_hidden_size = 256;
  setup.gpt.max_position_embeddings = setup.plan.seq_length = 32;
  setup.plan.micro_batch_size = 8;
  setup.set_grid(grid, 1);
  return setup;
}

std::int64_t bytes_of(const program::Job& job) {
  return job.classes[0].persistent_bytes + job.classes[0].transient_bytes;
}

std::variant<Fitted, DoesNotFit> fitted_to(GridSetup setup, std::optional<std::int64_t> limit) {
  setup.plan.memory_limit = limit;
  const graph::ModelGraphs model = setup.graphs();
  return compile_to_fit(model, setup.solved(model), GridSetup::target());
}

std::int64_t bytes_with(GridSetup setup, const plan::Checkpointing& checkpointing,
                        std::optional<std::int64_t> cached, const Room& room = {}) {
  setup.plan.checkpointing = checkpointing;
  setup.plan.cached_gathers = cached;
  const graph::ModelGraphs model = setup.graphs();
  return bytes_of(compile(model, setup.solved(model), GridSetup::target(), {.room = room}));
}

/// The step of recomputation before this one; none before none.
std::optional<plan::Checkpointing> one_step_less(plan::Checkpointing now) {
  if (now.first_full > 0)
    --now.first_full;
  else if (now.first_selective > 0)
    --now.first_selective;
  else
    return std::nullopt;
  return now;
}

TEST(Fit, twenty_limits_are_kept_with_the_least_recomputation_that_keeps_them) {
  std::vector<plan::Grid> grids = {{.x = 2, .z = 2, .data = 1}};
  if (is_long_run()) grids.push_back({.data = 1});
  for (const plan::Grid& grid : grids) {
    GridSetup setup = setup_of(grid);
    setup.plan.checkpointing.is_auto = true;
    setup.plan.cached_gathers = 0;
    const std::int64_t most = bytes_with(setup, {}, 0), least = bytes_with(setup, {.layers = 1}, 0);
    ASSERT_LT(least, most);
    std::int64_t repeated_before = 0;
    std::size_t kinds = 0;
    for (int i = 20; i-- > 0;) {
      const std::int64_t limit = least + (most - least) * i / 19;
      auto result = fitted_to(setup, limit);
      const auto* fitted = std::get_if<Fitted>(&result);
      ASSERT_NE(fitted, nullptr) << limit;
      EXPECT_LE(bytes_of(fitted->job), limit);
      const plan::Checkpointing& chosen = fitted->fit.checkpointing.at(0);
      if (const auto less = one_step_less(chosen)) {
        EXPECT_GT(bytes_with(setup, *less, 0), limit) << plan::to_string(chosen);
      }
      const std::int64_t repeated = chosen.first_full + chosen.first_selective;
      EXPECT_GE(repeated, repeated_before);
      if (repeated > repeated_before || i == 19) ++kinds;
      repeated_before = repeated;
      for (const verify::Fault& fault : verify::verify(fitted->job.classes[0]))
        ADD_FAILURE() << fault.rule << ": " << fault.message;
    }
    // What is last computed again is read at once: it may as well stay.
    EXPECT_GE(repeated_before, 2 * layers - 1);
    EXPECT_GE(kinds, 6U);
  }
}

TEST(Fit, a_limit_that_nothing_keeps_names_the_smallest_that_works_and_the_largest_tensors) {
  GridSetup setup = setup_of({.x = 2, .z = 2, .data = 1});
  setup.plan.checkpointing.is_auto = true;
  auto result = fitted_to(setup, 1 << 10);
  const auto* refused = std::get_if<DoesNotFit>(&result);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->least_bytes, bytes_of(refused->least.job));
  EXPECT_FALSE(refused->largest.empty());
  EXPECT_TRUE(
      std::ranges::is_sorted(refused->largest, std::ranges::greater(), &DoesNotFit::Tensor::bytes));
  EXPECT_TRUE(std::holds_alternative<Fitted>(fitted_to(setup, refused->least_bytes)));
  EXPECT_TRUE(std::holds_alternative<DoesNotFit>(fitted_to(setup, refused->least_bytes - 1)));
}

TEST(Fit, gathered_weights_stay_for_as_many_layers_as_the_limit_allows) {
  GridSetup setup = setup_of({.z = 4, .data = 1});
  setup.plan.checkpointing.layers = 1;
  const std::int64_t none = bytes_with(setup, {.layers = 1}, 0),
                     all = bytes_with(setup, {.layers = 1}, layers, {true, {10}});
  ASSERT_LT(none, all);
  std::int64_t before = 0;
  for (int i = 0; i < 8; ++i) {
    const std::int64_t limit = none + (all - none) * i / 7;
    auto result = fitted_to(setup, limit);
    const auto* fitted = std::get_if<Fitted>(&result);
    ASSERT_NE(fitted, nullptr);
    EXPECT_LE(bytes_of(fitted->job), limit);
    const std::int64_t cached = fitted->fit.cached_gathers.value();
    if (cached < layers) {
      EXPECT_GT(bytes_with(setup, {.layers = 1}, cached + 1, {true, {10}}), limit);
    }
    EXPECT_GE(cached, before);
    before = cached;
  }
  EXPECT_EQ(before, layers);
}

TEST(Fit, a_limit_that_binds_nothing_leaves_open_what_is_open) {
  const GridSetup setup = setup_of({.z = 4, .data = 1});
  const std::int64_t all = bytes_with(setup, {}, layers, {true, {10}});
  auto ample = fitted_to(setup, 4 * all), none = fitted_to(setup, std::nullopt);
  EXPECT_EQ(std::get<Fitted>(ample).fit.cached_gathers, std::nullopt);
  EXPECT_EQ(bytes_of(std::get<Fitted>(ample).job), bytes_of(std::get<Fitted>(none).job));
}

TEST(Fit, without_a_limit_nothing_that_is_open_changes_anything) {
  GridSetup setup = setup_of({.x = 2, .z = 2, .data = 1});
  const program::Job plain = setup.job();
  setup.plan.checkpointing.is_auto = true;
  auto result = fitted_to(setup, std::nullopt);
  EXPECT_EQ(std::get<Fitted>(result).job, plain);
}

/// Bytes of payload that gathers on z bring.
std::int64_t gathered(const program::Bundle& bundle) {
  std::int64_t bytes = 0;
  for (const program::Traffic& entry : program::traffic(bundle.at(op::ProgramKind::train)))
    if (entry.kind == "all_gather" && entry.axis == "z") bytes += entry.payload_bytes;
  return bytes;
}

TEST(Fit, a_layer_whose_gathers_stay_gathers_once_where_it_is_computed_again) {
  GridSetup setup = setup_of({.z = 4, .data = 1});
  setup.plan.checkpointing.layers = 1;
  const auto bytes_for = [&](std::int64_t cached) {
    setup.plan.cached_gathers = cached;
    return gathered(setup.bundle());
  };
  // Each layer's products: h (3 h + h + 2 f), in float32.
  const std::int64_t h = setup.gpt.hidden_size, f = setup.gpt.ffn_hidden_size;
  const std::int64_t layer = (4 * h * h + 2 * h * f) * 4;
  const std::int64_t none = bytes_for(0);
  std::int64_t before = bytes_for(1);
  EXPECT_GE(none - before, layer);
  for (std::int64_t cached = 2; cached <= layers; ++cached) {
    const std::int64_t now = bytes_for(cached);
    EXPECT_EQ(before - now, layer);
    before = now;
  }
}

}  // namespace
}  // namespace fourfold::compile::fit_test
