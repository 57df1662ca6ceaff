// A step allocates nothing, and memory is what the plan says.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/file_system.h"
#include "base/format.h"
#include "base/units.h"
#include "checkpoint/save.h"
#include "checkpoint/save_model.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "support/small_run.h"
#include "unit/run/allocation_counter.h"

namespace fourfold {
namespace {

using test::RunSetup;
using test::SmallRun;

/// A line "key: N kB" of /proc/self/status, in bytes.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == key && file >> kib) return kib * 1024;
  }
  return 0;
}

/// Large enough that the libraries' own memory is a small part.
RunSetup large_setup() {
  RunSetup setup;
  setup.gpt = {.num_layers = 4,
               .num_attention_heads = 8,
               .hidden_size = 384,
               .ffn_hidden_size = 1536,
               .max_position_embeddings = 64,
               .vocab_size = 5000,
               .dropout = 0.1};
  setup.plan = {.global_batch_size = 8, .micro_batch_size = 2, .seq_length = 64};
  return setup;
}

/// A Llama of the same size, four heads in each of two groups.
void make_llama(RunSetup& setup) {
  const model::GptSpec& gpt = setup.gpt;
  setup.llama = {.num_layers = gpt.num_layers,
                 .num_attention_heads = 8,
                 .num_key_value_heads = 2,
                 .head_dim = gpt.hidden_size / 8,
                 .hidden_size = gpt.hidden_size,
                 .ffn_hidden_size = 3 * gpt.hidden_size,
                 .max_position_embeddings = gpt.max_position_embeddings,
                 .vocab_size = gpt.vocab_size,
                 .head_norm = true};
  setup.masks_documents = setup.restarts_positions = true;
}

/// As many weights, whose rounded copies are kept too. Few tokens: kernels that take bf16 on a CPU
/// are slow.
RunSetup large_setup_in_bf16() {
  RunSetup setup = large_setup();
  setup.gpt.max_position_embeddings = 8;
  setup.plan = {.global_batch_size = 2, .micro_batch_size = 1, .seq_length = 8};
  setup.plan.compute = DType::bf16;
  setup.reference_kernels = true;
  return setup;
}

/// What is resident now; the peak starts again from here.
std::int64_t settle() {
  std::ofstream("/proc/self/clear_refs") << "5";
  return status_bytes("VmRSS:");
}

void expect_within_one_percent(std::int64_t resident, std::int64_t predicted) {
  std::printf("predicted %s, resident %s: %+.2f%%\n", format_bytes(predicted).c_str(),
              format_bytes(resident).c_str(),
              100.0 * static_cast<double>(resident - predicted) / static_cast<double>(predicted));
  EXPECT_LE(resident, predicted + predicted / 100);
  EXPECT_GE(resident, predicted - predicted / 100);
}

void run_all_programs(SmallRun& run, const RunSetup& setup, std::int64_t steps) {
  run.init(false);
  test::FixedFeeder feeder = test::random_batch(setup);
  for (std::int64_t step = 0; step < steps; ++step) EXPECT_EQ(run.step(feeder, step).applied, 1);
  run.evaluate(feeder);
  op::StepBlock block;
  run.executor().run(op::ProgramKind::prefill, block, &feeder);
  block.position = static_cast<std::int32_t>(setup.plan.seq_length) - 1;
  run.executor().run(op::ProgramKind::decode, block, &feeder);
  run.executor().run(op::ProgramKind::digest, block);
}

TEST(Memory, a_step_allocates_nothing_of_its_own) {
  for (const bool reference : {false, true}) {
    RunSetup setup;
    setup.gpt.dropout = 0.1;
    setup.reference_kernels = reference;
    SmallRun run(setup);
    run.init(true);
    test::FixedFeeder feeder = test::random_batch(setup);
    run.step(feeder, 0);  // libraries may set up their threads here
    AllocationCounter counter;
    for (std::int64_t step = 1; step < 4; ++step) run.step(feeder, step);
    const Allocations allocations = counter.stop();
    EXPECT_EQ(allocations.own, 0) << allocations.first_own;
    std::printf("allocations in three steps: %lld own, %lld third-party\n",
                static_cast<long long>(allocations.own),
                static_cast<long long>(allocations.third_party));
  }
}

