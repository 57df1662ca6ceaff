// The planner on small GPTs: which grids are considered, what is left out, and which is first.
#include "search/rank_grids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

#include "machine/known_clusters.h"
#include "plan/pin_spec.h"
#include "search/explain.h"
#include "search/rivals.h"
#include "simulate/simulate.h"
#include "support/long_run.h"
#include "unit/search/planned.h"

namespace fourfold::search {
namespace {

TEST(RankGrids, every_grid_is_priced_once_and_the_fastest_is_first) {
  const Planned planned("perlmutter-40gb", 16);
  const Answer answer = rank_grids(planned.question);
  EXPECT_EQ(answer.grids, 35) << "ways to write 2^4 as a product of four";
  ASSERT_EQ(answer.plans.size(), 35U);
  EXPECT_TRUE(answer.too_large.empty());
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
  for (std::size_t i = 0; i < answer.plans.size(); ++i) {
    const plan::Grid& grid = answer.plans[i].spec.grid;
    EXPECT_EQ(plan::num_ranks(grid), 16);
    seen.emplace(grid.x, grid.y, grid.z);
    EXPECT_LE(answer.plans[i == 0 ? 0 : i - 1].price.step(), answer.plans[i].price.step());
  }
  EXPECT_EQ(seen.size(), 35U);
}

TEST(RankGrids, orders_that_give_the_same_groups_count_once) {
  // In a grid of two ranks one axis has both: no order differs.
  EXPECT_EQ(rank_grids(Planned("perlmutter-40gb", 2).question).orders, 4);
  // Four ranks have 4 grids with one axis, and 6 with two axes, which have two orders.
  EXPECT_EQ(rank_grids(Planned("perlmutter-40gb", 4).question).orders, 4 + 6 * 2);
}

TEST(RankGrids, axes_of_one_rank_stay_where_the_configured_order_has_them) {
  const Planned planned("perlmutter-40gb", 16);
  std::size_t changed = 0;
  for (const PricedPlan& plan : rank_grids(planned.question).plans) {
    const plan::Grid& grid = plan.spec.grid;
    if (grid.z > 1 || grid.data != 1) continue;
    EXPECT_EQ(grid.order[2], "z") << grid_text(grid);
    EXPECT_EQ(grid.order[3], "data") << grid_text(grid);
    changed += grid.order[0] == "y" ? 1 : 0;
  }
  EXPECT_GT(changed, 0U);
}

TEST(RankGrids, no_order_is_faster_than_the_one_that_is_told) {
  const Planned planned("perlmutter-40gb", 16);
  Pricer pricer(planned.cluster, *machine::rate_of(planned.cluster.device, DType::f32),
                planned.question.spec.bucket_bytes);
  bool is_order_changed = false;
  for (const PricedPlan& plan : rank_grids(planned.question).plans) {
    std::vector<std::string> order = {"data", "x", "y", "z"};
    do {
      const Price other = pricer.price(plan.demand, groups_in_order(plan.mesh, order));
      EXPECT_GE(other.step(), (1 - 1e-9) * plan.price.step()) << grid_text(plan.spec.grid);
    } while (std::ranges::next_permutation(order).found);
    is_order_changed = is_order_changed || plan.spec.grid.order != planned.setup.plan.grid.order;
  }
  EXPECT_TRUE(is_order_changed);
}

TEST(RankGrids, numbers_that_follow_from_two_small_models_are_those_of_the_whole_one) {
  Planned planned("perlmutter-40gb", 8, 5);
  planned.question.spec.checkpointing.layers = 1;
  const Answer few = rank_grids(planned.question);
  planned.question.has_equal_layers = false;
  const Answer whole = rank_grids(planned.question);
  ASSERT_EQ(few.plans.size(), whole.plans.size());
  for (std::size_t i = 0; i < few.plans.size(); ++i) {
    EXPECT_EQ(grid_text(few.plans[i].spec.grid), grid_text(whole.plans[i].spec.grid));
    EXPECT_NEAR(few.plans[i].price.all(), whole.plans[i].price.all(),
                1e-9 * whole.plans[i].price.all());
    EXPECT_NEAR(few.plans[i].linears_s, whole.plans[i].linears_s, 1e-9 * whole.plans[i].linears_s);
    EXPECT_NEAR(few.plans[i].demand.memory.all(), whole.plans[i].demand.memory.all(),
                0.03 * whole.plans[i].demand.memory.all());
  }
}

TEST(RankGrids, gathers_that_are_kept_for_some_layers_lie_between_none_and_all) {
  Planned planned("perlmutter-40gb", 2);
  planned.question.spec.checkpointing.layers = 1;
  const auto seconds_with = [&](std::int64_t cached) {
    planned.question.spec.cached_gathers = cached;
    for (const PricedPlan& plan : rank_grids(planned.question).plans)
      if (plan.spec.grid.z == 2) return plan.price.weights;
    return 0.;
  };
  const double none = seconds_with(0), all = seconds_with(4);
  EXPECT_LT(all, none);
  EXPECT_NEAR(seconds_with(1), none + (all - none) / 4, 1e-9 * none);
}

TEST(RankGrids, what_does_not_fit_is_left_out_with_what_needs_least_first) {
  Planned planned("perlmutter-40gb", 8);
  const Answer all = rank_grids(planned.question);
  planned.cluster.device.memory_bytes = all.plans[0].demand.memory.all() * 0.9;
  const Answer some = rank_grids(planned.question);
  EXPECT_EQ(some.plans.size() + some.too_large.size(), all.plans.size());
  EXPECT_FALSE(some.too_large.empty());
  for (const PricedPlan& plan : some.plans)
    EXPECT_LE(plan.demand.memory.all(), planned.cluster.device.memory_bytes);
  planned.cluster.device.memory_bytes = 1;
  const Answer none = rank_grids(planned.question);
  EXPECT_TRUE(none.plans.empty());
  for (std::size_t i = 1; i < none.too_large.size(); ++i)
    EXPECT_LE(none.too_large[i - 1].demand.memory.all(), none.too_large[i].demand.memory.all());
  EXPECT_FALSE(none.too_large[0].demand.largest.empty());
}

TEST(RankGrids, the_limit_of_the_plan_counts_where_it_is_below_what_the_device_has) {
  Planned planned("perlmutter-40gb", 2);
  planned.question.spec.memory_limit = 1000;
  EXPECT_EQ(rank_grids(planned.question).memory_bytes, 1000);
}

TEST(RankGrids, automatic_recomputation_is_the_least_that_fits) {
  Planned planned("perlmutter-40gb", 2, 8);
  planned.question.spec.checkpointing.is_auto = true;
  const auto first = [&] { return rank_grids(planned.question).plans.at(0); };
  const PricedPlan roomy = first();
  EXPECT_EQ(plan::to_string(roomy.spec.checkpointing), "none");
  planned.cluster.device.memory_bytes = 0.95 * roomy.demand.memory.all();
  const Answer narrow = rank_grids(planned.question);
  EXPECT_TRUE(std::ranges::any_of(
      narrow.plans, [](const PricedPlan& plan) { return plan.spec.checkpointing.repeats_any(); }));
}

TEST(RankGrids, gathered_weights_stay_only_where_they_fit) {
  Planned planned("perlmutter-40gb", 2, 8);
  const auto on_z = [&] {
    const Answer answer = rank_grids(planned.question);
    for (const auto* list : {&answer.plans, &answer.too_large})
      for (const PricedPlan& plan : *list)
        if (plan.spec.grid.z == 2) return plan;
    throw std::runtime_error("no grid has z = 2");
  };
  const PricedPlan roomy = on_z();
  EXPECT_FALSE(roomy.spec.cached_gathers);
  planned.cluster.device.memory_bytes = 0.95 * roomy.demand.memory.all();
  const PricedPlan narrow = on_z();
  EXPECT_EQ(narrow.spec.cached_gathers, 0);
  EXPECT_LE(narrow.demand.memory.all(), planned.cluster.device.memory_bytes);
  EXPECT_GT(narrow.price.weights, roomy.price.weights) << "they are gathered again";
}

TEST(RankGrids, what_no_grid_divides_is_told_as_data) {
  Planned planned("perlmutter-40gb", 7);
  const Answer answer = rank_grids(planned.question);
  EXPECT_TRUE(answer.plans.empty());
  EXPECT_TRUE(answer.too_large.empty());
  EXPECT_EQ(answer.grids, 4);
  EXPECT_FALSE(answer.problems.empty());
}

/// The grid of the fastest plan without data parallelism.
plan::Grid best_atp_grid(const std::string& machine, std::int64_t ranks) {
  Planned planned(machine, ranks, 2);
  planned.setup.gpt.vocab_size = 16;  // the linears decide
  planned.setup.gpt.hidden_size = 1024;
  planned.setup.gpt.ffn_hidden_size = 4096;
  planned.question.spec.strategy = plan::Strategy::atp;
  planned.question.spec.grid.order = {"y", "x", "z", "data"};
  planned.question.spec.micro_batch_size = 64;
  planned.cluster.levels[0].latency_s = 0;
  const Answer answer = rank_grids(planned.question);
  return answer.plans.at(0).spec.grid;
}

// ATP, A8; with the 12 h that ours sends the choice is the same.
TEST(RankGrids, a8_one_dimension_is_best_on_4_devices_of_nvswitch_and_two_on_16_of_infiniband) {
  EXPECT_EQ(grid_text(best_atp_grid("atp-ic3", 4)), "x 4 y 1 z 1 data 1");
  EXPECT_EQ(grid_text(best_atp_grid("atp-ic4", 16)), "x 8 y 2 z 1 data 1");
}

TEST(RankGrids, a_plan_is_faster_by_the_class_that_decides) {
  PricedPlan a, b;
  a.mesh = b.mesh = Mesh{"main", {{"z", 2}, {"x", 2}}, Ranks(Rank(0), 4)};
  a.price.products = 10;
  a.price.weights = 2;
  b.price.products = 9.5;
  b.price.activations = 5;
  b.price.traffic = {{compile::Purpose::activations, Collective::all_reduce, {AxisId(1)}, 100, 5}};
  EXPECT_EQ(spendings(a.price, b.price).front().name, "activations");
  EXPECT_EQ(
      why_faster(a, "plan 1", b, "plan 2"),
      "plan 1 takes 2.50 s less than plan 2: nothing instead of 5.00 s on activations, most of "
      "it all_reduce along x; against it speak 2.00 s more on weights");
  EXPECT_EQ(why_faster(a, "plan 1", a, "plan 2"), "plan 1 and plan 2 take the same time");
}

TEST(RankGrids, rivals_are_priced_for_the_linears_of_a_step_the_fastest_first) {
  const Planned planned("perlmutter-40gb", 16);
  const Answer answer = rank_grids(planned.question);
  const auto linears = linears_of_step(planned.question, answer.plans[0]);
  ASSERT_EQ(linears.size(), 4 * 4 + 1U);
  EXPECT_EQ(linears[0].m, 64. * 64) << "all tokens of the step";
  EXPECT_TRUE(linears[1].is_transposed);
  const auto rivals = price_rivals(planned.cluster, 16, 4, linears, 1, 4);
  std::set<std::string> names;
  for (std::size_t i = 0; i < rivals.size(); ++i) {
    names.insert(rivals[i].name);
    EXPECT_GT(rivals[i].seconds, 0);
    EXPECT_GE(rivals[i].seconds, rivals[i == 0 ? 0 : i - 1].seconds);
  }
  EXPECT_EQ(names, (std::set<std::string>{"Megatron (x 4, data 4)", "ZeRO-3", "SUMMA (4 x 4)",
                                          "Google's mesh (2 x 8)"}));
  EXPECT_EQ(price_rivals(planned.cluster, 8, 4, linears, 1, 4).size(), 3U) << "two deep: 2 x 2 x 2";
  const auto zero_3 = [&](double micros) {
    const auto list = price_rivals(planned.cluster, 16, 4, linears, micros, 4);
    return std::ranges::find(list, "ZeRO-3", &Rival::name)->seconds;
  };
  EXPECT_DOUBLE_EQ(zero_3(3), 3 * zero_3(1));
  // Within a host Megatron's x has 300 GB/s; 25 GB/s are what each of four data groups has; of both
  // programs reach a share.
  const double within = planned.cluster.levels[0].reached(300e9),
               between = planned.cluster.levels[1].reached(25e9);
  const AxisNumbers sent = axonn_by_axis({.x = 4, .y = 1, .z = 1, .data = 4}, [&] {
    auto quarter = linears;
    for (Linear& linear : quarter) linear.m /= 4;
    return quarter;
  }());
  const double expected = 4 * (sent.x / within + sent.data / between);
  const auto megatron = std::ranges::find(rivals, "Megatron (x 4, data 4)", &Rival::name);
  EXPECT_NEAR(megatron->seconds, expected, 1e-9 * expected);
}

TEST(RankGrids, stages_are_looked_at_beside_the_grids_of_one_mesh) {
  Planned planned("perlmutter-40gb", 8);
  planned.question.stages = {1, 2, 4, 8};
  planned.question.schedules = {pipeline::Schedule::one_f_one_b,
                                pipeline::Schedule::eager_one_f_one_b};
  const Answer answer = rank_grids(planned.question);
  EXPECT_EQ(answer.grids, 20 + 10 + 4) << "eight stages are more than four layers";
  std::map<std::int64_t, std::int64_t> by_stages;
  for (const PricedPlan& plan : answer.plans) {
    const std::int64_t stages = plan.spec.pipeline.stages;
    ++by_stages[stages];
    EXPECT_EQ(plan::num_ranks(plan.spec.grid) * stages, 8);
    if (stages == 1) {
      EXPECT_TRUE(plan.stages.empty());
      EXPECT_EQ(plan.price.pipeline, 0);
      continue;
    }
    ASSERT_EQ(plan.stages.size(), static_cast<std::size_t>(stages));
    std::int64_t layers = 0;
    double most = 0;
    for (const StageOfPlan& stage : plan.stages) {
      layers += stage.layers;
      most = std::max(most, stage.memory_bytes);
    }
    EXPECT_EQ(layers, 4);
    EXPECT_NEAR(plan.demand.memory.all(), most, 1e-6 * most);
    EXPECT_GT(plan.price.pipeline, 0) << "stages wait for the first micro-batch";
  }
  EXPECT_EQ(by_stages, (std::map<std::int64_t, std::int64_t>{{1, 20}, {2, 10}, {4, 4}}));
}

TEST(RankGrids, stages_counted_in_few_layers_are_those_of_the_whole_model) {
  Planned planned("perlmutter-40gb", 8, 12);
  planned.question.stages = {2, 4};
  for (const std::int64_t repeated : {0, 1}) {
    planned.question.spec.checkpointing.layers = repeated;
    planned.question.has_equal_layers = true;
    const Answer few = rank_grids(planned.question);
    planned.question.has_equal_layers = false;
    const Answer whole = rank_grids(planned.question);
    ASSERT_EQ(few.plans.size(), whole.plans.size());
    std::map<std::string, const PricedPlan*> by_shape;
    for (const PricedPlan& plan : whole.plans) by_shape[shape_text(plan.spec)] = &plan;
    for (const PricedPlan& plan : few.plans) {
      const PricedPlan& other = *by_shape.at(shape_text(plan.spec));
      // The messages that gradients are joined in are whole ones.
      EXPECT_NEAR(plan.price.step(), other.price.step(), 2e-3 * other.price.step())
          << shape_text(plan.spec);
      EXPECT_NEAR(plan.linears_s, other.linears_s, 1e-9 * other.linears_s);
      for (std::size_t stage = 0; stage < plan.stages.size(); ++stage)
        EXPECT_NEAR(plan.stages[stage].memory_bytes, other.stages[stage].memory_bytes,
                    0.05 * other.stages[stage].memory_bytes)
            << shape_text(plan.spec) << ", stage " << stage;
    }
  }
}

TEST(RankGrids, stages_need_the_memory_and_the_time_of_their_programs) {
  Planned planned("perlmutter-40gb", 8, 8);
  planned.question.stages = {2, 4};
  planned.question.schedules = {pipeline::Schedule::one_f_one_b,
                                pipeline::Schedule::eager_one_f_one_b, pipeline::Schedule::gpipe};
  planned.question.has_equal_layers = false;
  std::size_t number = 0;
  for (const PricedPlan& plan : rank_grids(planned.question).plans) {
    if (number++ % 2 != 0 && !is_long_run()) continue;
    const program::Job job = planned.question.compile(plan.spec);
    std::int64_t most = 0;
    for (const program::Bundle& bundle : job.classes)
      most = std::max(most, bundle.persistent_bytes + bundle.transient_bytes);
    EXPECT_NEAR(plan.expected_bytes(), static_cast<double>(most), 0.05 * static_cast<double>(most))
        << shape_text(plan.spec);
    const double seconds = simulate::simulate(job, op::ProgramKind::train, planned.cluster).step_s;
    EXPECT_NEAR(plan.price.step(), seconds, 0.25 * seconds) << shape_text(plan.spec);
  }
}

plan::Pin pin(const std::string& pattern, const std::string& sharding) {
  return {pattern, plan::parse_pinned(sharding).value()};
}

/// What a rank has of the parameters that a pattern names.
std::int64_t bytes_of(const program::Job& job, const std::string& pattern) {
  std::map<std::string, std::int64_t> sizes;
  for (const program::Bundle& bundle : job.classes)
    for (const program::Buffer& buffer : bundle.at(op::ProgramKind::train).buffers)
      if (buffer.role == program::BufferRole::parameter && plan::matches(pattern, buffer.name))
        sizes[buffer.name] = buffer.size_bytes;
  std::int64_t bytes = 0;
  for (const auto& [name, size] : sizes) bytes += size;
  return bytes;
}

TEST(RankGrids, a_pin_of_one_layer_is_obeyed_on_all_grids_and_stages) {
  const std::string pattern = "blocks.2.mlp.up.weight";
  Planned planned("perlmutter-40gb", 4);
  planned.question.stages = {1, 2};
  const Answer plain = rank_grids(planned.question);
  planned.question.spec.pins = {pin(pattern, "[*, *]")};
  const Answer few = rank_grids(planned.question);
  ASSERT_EQ(few.plans.size(), plain.plans.size());
  planned.question.has_equal_layers = false;
  const Answer whole = rank_grids(planned.question);
  ASSERT_EQ(few.plans.size(), whole.plans.size());
  constexpr std::int64_t whole_bytes = 256 * 1024 * 4;
  for (std::size_t i = 0; i < few.plans.size(); ++i) {
    const PricedPlan& plan = few.plans[i];
    EXPECT_EQ(plan.price.step(), whole.plans[i].price.step()) << shape_text(plan.spec);
    const program::Job job = planned.question.compile(plan.spec);
    EXPECT_EQ(bytes_of(job, pattern), whole_bytes) << shape_text(plan.spec);
    const plan::Grid& grid = plan.spec.grid;
    const bool is_cut = grid.x * grid.y * grid.z > 1;
    EXPECT_EQ(bytes_of(job, "blocks.1.mlp.up.weight") < whole_bytes, is_cut)
        << shape_text(plan.spec);
  }
}

/// A U-Net whose first four blocks have about a quarter of its work.
void choose_unet(Planned& planned) {
  planned.setup.unet = model::UnetSpec{.picture = {16, 16, 3},
                                       .channels = 16,
                                       .channel_mult = {1, 2, 2},
                                       .layers_per_level = 1,
                                       .norm_groups = 4,
                                       .num_classes = 4,
                                       .diffusion = {}};
  planned.setup.plan.seq_length = 1;
  planned.question.spec = planned.setup.plan;
  planned.question.layers = planned.setup.graphs().num_layers;
  planned.question.has_equal_layers = false;
}

TEST(RankGrids, stages_of_a_unet_have_meshes_of_their_own_where_that_is_faster) {
  Planned planned("perlmutter-40gb", 4);
  choose_unet(planned);
  // Work is what takes time: the model is small for such a device.
  for (machine::ComputeRate& rate : planned.cluster.device.rates) rate.flops_per_s *= 1e-3;
  planned.question.stages = {2};
  planned.question.settle = [&](const plan::Grid& grid, std::int64_t stages) {
    plan::PlanSpec spec = planned.question.spec;
    spec.grid = grid;
    spec.pipeline.stages = stages;
    spec.micro_batch_size = 12 / (grid.z * grid.data);
    return spec;
  };
  planned.question.spec.global_batch_size = 96;
  planned.question.spec.pipeline.layers = {4, planned.question.layers - 4};
  const Answer equal = rank_grids(planned.question);
  planned.question.own_meshes = true;
  const Answer own = rank_grids(planned.question);
  EXPECT_EQ(equal.with_own_meshes, 0);
  ASSERT_GT(own.with_own_meshes, 0);
  EXPECT_EQ(own.plans.size(), equal.plans.size() + static_cast<std::size_t>(own.with_own_meshes));
  const PricedPlan& first = own.plans.front();
  ASSERT_EQ(first.spec.pipeline.grids.size(), 2U) << shape_text(first.spec);
  EXPECT_LT(plan::num_ranks(first.spec.pipeline.grids[0]),
            plan::num_ranks(first.spec.pipeline.grids[1]))
      << shape_text(first.spec);
  const auto seconds_of = [&](const PricedPlan& plan) {
    return simulate::simulate(planned.question.compile(plan.spec), op::ProgramKind::train,
                              planned.cluster)
        .step_s;
  };
  double least = 0;
  for (const PricedPlan& plan : equal.plans)
    if (const double seconds = seconds_of(plan); least == 0 || seconds < least) least = seconds;
  EXPECT_LT(seconds_of(first), 0.95 * least) << shape_text(first.spec);
}

TEST(RankGrids, stages_with_meshes_of_their_own_need_the_memory_and_the_time_of_their_programs) {
  Planned planned("perlmutter-40gb", 8, 4);
  planned.question.stages = {2, 4};
  planned.question.has_equal_layers = false;
  planned.question.own_meshes = true;
  const Answer answer = rank_grids(planned.question);
  EXPECT_GT(answer.with_own_meshes, 0);
  std::size_t number = 0;
  for (const PricedPlan& plan : answer.plans) {
    if (plan.spec.pipeline.grids.empty()) continue;
    if (number++ % 4 != 0 && !is_long_run()) continue;
    const program::Job job = planned.question.compile(plan.spec);
    EXPECT_EQ(job.ranks.size(), 8U);
    std::int64_t most = 0;
    for (const program::Bundle& bundle : job.classes)
      most = std::max(most, bundle.persistent_bytes + bundle.transient_bytes);
    EXPECT_NEAR(plan.expected_bytes(), static_cast<double>(most), 0.05 * static_cast<double>(most))
        << shape_text(plan.spec);
    const double seconds = simulate::simulate(job, op::ProgramKind::train, planned.cluster).step_s;
    EXPECT_NEAR(plan.price.step(), seconds, 0.25 * seconds) << shape_text(plan.spec);
    for (const plan::Grid& grid : plan.spec.pipeline.grids)
      EXPECT_EQ(grid.order, plan.spec.grid.order);
  }
}

TEST(RankGrids, pins_of_a_unet_are_obeyed_on_all_grids_and_stages) {
  const std::string pattern = "down.*.conv1.weight";
  Planned planned("perlmutter-40gb", 4);
  planned.setup.unet = model::UnetSpec{.picture = {8, 8, 3},
                                       .channels = 16,
                                       .channel_mult = {1, 2},
                                       .layers_per_level = 1,
                                       .norm_groups = 4,
                                       .num_classes = 4,
                                       .diffusion = {}};
  planned.setup.plan.seq_length = 1;
  planned.question.spec = planned.setup.plan;
  planned.question.layers = planned.setup.graphs().num_layers;
  planned.question.has_equal_layers = false;
  planned.question.stages = {1, 2};
  planned.question.spec.pins = {pin(pattern, "[*, *, *, *]")};
  const Answer answer = rank_grids(planned.question);
  EXPECT_GT(answer.plans.size(), 10U);
  std::set<std::int64_t> stages;
  std::size_t number = 0;
  for (const PricedPlan& plan : answer.plans) {
    if (stages.contains(plan.spec.pipeline.stages) && number++ % 3 != 0 && !is_long_run()) continue;
    stages.insert(plan.spec.pipeline.stages);
    EXPECT_EQ(bytes_of(planned.question.compile(plan.spec), pattern), 4 * 9 * (16 * 16 + 32 * 16))
        << shape_text(plan.spec);
  }
  EXPECT_EQ(stages.size(), 2U);
}

TEST(RankGrids, pins_that_no_grid_obeys_are_told_as_data) {
  Planned planned("perlmutter-40gb", 4);
  planned.question.stages = {1, 2};
  const auto why = [&](const plan::Pin& one) {
    planned.question.spec.pins = {one};
    const Answer answer = rank_grids(planned.question);
    EXPECT_TRUE(answer.plans.empty());
    return std::get<plan::BadPin>(answer.problems.at(0)).why;
  };
  using Why = plan::BadPin::Why;
  EXPECT_EQ(why(pin("blocks.4.mlp.up.weight", "[*, *]")), Why::unused);
  EXPECT_EQ(why(pin("blocks.3.mlp.up.weight", "[*, *, *]")), Why::dims);
}

TEST(RankGrids, pipelines_of_other_methods_take_the_number_of_stages_that_is_best_for_them) {
  const Planned planned("perlmutter-40gb", 64, 16);
  const std::vector<Linear> linears = gpt_linears(64. * 64, 256);
  const auto rivals_of = [&](double compute_s) {
    return price_pipelined_rivals(planned.cluster, 64, 4, linears, 2, {16, 64, compute_s});
  };
  const auto busy = rivals_of(10), idle = rivals_of(0);
  ASSERT_EQ(busy.size(), 2U);
  EXPECT_TRUE(busy[0].name.starts_with("Megatron (x 4, ")) << busy[0].name;
  EXPECT_TRUE(busy[1].name.starts_with("DeepSpeed (x 4, ")) << busy[1].name;
  EXPECT_LT(busy[0].waiting_s, busy[1].waiting_s) << "chunks make stages wait less";
  EXPECT_NE(busy[0].name.find(" chunks"), std::string::npos) << busy[0].name;
  for (const Rival& rival : idle) {
    EXPECT_EQ(rival.waiting_s, 0);
    EXPECT_EQ(rival.name.find(" chunks"), std::string::npos) << "they only send more";
    EXPECT_GT(rival.seconds, 0);
  }
}

}  // namespace
}  // namespace fourfold::search
