// A step allocates nothing, and memory is what the plan says.
#include <gtest/gtest.h>

#include <fstream>

#include "base/units.h"
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
               .hidden_size = 512,
               .ffn_hidden_size = 2048,
               .max_position_embeddings = 128,
               .vocab_size = 5000,
               .dropout = 0.1};
  setup.plan = {.global_batch_size = 8, .micro_batch_size = 4, .seq_length = 128};
  return setup;
}

void run_all_programs(SmallRun& run, const RunSetup& setup, std::int64_t steps) {
  run.init(false);
  test::FixedFeeder feeder = test::random_batch(setup);
  for (std::int64_t step = 0; step < steps; ++step) EXPECT_EQ(run.step(feeder, step).applied, 1);
  run.evaluate(feeder);
  op::StepBlock block;
  run.executor().run("prefill", block, &feeder);
  block.position = static_cast<std::int32_t>(setup.plan.seq_length) - 1;
  run.executor().run("decode", block, &feeder);
  run.executor().run("digest", block);
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

TEST(Memory, peak_resident_memory_is_the_predicted_bundle) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own memory counts as resident";
#endif
  const RunSetup setup = large_setup();
  const auto predicted = [](const program::Bundle& b) {
    return b.persistent_bytes + b.transient_bytes;
  };
  const std::int64_t expected = predicted(SmallRun::compile_bundle(setup));
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from now
  const std::int64_t before = status_bytes("VmRSS:");
  SmallRun run(setup);
  run_all_programs(run, setup, 3);
  const std::int64_t used = status_bytes("VmHWM:") - before;
  std::printf("predicted %s, resident %s\n", format_bytes(expected).c_str(),
              format_bytes(used).c_str());
  const std::int64_t slack = expected / 50 + (std::int64_t{64} << 20);
  EXPECT_LE(used, expected + slack);
  EXPECT_GE(used, expected - slack);
}

TEST(Memory, every_page_that_was_counted_is_used) {
  RunSetup setup = large_setup();
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

}  // namespace
}  // namespace fourfold