void expect_predicted_peak(const RunSetup& setup) {
  const auto predicted = [](const program::Bundle& b) {
    return b.persistent_bytes + b.transient_bytes;
  };
  const std::int64_t expected = predicted(SmallRun::compile_bundle(setup));
  {
    // Code and buffers that the libraries take at their first use and keep. Some fill them only
    // with large products, so these are as large as those of the model, but of one layer.
    const std::int64_t before = settle();
    RunSetup one_layer = setup;
    one_layer.gpt.num_layers = 1;
    if (one_layer.llama) one_layer.llama->num_layers = 1;
    SmallRun run(one_layer);
    run_all_programs(run, one_layer, 1);
    std::printf("one layer %s, of which predicted %s\n",
                format_bytes(status_bytes("VmHWM:") - before).c_str(),
                format_bytes(predicted(SmallRun::compile_bundle(one_layer))).c_str());
  }
  const std::int64_t before = settle();
  SmallRun run(setup);
  run_all_programs(run, setup, 2);
  expect_within_one_percent(status_bytes("VmHWM:") - before, expected);
}

TEST(Memory, peak_resident_memory_is_the_predicted_bundle) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory counts as resident";
#endif
  RunSetup setup = large_setup();
  expect_predicted_peak(setup);
  make_llama(setup);
  expect_predicted_peak(setup);
}

TEST(Memory, peak_resident_memory_is_the_predicted_bundle_where_rounded_weights_are_kept) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory counts as resident";
#endif
  expect_predicted_peak(large_setup_in_bf16());
}

TEST(Memory, a_save_takes_the_copy_that_was_planned_and_nothing_that_grows) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory counts as resident";
#endif
  const RunSetup setup = large_setup();
  SmallRun run(setup);
  run_all_programs(run, setup, 1);
  const auto folder =
      std::filesystem::temp_directory_path() / format("fourfold-memory-save-{}", ::getpid());
  std::filesystem::create_directories(folder);
  checkpoint::Store store(real_files(), (folder / "checkpoints").string());
  store.prepare();
  const program::Program& train = run.train_program();
  // And a chunk to read back with.
  const std::int64_t planned = checkpoint::owned_bytes(train) + checkpoint::chunk_bytes;
  const std::int64_t before = settle();
  checkpoint::Saver saver(store);
  saver.reserve(train);
  test::FixedFeeder feeder = test::random_batch(setup);
  for (std::int64_t step = 1; step < 3; ++step) {
    checkpoint::Manifest facts;
    facts.step = step;
    saver.start(facts, train, [&](const program::Buffer& b) { return run.executor().bytes(b); });
    run.step(feeder, step);
    EXPECT_EQ(saver.finish().error, "");
  }
  expect_within_one_percent(status_bytes("VmHWM:") - before, planned);
  std::filesystem::remove_all(folder);
}

/// Four ranks, each with a quarter of the weights. What they take at the end beyond what a step has
/// is what checkpoint/save_model.h allows each of them, two pieces; the weights are a multiple of
/// that, so that a rank which put them together would show. With FOURFOLD_LONG pieces are those of
/// a run, and 251 MiB of weights.
TEST(Memory, the_final_weights_take_two_pieces_of_a_rank_and_not_the_model) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory counts as resident";
#endif
  constexpr std::int64_t ranks = 4;
  RunSetup setup = large_setup();
  test::set_grid(setup, {.z = ranks, .data = 1});
  checkpoint::ModelFileSpec spec;
  if (is_long_run())
    setup.gpt.vocab_size = 103'000;
  else
    spec.piece_bytes = std::int64_t{1} << 20;
  const std::int64_t limit = ranks * 2 * spec.piece_bytes;
  const auto folder =
      std::filesystem::temp_directory_path() / format("fourfold-memory-weights-{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::int64_t before = 0, after = 0, weights = 0;
  test::GridRun(setup).run(
      [&](test::GridRun::RankRun& rank) {
        rank.executor.run(op::ProgramKind::init, {});
        rank.world.barrier();
        if (rank.rank == 0) before = settle();
        rank.world.barrier();
        checkpoint::save_model(
            folder.string(), rank.bundle.at(op::ProgramKind::train),
            [&](const program::Buffer& buffer) { return rank.executor.read(buffer); }, &rank.world,
            spec);
        rank.world.barrier();
        if (rank.rank != 0) return;
        after = status_bytes("VmHWM:");
        for (const program::Buffer& buffer : rank.bundle.at(op::ProgramKind::train).buffers)
          if (buffer.role == program::BufferRole::parameter)
            weights += buffer.global.elements() * size_bytes(buffer.dtype);
      },
      "weights are saved, and no step runs");
  std::filesystem::remove_all(folder);
  std::printf("weights %s, taken while they were written %s, at most %s\n",
              format_bytes(weights).c_str(), format_bytes(after - before).c_str(),
              format_bytes(limit).c_str());
  EXPECT_GE(weights, 3 * limit);
  EXPECT_LE(after - before, limit);
}

