// A parallel run equals the serial one: every grid, in float64, up to rounding.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>

#include "base/format.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "support/outcome.h"

namespace fourfold {
namespace {

using test::all_grids;
using test::first_model;
using test::GridRun;
using test::name_of;
using test::num_steps;
using test::RunSetup;
using test::second_model;
using test::set_grid;
using test::Tensors;
using test::TrainingOutcome;
using test::Worst;

/// Every second grid computes gradients of weights beside the rest of the backward pass.
void expect_equal(RunSetup setup, const std::vector<plan::Grid>& grids, const std::string& what,
                  double most_later = 1e-12) {
  RunSetup serial_setup = setup;
  set_grid(serial_setup, {});
  serial_setup.plan.shard_states = serial_setup.plan.shard_sequence = false;
  serial_setup.plan.strategy = plan::Strategy::axonn;
  const Tensors weights = test::rough_weights(serial_setup);
  const TrainingOutcome serial =
      test::run_job(serial_setup, GridRun::compile_job(serial_setup), weights);
  Worst worst;
  bool is_beside = false;
  for (const plan::Grid& grid : grids) {
    set_grid(setup, grid);
    is_beside = !is_beside;
    setup.plan.overlap.weight_gradients =
        is_beside ? plan::WeightGradients::beside : plan::WeightGradients::in_turn;
    SCOPED_TRACE(name_of(setup.plan));
    try {
      compare(test::run_job(setup, GridRun::compile_job(setup), weights), serial, most_later,
              worst);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  test::print(worst, format("{}: {} grids", what, grids.size()));
}

/// GRID=2,2,1,1 runs one grid alone.
std::optional<plan::Grid> one_grid() {
  const char* text = std::getenv("GRID");
  if (text == nullptr) return std::nullopt;
  long x = 1, y = 1, z = 1, data = 1;
  std::sscanf(text, "%ld,%ld,%ld,%ld", &x, &y, &z, &data);
  return plan::Grid{.x = x, .y = y, .z = z, .data = data};
}

std::vector<plan::Grid> or_one(std::vector<plan::Grid> grids) {
  if (const auto grid = one_grid()) return {*grid};
  return grids;
}

/// Those of up to 4 ranks and every sixth of the others each time; all with FOURFOLD_LONG.
std::vector<plan::Grid> thinned(std::vector<plan::Grid> grids) {
  if (is_long_run()) return grids;
  std::size_t larger = 0;
  std::erase_if(grids, [&](const plan::Grid& grid) {
    return plan::num_ranks(grid) > 4 && larger++ % 6 != 0;
  });
  return grids;
}

TEST(Equivalence, of_every_grid_of_up_to_16_ranks) {
  EXPECT_EQ(all_grids().size(), 132U);
  expect_equal(first_model(), or_one(thinned(all_grids())), "axonn");
}

TEST(Equivalence, of_a_vgg_on_every_grid_of_up_to_16_ranks) {
  // AdamW divides by the root of gradients near zero, of which ReLU makes many: what rounding
  // differs by grows faster than in a GPT.
  expect_equal(test::picture_model(), or_one(thinned(all_grids())), "vgg", 1e-10);
}

/// Those of 2 ranks, every second of those of 4, and one of 16 each time; all with FOURFOLD_LONG.
TEST(Equivalence, of_a_unet_on_every_grid_of_powers_of_two) {
  std::vector<plan::Grid> grids = test::grids_of_two();
  EXPECT_EQ(grids.size(), 70U);
  if (!is_long_run()) {
    std::size_t of_four = 0;
    std::erase_if(grids, [&](const plan::Grid& grid) {
      const std::int64_t ranks = plan::num_ranks(grid);
      return ranks > 4 || (ranks > 2 && of_four++ % 2 != 0);
    });
    grids.push_back({.x = 2, .y = 2, .z = 2, .data = 2});
  }
  expect_equal(test::diffusion_model(), or_one(grids), "unet", 1e-10);
}

TEST(Equivalence, of_a_unet_by_other_strategies) {
  constexpr double most_later = 1e-10;
  RunSetup setup = test::diffusion_model();
  if (!is_long_run()) {
    setup.plan.strategy = plan::Strategy::atp;
    expect_equal(setup, {{.x = 2, .y = 2, .data = 1, .order = {"y", "x", "z", "data"}}},
                 "unet, atp", most_later);
    return;
  }
  setup.plan.strategy = plan::Strategy::atp;
  expect_equal(setup,
               or_one({{.x = 2, .y = 2, .data = 1, .order = {"y", "x", "z", "data"}},
                       {.x = 4, .data = 1, .order = {"y", "x", "z", "data"}}}),
               "unet, atp", most_later);
  setup.plan.strategy = plan::Strategy::megatron;
  expect_equal(setup, or_one({{.x = 4, .data = 1}}), "unet, megatron", most_later);
  setup.plan.strategy = plan::Strategy::fsdp;
  expect_equal(setup, or_one({{.z = 4, .data = 2}}), "unet, fsdp", most_later);
  setup.plan.strategy = plan::Strategy::axonn;
  setup.plan.shard_states = true;
  expect_equal(setup, or_one({{.data = 4}, {.x = 2, .y = 2, .z = 1, .data = 2}}),
               "unet, optimizer states sharded", most_later);
  setup.plan.shard_states = false;
  setup.plan.checkpointing = {.layers = 1};
  expect_equal(setup, or_one({{.x = 2, .y = 2, .z = 2, .data = 1}}), "unet, recomputation",
               most_later);
}

TEST(Equivalence, of_a_vgg_by_other_strategies) {
  constexpr double most_later = 1e-10;
  RunSetup setup = test::picture_model();
  setup.plan.strategy = plan::Strategy::atp;
  std::vector<plan::Grid> meshes;
  for (const std::int64_t d1 : {1, 2, 3, 6})
    meshes.push_back({.x = d1, .y = 6 / d1, .data = 1, .order = {"y", "x", "z", "data"}});
  expect_equal(setup, or_one(meshes), "vgg, atp", most_later);
  setup.plan.strategy = plan::Strategy::megatron;
  expect_equal(setup, or_one({{.x = 4, .data = 1}, {.x = 2, .data = 2}}), "vgg, megatron",
               most_later);
  setup.plan.strategy = plan::Strategy::fsdp;
  expect_equal(setup, or_one({{.z = 4, .data = 2}}), "vgg, fsdp", most_later);
  setup.plan.strategy = plan::Strategy::axonn;
  setup.plan.shard_states = true;
  expect_equal(setup, or_one({{.data = 4}, {.x = 2, .y = 2, .z = 1, .data = 2}}),
               "vgg, optimizer states sharded", most_later);
  setup.plan.shard_states = false;
  setup.optimizer.kind = graph::Optimizer::sgd;
  setup.plan.checkpointing = {.layers = 1};
  expect_equal(setup, or_one({{.x = 2, .y = 2, .z = 2, .data = 1}}), "vgg, sgd, recomputation",
               most_later);
}

TEST(Equivalence, of_heads_that_do_not_divide_and_an_odd_vocabulary) {
  expect_equal(second_model(), or_one(thinned(test::second_grids())),
               "14 heads, vocabulary 37, untied head");
}

TEST(Equivalence, of_an_odd_vocabulary_and_a_tied_head) {
  RunSetup setup = second_model();
  setup.gpt.tied_head = true;
  setup.gpt.bias = false;
  expect_equal(setup,
               or_one({{.x = 2, .y = 4, .z = 1, .data = 1},
                       {.x = 2, .y = 2, .z = 2, .data = 2},
                       {.x = 1, .y = 1, .z = 8, .data = 1},
                       {.x = 1, .y = 1, .z = 1, .data = 4},
                       {.x = 4, .y = 1, .z = 4, .data = 1}}),
               "vocabulary 37, tied head, no biases");
}

TEST(Equivalence, of_ranks_whose_samples_have_no_labels) {
  RunSetup setup = first_model();
  const std::int64_t length = setup.plan.seq_length;
  // The last two thirds of each micro-batch count for nothing: whole ranks have no token to learn
  // from.
  setup.masked = [length](std::int64_t i) { return i / length % 48 >= 16; };
  expect_equal(setup,
               or_one({{.data = 4}, {.z = 6, .data = 1}, {.x = 2, .y = 2, .z = 2, .data = 2}}),
               "fully masked ranks");
}

TEST(Equivalence, of_replicas_at_every_step) {
  RunSetup setup = first_model();
  set_grid(setup, {.x = 2, .y = 2, .z = 2, .data = 2});
  GridRun grid(setup);
  std::mutex mutex;
  std::map<std::string, std::set<std::uint64_t>> digests;  // by step and tensor
  grid.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, test::SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    for (std::int64_t step = 0; step < 3; ++step) {
      rank.executor.run(op::ProgramKind::train, test::SmallRun::block(step, test::lr, 1), &feeder);
      for (const auto& [name, digest] : GridRun::digests(rank)) {
        const std::lock_guard lock(mutex);
        digests[format("step {} {}", step, name)].insert(digest);
      }
    }
  });
  std::set<std::uint64_t> different;
  for (const auto& [name, values] : digests) {
    EXPECT_EQ(values.size(), 1U) << name;
    different.insert(values.begin(), values.end());
  }
  EXPECT_GT(different.size(), digests.size() / 2) << "digests tell states apart";
}

TEST(Equivalence, of_megatron_with_and_without_sharded_sequences) {
  for (const bool sequence : {false, true}) {
    RunSetup setup = first_model();
    setup.plan.strategy = plan::Strategy::megatron;
    setup.plan.shard_sequence = sequence;
    expect_equal(
        setup,
        or_one(
            {{.x = 2, .data = 1}, {.x = 4, .data = 1}, {.x = 2, .data = 2}, {.x = 4, .data = 4}}),
        sequence ? "megatron, sequence sharded" : "megatron");
  }
}

TEST(Equivalence, of_atp_on_all_meshes_of_six_ranks) {
  RunSetup setup = first_model();
  setup.plan.strategy = plan::Strategy::atp;
  std::vector<plan::Grid> meshes;
  for (const std::int64_t d1 : {1, 2, 3, 6})
    meshes.push_back({.x = d1, .y = 6 / d1, .data = 1, .order = {"y", "x", "z", "data"}});
  expect_equal(setup, or_one(meshes), "atp");
}

/// What the thread sanitizer runs: no library, no OpenMP.
TEST(Equivalence, of_reference_kernels_on_2_2_2) {
  RunSetup setup = first_model();
  setup.reference_kernels = true;
  setup.plan.global_batch_size = 16;
  expect_equal(setup, {{.x = 2, .y = 2, .z = 2, .data = 1}}, "reference kernels");
}

/// A first_model whose samples hold several documents.
RunSetup documents_model(RunSetup setup) {
  setup.masks_documents = setup.restarts_positions = true;
  return setup;
}

TEST(Equivalence, of_documents_that_do_not_see_each_other) {
  expect_equal(documents_model(first_model()),
               or_one({{.x = 4, .data = 1},
                       {.y = 4, .data = 1},
                       {.z = 4, .data = 1},
                       {.data = 4},
                       {.x = 2, .y = 2, .z = 2, .data = 2}}),
               "documents");
  // Samples of the attention core are cut further than those of the batch.
  expect_equal(documents_model(second_model()),
               or_one({{.x = 4, .y = 2, .z = 1, .data = 1}, {.x = 8, .y = 1, .z = 2, .data = 1}}),
               "documents, 14 heads");
  RunSetup recomputed = documents_model(first_model());
  recomputed.plan.checkpointing = {.layers = 1};
  expect_equal(recomputed, or_one({{.x = 2, .y = 2, .z = 2, .data = 1}}),
               "documents, recomputation");
  RunSetup sequence = documents_model(first_model());
  sequence.plan.strategy = plan::Strategy::megatron;
  sequence.plan.shard_sequence = true;
  expect_equal(sequence, or_one({{.x = 4, .data = 1}, {.x = 2, .data = 2}}),
               "documents, sequence sharded");
}

TEST(Equivalence, of_fsdp) {
  RunSetup setup = first_model();
  setup.plan.strategy = plan::Strategy::fsdp;
  expect_equal(setup, or_one({{.z = 2, .data = 1}, {.z = 4, .data = 2}, {.z = 16, .data = 1}}),
               "fsdp");
}

TEST(Equivalence, of_sharded_optimizer_states) {
  RunSetup setup = second_model();
  setup.plan.shard_states = true;
  expect_equal(setup,
               or_one({{.data = 2},
                       {.data = 4},
                       {.x = 2, .y = 2, .z = 1, .data = 2},
                       {.x = 2, .y = 1, .z = 2, .data = 4}}),
               "optimizer states sharded");
}

TEST(Equivalence, of_sgd_with_momentum) {
  for (const bool shard : {false, true}) {
    RunSetup setup = second_model();
    setup.plan.shard_states = shard;
    setup.optimizer.kind = graph::Optimizer::sgd;
    setup.optimizer.nesterov = shard;
    expect_equal(setup,
                 or_one({{.data = 4},
                         {.x = 2, .y = 2, .z = 1, .data = 2},
                         {.x = 2, .y = 1, .z = 2, .data = 4}}),
                 shard ? "sgd, its momentum sharded" : "sgd");
  }
}

TEST(Equivalence, of_recomputation) {
  for (const plan::Checkpointing checkpointing :
       {plan::Checkpointing{.layers = 1}, plan::Checkpointing{.layers = 2},
        plan::Checkpointing{.layers = 1, .keeps_products = true}}) {
    RunSetup setup = first_model();
    setup.plan.checkpointing = checkpointing;
    expect_equal(setup,
                 or_one({{.x = 2, .y = 2, .z = 2, .data = 2},
                         {.x = 1, .y = 1, .z = 4, .data = 1},
                         {.x = 4, .y = 2, .z = 1, .data = 1}}),
                 checkpointing.keeps_products
                     ? "selective recomputation"
                     : format("recomputation of every {}", checkpointing.layers));
  }
}

TEST(Equivalence, of_other_rank_orders) {
  RunSetup setup = first_model();
  std::vector<plan::Grid> grids;
  for (const auto& order : std::vector<std::vector<std::string>>{
           {"y", "x", "z", "data"}, {"data", "z", "y", "x"}, {"z", "data", "x", "y"}})
    grids.push_back({.x = 2, .y = 3, .z = 1, .data = 2, .order = order});
  expect_equal(setup, or_one(grids), "rank orders");
}

}  // namespace
}  // namespace fourfold
