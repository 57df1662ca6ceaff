// Rows 44, 50, 51, 52, 55 and 57 of the robustness catalogue (tests/README.md): what is watched
// while a run goes on.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "support/command.h"
#include "support/long_run.h"
#include "support/session_run.h"

namespace fourfold {
namespace {

using test::GridRun;
using test::run_session;
using test::SessionSetup;
using test::Told;

SessionSetup on_grid(std::int64_t x, std::int64_t data, std::int64_t steps) {
  SessionSetup setup;
  setup.run.gpt.vocab_size = 16;
  setup.run.gpt.dropout = 0.1;
  setup.run.plan.global_batch_size = 8;
  setup.run.plan.micro_batch_size = 8 / data / 2;
  setup.run.plan.grid.x = x;
  setup.run.plan.grid.data = data;
  setup.spec.steps = steps;
  return setup;
}

/// The error that ends the session, which has this code.
std::string refusal(const SessionSetup& setup, ExitCode code) {
  try {
    run_session(setup);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

/// A share of its first value, the 16th from below: an average forgets a lower one by rounding.
void flip_bit(GridRun::RankRun& rank, const std::string& tensor) {
  const program::Program& program = rank.bundle.at(op::ProgramKind::train);
  const auto bytes = rank.executor.bytes(program.buffer(program.find_buffer(tensor).value()));
  bytes[2] ^= std::byte{1};
}

TEST(Row44, one_bit_of_one_replica_is_found_at_the_next_check_and_its_rank_is_named) {
  for (const char* tensor :
       {"blocks.0.mlp.up.weight", "ln_f.gain", "m/wte.weight", "v/wpe.weight"}) {
    SessionSetup setup = on_grid(1, 4, 8);
    setup.spec.replica_check_steps = 2;
    setup.behind = [&](GridRun::RankRun& rank, std::int64_t step) {
      if (rank.rank == 2 && step == 3) flip_bit(rank, tensor);
    };
    const std::string text = refusal(setup, ExitCode::numeric_stop);
    EXPECT_NE(text.find("replicas differ after step 4: rank 2 holds other bits than the other "
                        "replicas in "),
              std::string::npos)
        << text;
    // What an average has wrong, its weight has wrong a step later.
    const std::string name(tensor), weight = name[1] == '/' ? name.substr(2) : name;
    EXPECT_NE(text.find("first in " + weight + "["), std::string::npos) << text;
    EXPECT_NE(text.find("they were equal after step 2"), std::string::npos) << text;
  }
}

TEST(Row44, of_two_replicas_both_are_named_and_of_parts_those_that_hold_the_same) {
  SessionSetup setup = on_grid(2, 2, 4);
  setup.spec.replica_check_steps = 1;
  setup.behind = [&](GridRun::RankRun& rank, std::int64_t step) {
    if (rank.rank == 3 && step == 1) flip_bit(rank, "blocks.1.mlp.up.weight");
  };
  const std::string text = refusal(setup, ExitCode::numeric_stop);
  EXPECT_NE(text.find("ranks 1 and 3 hold other bits than each other in 1 tensor, first in "
                      "blocks.1.mlp.up.weight"),
            std::string::npos)
      << text;
}

TEST(Row44, replicas_that_are_equal_are_left_alone_and_0_does_not_look) {
  for (const std::int64_t x : {1, 2}) {
    SessionSetup setup = on_grid(x, 4 / x, 6);
    setup.spec.replica_check_steps = 1;
    EXPECT_EQ(run_session(setup).steps.size(), 6U);
    setup.spec.replica_check_steps = 0;
    setup.behind = [&](GridRun::RankRun& rank, std::int64_t step) {
      if (rank.rank == 2 && step == 3) flip_bit(rank, "ln_f.gain");
    };
    EXPECT_EQ(run_session(setup).steps.size(), 6U);
  }
}

TEST(Row50, a_rank_with_a_busy_loop_is_named_within_50_steps) {
  SessionSetup setup = on_grid(1, 4, 60);
  setup.busy_rank = 2;
  setup.busy = std::chrono::milliseconds(5);
  const Told told = run_session(setup);
  ASSERT_FALSE(told.warnings.empty());
  const auto& [step, text] = told.warnings.front();
  EXPECT_LE(step, 50);
  // On a busy machine another rank may be some percent slower, too.
  EXPECT_NE(text.find("rank 2 computes "), std::string::npos) << text;
  EXPECT_NE(text.find("over the last 50 steps"), std::string::npos) << text;
  std::size_t named = 0;
  for (const train::StepMetrics& metrics : told.steps) {
    ASSERT_EQ(metrics.compute.has_value(), metrics.step % 10 == 0) << metrics.step;
    if (!metrics.compute) continue;
    EXPECT_GE(metrics.compute->slowest_s, metrics.compute->median_s);
    if (metrics.compute->slowest_rank == 2) ++named;
  }
  EXPECT_GE(named, 5U);
}

TEST(Row50, no_rank_is_accused_where_ranks_share_cores) {
  SessionSetup setup = on_grid(1, 4, 52);
  setup.ranks_share_cores = true;
  setup.busy_rank = 2;
  setup.busy = std::chrono::milliseconds(5);
  const Told told = run_session(setup);
  EXPECT_TRUE(told.warnings.empty()) << told.warnings.front().second;
  ASSERT_EQ(told.steps.size(), 52U);
  EXPECT_TRUE(told.steps[9].compute.has_value()) << "they are measured all the same";
}

/// Two steps in which one rank's instruction writes a NaN: the error that ends them, or what they
/// gave.
std::variant<std::string, Told> with_nan_on_rank(std::size_t rank, std::size_t instruction) {
  SessionSetup setup = on_grid(2, 2, 2);
  setup.before = [&](GridRun::RankRun& run) {
    if (run.rank == rank) run.backend->inject({op::ProgramKind::train, instruction, 0, 0});
  };
  try {
    return run_session(setup);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::numeric_stop) << error.what();
    return std::string(error.what());
  }
}

std::vector<double> losses_and_norms(const Told& told) {
  std::vector<double> numbers;
  for (const train::StepMetrics& metrics : told.steps)
    numbers.insert(numbers.end(), {metrics.loss, metrics.grad_norm});
  return numbers;
}

TEST(Row51, a_nan_behind_any_instruction_of_one_rank_ends_all_and_the_rank_is_named) {
  const auto program = GridRun(on_grid(2, 2, 2).run).bundle_of(1).at(op::ProgramKind::train);
  const std::vector<double> clean = losses_and_norms(run_session(on_grid(2, 2, 2)));
  const std::size_t stride = is_long_run() ? 1 : 12;
  std::size_t tried = 0, harmless = 0, computes = 0;
  for (std::size_t i = 0; i < program.tasks.back().begin; ++i) {
    const auto* compute = std::get_if<program::Compute>(&program.instructions[i].what);
    if (compute == nullptr || computes++ % stride != 0) continue;
    SCOPED_TRACE(format("{}, instruction {}", program::name(program.instructions[i]), i));
    ++tried;
    const auto outcome = with_nan_on_rank(1, i);
    if (const auto* told = std::get_if<Told>(&outcome)) {
      // Nothing takes it up: the gradient of a token whose row of the table another rank has.
      EXPECT_EQ(losses_and_norms(*told), clean);
      ++harmless;
      continue;
    }
    const auto& text = std::get<std::string>(outcome);
    EXPECT_NE(text.find("stopped at step 1 of 2"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1: "), std::string::npos) << text;
  }
  EXPECT_GE(tried, 10U);
  EXPECT_LE(harmless, tried / 50) << "of " << tried;
}

/// One in the averages is found by the update that meets it, which keeps the weight; the next step
/// is not applied.
TEST(Row51, a_nan_in_the_weights_or_averages_of_one_rank_ends_all_and_reaches_no_other_weight) {
  for (const char* tensor : {"blocks.0.attn.qkv.weight", "blocks.1.mlp.down.weight",
                             "v/blocks.0.mlp.up.weight", "m/wte.weight"}) {
    SessionSetup setup = on_grid(2, 2, 4);
    setup.spec.replica_check_steps = 0;
    setup.behind = [&](GridRun::RankRun& rank, std::int64_t step) {
      if (rank.rank != 3 || step != 2) return;
      const program::Program& train = rank.bundle.at(op::ProgramKind::train);
      const auto bytes = rank.executor.bytes(train.buffer(train.find_buffer(tensor).value()));
      const float nan = std::nanf("");
      std::memcpy(bytes.data(), &nan, sizeof nan);
    };
    const std::string text = refusal(setup, ExitCode::numeric_stop);
    const bool is_weight = std::string_view(tensor).starts_with("blocks");
    EXPECT_NE(text.find(is_weight ? "stopped at step 3 of 4" : "stopped at step 4 of 4"),
              std::string::npos)
        << tensor << ": " << text;
    EXPECT_NE(text.find("rank 3: element 0 of " + std::string(tensor)), std::string::npos) << text;
  }
}

class Row52 : public FolderTest {
 protected:
  /// A text that is soon known by heart, with a page of noise in its middle.
  std::string poisoned_text() const {
    std::string text;
    while (text.size() < 40'000) text += "abcdefgh";
    const Random random(3, random_stream("test.noise"));
    for (std::uint64_t i = 0; i < 300; ++i)
      text[15'000 + i] = static_cast<char>('a' + random.below(8, i, 0));
    std::ofstream(path("a.txt")) << text;
    return path("a.txt");
  }
  CommandResult train(const std::string& action, int checkpoint_steps,
                      const std::string& more = "") {
    return run_fourfold(format(
        "train configs/gpt-tiny.yaml --set run.dir={} --set data.format=text --set data.path={} "
        "--set data.tokenizer=char --set train.steps=1500 --set optimizer.lr=3e-3 --set "
        "sample.tokens=0 --set eval.batches=1 --set run.threads=1 --set loss_spike.action={} --set "
        "loss_spike.window=30 --set loss_spike.sigmas=12 --set checkpoint.interval_steps={} --set "
        "checkpoint.async=false --set model.vocab_size=64 --overwrite {}",
        path("run"), poisoned_text(), action, checkpoint_steps, more));
  }
  /// The losses of the run, the first step's first.
  std::vector<double> losses() const {
    std::vector<double> result;
    const std::string text = read_file(path("run") + "/metrics.jsonl");
    for (const std::string& line : split(text, '\n')) {
      if (line.empty()) continue;
      const Json values = parse_json(line, "metrics.jsonl");
      result.push_back(values.find("loss")->as_double());
    }
    return result;
  }
};

TEST_F(Row52, a_poisoned_batch_ends_the_run_with_7_its_samples_and_the_checkpoint_before_it) {
  const CommandResult run = train("stop", 10);
  ASSERT_EQ(run.code, 7) << run.text;
  const auto at = run.text.find("error: the loss of step ");
  ASSERT_NE(at, std::string::npos) << run.text;
  const std::int64_t step = std::stoll(run.text.substr(at + 24));
  // Eight samples a step, counted from 0.
  EXPECT_NE(
      run.text.find(format("its samples are {} to {} of the run", 8 * (step - 1), 8 * step - 1)),
      std::string::npos)
      << run.text;
  const std::int64_t before = (step - 1) / 10 * 10;
  EXPECT_TRUE(file_exists(format("{}/checkpoints/step-{:09}", path("run"), before))) << step;
  for (std::int64_t later = step; later < step + 20; ++later)
    EXPECT_FALSE(file_exists(format("{}/checkpoints/step-{:09}", path("run"), later)));
}

TEST_F(Row52, a_warning_lets_the_run_go_on_and_none_is_silent) {
  const CommandResult run = train("warn", 10);
  ASSERT_EQ(run.code, 0) << run.text;
  const auto at = run.text.find("warning: the loss of step ");
  ASSERT_NE(at, std::string::npos) << run.text;
  const auto step = static_cast<std::size_t>(std::stoll(run.text.substr(at + 26)));
  const std::vector<double> all = losses();
  ASSERT_EQ(all.size(), 1500U);
  EXPECT_GT(all[step - 1], 2 * all[step - 2]);
  const auto before = static_cast<std::int64_t>((step - 1) / 10 * 10);
  EXPECT_TRUE(file_exists(format("{}/checkpoints/step-{:09}", path("run"), before))) << step;
  EXPECT_FALSE(file_exists(format("{}/checkpoints/step-{:09}", path("run"), before - 10)));
  EXPECT_TRUE(read_file(path("run") + "/checkpoints/PROTECTED")
                  .starts_with(format("step-{:09} the loss of step {} ", before, step)));
  const CommandResult silent = train("none", 0, format("--stop-at {}", step + 1));
  EXPECT_EQ(silent.code, 0);
  EXPECT_EQ(silent.text.find("the loss of step"), std::string::npos) << silent.text;
}

/// The losses of three steps whose counters begin there.
std::vector<double> losses_from(std::uint32_t first_count) {
  SessionSetup setup = on_grid(2, 2, 3);
  setup.run.cpu.first_count = first_count;
  std::vector<double> losses;
  for (const train::StepMetrics& metrics : run_session(setup).steps) losses.push_back(metrics.loss);
  return losses;
}

TEST(Row55, counters_of_runs_and_items_pass_31_and_32_bits_without_a_trace) {
  const std::vector<double> usual = losses_from(0);
  ASSERT_EQ(usual.size(), 3U);
  for (const std::uint32_t first : {2'147'483'646U, 4'294'967'294U, 4'294'967'000U})
    EXPECT_EQ(losses_from(first), usual) << first;
}

TEST(Row55, steps_pass_31_bits_and_reach_the_last_of_32) {
  for (const std::int64_t first : {std::int64_t{2'147'483'646}, std::int64_t{4'294'967'291}}) {
    SessionSetup setup = on_grid(2, 2, first + 4);
    setup.first_step = first;
    const Told told = run_session(setup);
    ASSERT_EQ(told.steps.size(), 4U);
    for (std::size_t i = 0; i < told.steps.size(); ++i) {
      EXPECT_EQ(told.steps[i].step, first + static_cast<std::int64_t>(i) + 1);
      EXPECT_TRUE(std::isfinite(told.steps[i].loss));
      // Each step has samples and dropout of its own.
      if (i > 0) {
        EXPECT_NE(told.steps[i].loss, told.steps[i - 1].loss);
      }
    }
  }
}

TEST(Row57Threads, a_rank_that_throws_at_any_of_fifty_places_ends_all_with_its_code) {
  constexpr std::int64_t programs = 13;  // of a rank: the initial weights, six steps, evaluations
  std::int64_t tried = 0;
  for (std::size_t rank = 0; rank < 4; ++rank)
    for (std::int64_t number = 1; number <= programs; ++number) {
      SessionSetup setup = on_grid(2, 2, 6);
      setup.spec.eval_interval = 1;
      setup.begins = [&](std::size_t who, std::int64_t program) {
        if (who == rank && program == number) throw UserError(ExitCode::storage, "the disk burns");
      };
      EXPECT_EQ(refusal(setup, ExitCode::storage), format("rank {}: the disk burns", rank))
          << number;
      ++tried;
    }
  EXPECT_GE(tried, 50);
}

}  // namespace
}  // namespace fourfold