/// A model, every third a Llama, a grid and switches, as a seed has them: some hundred MiB in all
/// ranks together.
RunSetup drawn_setup(unsigned seed) {
  std::mt19937 random(seed);
  const auto of = [&]<class T>(const std::vector<T>& list) { return list[random() % list.size()]; };
  const auto coin = [&] { return random() % 2 == 0; };
  RunSetup setup;
  const auto hidden = of(std::vector<std::int64_t>{256, 384, 512});
  setup.gpt = {.num_layers = of(std::vector<std::int64_t>{2, 3, 4}),
               .num_attention_heads = 8,
               .hidden_size = hidden,
               .ffn_hidden_size = 4 * hidden,
               .max_position_embeddings = 128,
               .vocab_size = of(std::vector<std::int64_t>{4000, 10'000, 16'000}),
               .dropout = coin() ? 0.1 : 0};
  setup.plan = {.global_batch_size = 32, .seq_length = 16};
  test::set_grid(setup, of(std::vector<plan::Grid>{{},
                                                   {.x = 2, .data = 1},
                                                   {.y = 2, .data = 1},
                                                   {.z = 2, .data = 1},
                                                   {.data = 2},
                                                   {.x = 2, .z = 2, .data = 1},
                                                   {.y = 2, .data = 2},
                                                   {.z = 2, .data = 2}}));
  setup.plan.shard_states = coin();
  setup.plan.chunks = of(std::vector<std::int64_t>{1, 2, 4});
  setup.plan.overlap = {coin(), coin(), coin()};
  setup.plan.bucket_bytes = of(std::vector<std::int64_t>{0, 1 << 20, 4 << 20});
  setup.plan.cached_gathers = of(std::vector<std::optional<std::int64_t>>{{}, 0, 1, 4});
  setup.plan.checkpointing = of(std::vector<plan::Checkpointing>{
      {}, {.layers = 1, .keeps_products = true}, {.layers = 1}, {.layers = 2}});
  if (coin()) setup.plan.memory_limit = 1;
  if (coin()) setup.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  if (seed % 3 == 2) make_llama(setup);
  return setup;
}

TEST(Memory, the_peak_of_all_ranks_is_what_was_planned_with_any_switches) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory counts as resident";
#endif
  const auto train = [](const RunSetup& setup) {
    test::GridRun run(setup);
    run.run(
        [&](test::GridRun::RankRun& rank) {
          rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
          test::FixedFeeder feeder = test::random_batch(setup);
          for (std::int64_t step = 0; step < 2; ++step)
            rank.executor.run(op::ProgramKind::train, SmallRun::block(step, 1e-3, 1), &feeder);
        },
        "what a comparison takes would count as memory of the ranks");
    std::int64_t planned = 0;
    for (std::size_t rank = 0; rank < run.num_ranks(); ++rank) {
      const program::Bundle bundle = run.bundle_of(rank);
      planned += bundle.persistent_bytes + bundle.transient_bytes;
    }
    return planned;
  };
  train(drawn_setup(0));  // libraries take memory at their first use, and keep it
  const unsigned count = is_long_run() ? 60 : 3;
  double worst = 0;
  for (unsigned seed = 1; seed <= count; ++seed) {
    const std::int64_t before = settle();
    const std::int64_t planned = train(drawn_setup(seed));
    const std::int64_t taken = status_bytes("VmHWM:") - before;
    const std::int64_t allowed = taken / 50 + (std::int64_t{64} << 20);
    EXPECT_LE(std::abs(taken - planned), allowed)
        << "seed " << seed << ": planned " << format_bytes(planned) << ", taken "
        << format_bytes(taken);
    worst = std::max(worst,
                     static_cast<double>(std::abs(taken - planned)) / static_cast<double>(allowed));
  }
  std::printf("%u runs: at most %.2f of the difference that is allowed\n", count, worst);
}

TEST(Memory, every_page_that_was_counted_is_used) {
  for (RunSetup setup : {large_setup(), large_setup_in_bf16()}) {
    setup.cpu.fresh = run::CpuOptions::Fresh::paint;
    SmallRun run(setup);
    run_all_programs(run, setup, 1);
    for (const auto region : {program::Region::persistent, program::Region::transient}) {
      const auto pages = run.backend().pages(region);
      std::printf("%lld pages, %lld untouched\n", static_cast<long long>(pages.total),
                  static_cast<long long>(pages.untouched));
      EXPECT_EQ(pages.untouched, 0);
      EXPECT_GT(pages.total, 1000);
    }
  }
}

}  // namespace
}  // namespace fourfold
