// The CUDA backend on programs written by hand, on a GPU that is not there.
#include "run/cuda/cuda_backend.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "run/cuda/move.h"
#include "run/executor.h"
#include "unit/run/cuda/fake_gpu.h"
#include "unit/run/handmade.h"

namespace fourfold::run::cuda {
namespace {

/// Fills x with `step` values on one stream, adds it to the fed y on another.
struct TwoStreams {
  Handmade made{op::ProgramKind::train};
  program::Feeds feeds{1, 2, 0, 2};
  std::size_t feed, add;
  program::BufferId tokens, x, sum;

  TwoStreams() {
    made.step_block();
    made.result_block();
    tokens = made.tokens("tokens", feeds, 8);
    x = made.buffer("x", DType::i32, {2, 8}, program::Region::transient);
    sum = made.buffer("sum", DType::i32, {2, 8}, program::Region::persistent);
    const auto fed = made.event(), copied = made.event();
    feed = made.add("feed", made.feed(tokens));
    made.add("feed", program::Record{fed});
    made.add("copy", program::Wait{fed});
    made.copy("copy", tokens, x);
    made.add("copy", program::Record{copied});
    made.add("math", program::Wait{copied});
    add = made.copy("math", x, sum);
  }
};

/// Brings 100 step + place, and counts what it was asked for.
class StepFeeder : public Feeder {
 public:
  explicit StepFeeder(bool ahead) : ahead_(ahead) {}
  bool feeds_ahead() const override { return ahead_; }
  void feed(const Input&, const Samples& samples, std::span<std::byte> into) override {
    const std::int64_t step = samples.step;
    const std::span<std::int32_t> ids = as<std::int32_t>(into);
    ++asked[step];
    if (step == fails_at) throw UserError(ExitCode::bad_data, "the data end here");
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(100 * step + static_cast<std::int64_t>(i));
  }
  std::map<std::int64_t, int> asked;
  std::int64_t fails_at = -1;

 private:
  bool ahead_;
};

class OnAFakeGpu : public testing::TestWithParam<unsigned> {
 protected:
  FakeGpu gpu_{GetParam()};
  TwoStreams streams_;
  const program::Bundle bundle_ = streams_.made.bundle();
  std::unique_ptr<CudaBackend> backend_ = gpu_.backend();
  Executor executor_{bundle_, *backend_};

  std::int32_t sum(std::size_t place) {
    const auto bytes = executor_.bytes(op::ProgramKind::train, "sum");
    return as<std::int32_t>(bytes)[place];
  }
};

TEST_P(OnAFakeGpu, events_order_streams_and_each_step_gets_its_feed) {
  for (const bool ahead : {false, true}) {
    StepFeeder feeder(ahead);
    for (std::int64_t step = 0; step < 9; ++step) {
      executor_.run(op::ProgramKind::train, {.step = step}, &feeder);
      ASSERT_EQ(sum(3), 100 * step + 3) << ahead;
    }
    for (std::int64_t step = 0; step < 9; ++step) EXPECT_EQ(feeder.asked[step], 1) << step;
    EXPECT_EQ(feeder.asked[9], ahead ? 1 : 0);
  }
}

/// Runs steps [0, count), each begun before the one before has finished; calls `done` after each.
template <class Done>
void run_ahead(Executor& executor, Feeder& feeder, std::int64_t count, const Done& done) {
  ASSERT_TRUE(executor.runs_ahead());
  executor.start(op::ProgramKind::train, {.step = 0}, &feeder);
  for (std::int64_t step = 0; step < count; ++step) {
    if (step + 1 < count) executor.start(op::ProgramKind::train, {.step = step + 1}, &feeder);
    done(step, executor.finish());
  }
}

TEST_P(OnAFakeGpu, a_step_that_begins_ahead_gets_its_feed_and_gives_its_result) {
  Handmade& made = streams_.made;
  const auto step = program::BufferId(0), result = program::BufferId(1);
  made.add("math", program::Copy{Handmade::field(step, "step.step"),
                                 Handmade::field(result, "result.valid_count")});
  made.add("math", program::Copy{{streams_.sum, 12, 1, 4, 0},
                                 {result, offsetof(op::ResultBlock, loss_sum), 1, 4, 0}});
  const program::Bundle bundle = made.bundle();
  const auto backend = gpu_.backend();
  Executor executor(bundle, *backend);
  for (const bool ahead : {false, true}) {
    StepFeeder feeder(ahead);
    run_ahead(executor, feeder, 9, [&](std::int64_t number, const op::ResultBlock& got) {
      EXPECT_EQ(got.valid_count, number);
      std::int32_t sum = 0;
      std::memcpy(&sum, &got.loss_sum, sizeof sum);
      EXPECT_EQ(sum, 100 * number + 3) << ahead;
      EXPECT_GE(executor.times().total_s, 0);
    });
    for (std::int64_t number = 0; number < 9; ++number)
      EXPECT_EQ(feeder.asked[number], 1) << number;
  }
}

TEST_P(OnAFakeGpu, the_device_is_given_the_next_step_before_the_host_waits_for_a_result) {
  StepFeeder feeder(true);
  for (int again = 0; again < 2; ++again) {
    gpu_.launches_behind_waits.clear();
    run_ahead(executor_, feeder, 9, [](std::int64_t, const op::ResultBlock&) {});
  }
  std::vector<std::int64_t> expected(8, 1);
  expected.push_back(0);
  EXPECT_EQ(gpu_.launches_behind_waits, expected)
      << "one wait a step, the last with nothing behind";
}

TEST_P(OnAFakeGpu, a_fault_of_a_step_that_began_ahead_is_its_own) {
  StepFeeder feeder(true);
  feeder.fails_at = 3;
  std::int64_t done = 0;
  try {
    run_ahead(executor_, feeder, 9, [&](std::int64_t, const op::ResultBlock&) { ++done; });
    FAIL() << "a feeder's fault is thrown";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
  }
  EXPECT_EQ(done, 3) << "the steps before it are told";
  EXPECT_EQ(feeder.asked[4], 0) << "behind it nothing begins";
  feeder.fails_at = -1;
  executor_.run(op::ProgramKind::train, {.step = 4}, &feeder);
  EXPECT_EQ(sum(0), 400) << "the backend can run the next program";
}

TEST_P(OnAFakeGpu, only_the_next_step_begins_ahead_and_the_host_sees_nothing_meanwhile) {
  StepFeeder feeder(true);
  const auto refused = [&](std::int64_t step) {
    executor_.start(op::ProgramKind::train, {.step = 0}, &feeder);
    EXPECT_THROW(executor_.start(op::ProgramKind::train, {.step = step}, &feeder), InternalError);
    EXPECT_THROW(sum(0), InternalError);
    executor_.finish();
  };
  refused(2);
  refused(0);
  executor_.start(op::ProgramKind::train, {.step = 0}, &feeder);
  executor_.start(op::ProgramKind::train, {.step = 1}, &feeder);
  EXPECT_THROW(executor_.start(op::ProgramKind::train, {.step = 2}, &feeder), InternalError);
  executor_.drain();
  EXPECT_EQ(sum(0), 100);
}

TEST_P(OnAFakeGpu, what_was_fed_ahead_for_another_step_or_by_another_feeder_is_not_used) {
  StepFeeder feeder(true), other(true);
  executor_.run(op::ProgramKind::train, {.step = 0}, &feeder);
  executor_.run(op::ProgramKind::train, {.step = 5}, &feeder);
  EXPECT_EQ(sum(0), 500);
  executor_.run(op::ProgramKind::train, {.step = 6}, &other);
  EXPECT_EQ(other.asked[6], 1);
  EXPECT_EQ(sum(0), 600);
}

TEST_P(OnAFakeGpu, a_fault_of_the_feeder_names_the_instruction_when_its_step_comes) {
  StepFeeder feeder(true);
  feeder.fails_at = 3;
  for (std::int64_t step = 0; step < 3; ++step)
    executor_.run(op::ProgramKind::train, {.step = step}, &feeder);
  try {
    executor_.run(op::ProgramKind::train, {.step = 3}, &feeder);
    FAIL() << "a feeder's fault is thrown";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    EXPECT_EQ(std::string(error.what()),
              "rank 0 (data 0) on a fake GPU: instruction 0 (feed -> tokens input tokens micro 0) "
              "of train: the data end here");
  }
  feeder.fails_at = -1;
  executor_.run(op::ProgramKind::train, {.step = 4}, &feeder);
  EXPECT_EQ(sum(0), 400) << "the backend can run the next program";
}

template <class Kind>
Move move_of_kind() {
  PreparedInstruction instruction;
  instruction.what = Kind{};
  return move_of(instruction, 0);
}

TEST(Moves, what_moves_within_the_memory_of_a_rank_is_a_move_and_nothing_else_is) {
  EXPECT_FALSE(move_of_kind<PreparedCollective>());
  EXPECT_FALSE(move_of_kind<PreparedMessage>()) << "of one row";
  EXPECT_TRUE(move_of_kind<PreparedCopy>());
  EXPECT_TRUE(move_of_kind<PreparedReorder>());
  EXPECT_FALSE(move_of_kind<PreparedNothing>());
}

TEST_P(OnAFakeGpu, the_host_writes_what_a_program_reads) {
  Handmade made(op::ProgramKind::train);
  const auto from = made.floats("from", 1000, program::Region::persistent),
             to = made.floats("to", 1000, program::Region::persistent);
  made.copy("math", from, to);
  const program::Bundle bundle = made.bundle();
  const auto backend = gpu_.backend();
  Executor executor(bundle, *backend);
  for (int round = 0; round < 3; ++round) {
    {
      const auto bytes = executor.bytes(op::ProgramKind::train, "from");
      for (std::size_t i = 0; i < 1000; ++i)
        as<float>(bytes)[i] = static_cast<float>(i) + static_cast<float>(round);
    }
    executor.run(op::ProgramKind::train, {.step = round});
    const auto bytes = executor.bytes(op::ProgramKind::train, "to");
    for (std::size_t i = 0; i < 1000; ++i)
      ASSERT_EQ(as<float>(bytes)[i], static_cast<float>(i) + static_cast<float>(round));
  }
}

TEST_P(OnAFakeGpu, rows_of_any_cut_are_copied) {
  Handmade made(op::ProgramKind::train);
  const auto matrix = made.buffer("matrix", DType::f32, {6, 8}, program::Region::persistent),
             block = made.buffer("block", DType::f32, {6, 3}, program::Region::persistent),
             back = made.buffer("back", DType::f32, {9, 4}, program::Region::persistent);
  // Columns 2, 3, 4 of the matrix, then those as columns 1, 2 of 9 rows of 4.
  const program::Slice columns{matrix, 8, 6, 12, 32};
  made.add("math", program::Copy{columns, made.whole(block)});
  made.add("math", program::Copy{made.whole(block), {back, 4, 9, 8, 16}});
  const program::Bundle bundle = made.bundle();
  const auto backend = gpu_.backend();
  Executor executor(bundle, *backend);
  {
    const auto bytes = executor.bytes(op::ProgramKind::train, "matrix");
    for (std::size_t i = 0; i < 48; ++i) as<float>(bytes)[i] = static_cast<float>(i);
  }
  executor.run(op::ProgramKind::train, {});
  const auto block_bytes = executor.bytes(op::ProgramKind::train, "block"),
             back_bytes = executor.bytes(op::ProgramKind::train, "back");
  for (std::size_t i = 0; i < 18; ++i) {
    const auto expected = static_cast<float>(i / 3 * 8 + 2 + i % 3);
    EXPECT_EQ(as<float>(block_bytes)[i], expected) << i;
    EXPECT_EQ(as<float>(back_bytes)[i / 2 * 4 + 1 + i % 2], expected) << i;
  }
}

TEST_P(OnAFakeGpu, a_traced_run_has_an_interval_for_each_instruction_in_the_order_of_streams) {
  StepFeeder feeder(false);
  trace::Recorder recorder(op::ProgramKind::train, bundle_.programs[0].instructions.size(), 2, 2);
  executor_.set_recorder(&recorder);
  for (std::int64_t step = 0; step < 4; ++step)
    executor_.run(op::ProgramKind::train, {.step = step}, &feeder);
  EXPECT_EQ(sum(1), 301);
  ASSERT_EQ(recorder.runs().size(), 2U);
  for (const trace::RecordedRun& run : recorder.runs()) {
    for (const trace::Interval& interval : run.instructions) {
      EXPECT_GE(interval.begin_ns, run.whole.begin_ns);
      EXPECT_LE(interval.begin_ns, interval.end_ns);
    }
    EXPECT_GE(run.instructions[streams_.add].begin_ns, run.instructions[streams_.feed].end_ns);
    EXPECT_GT(run.instructions[streams_.add].duration_ns(), 0);
  }
  EXPECT_EQ(gpu_.open_ranges, 0);
  EXPECT_EQ(gpu_.ranges[0], "feed -> tokens input tokens micro 0")
      << "profilers see the instruction's name";
}

TEST_P(OnAFakeGpu, programs_for_several_ranks_are_refused) {
  Handmade made(op::ProgramKind::train);
  const auto data = made.floats("data", 4);
  made.edit().groups[0].members = {Rank(0), Rank(1)};
  made.add("math", program::AllReduce{.group = program::GroupId(0), .data = {made.whole(data)}});
  const program::Bundle bundle = made.bundle();
  const auto backend = gpu_.backend();
  try {
    backend->bind(bundle);
    FAIL() << "one rank cannot run it";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, OnAFakeGpu, testing::Values(1U, 2U, 3U),
                         [](const auto& seed) { return "seed_" + std::to_string(seed.param); });

/// A run of some steps whose device is lost somewhere.
class LostGpu {
 public:
  enum class Steps : std::uint8_t { one_by_one, ahead };
  std::string run(unsigned seed, std::int64_t at_call, std::int64_t at_work,
                  Steps steps = Steps::one_by_one) {
    FakeGpu gpu(seed);
    const program::Bundle bundle = streams_.made.bundle();
    std::string text;
    {
      const auto backend = gpu.backend();
      Executor executor(bundle, *backend);
      if (at_call > 0) gpu.lose_at_call(at_call);
      if (at_work >= 0) gpu.lose_at_work(at_work);
      StepFeeder feeder(true);
      try {
        if (steps == Steps::ahead)
          run_ahead(executor, feeder, 5, [](std::int64_t, const op::ResultBlock&) {});
        else
          for (std::int64_t step = 0; step < 5; ++step)
            executor.run(op::ProgramKind::train, {.step = step}, &feeder);
      } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::environment);
        text = error.what();
      }
    }
    EXPECT_EQ(gpu.live(), 0) << "all that was made is given back";
    return text;
  }

 private:
  TwoStreams streams_;
};

TEST(LostGpu, wherever_a_call_fails_one_line_names_rank_and_device_and_all_is_given_back) {
  LostGpu lost;
  std::set<std::string> texts;
  for (std::int64_t call = 1; call < 80; ++call) {
    const std::string text = lost.run(1, call, -1);
    if (text.empty()) {
      EXPECT_GT(call, 40) << "all steps take some calls";
      break;
    }
    EXPECT_TRUE(text.starts_with("rank 0 (data 0) on a fake GPU: ")) << text;
    EXPECT_TRUE(text.ends_with(": the GPU was lost")) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos);
    texts.insert(text);
  }
  EXPECT_TRUE(
      texts.contains("rank 0 (data 0) on a fake GPU: instruction 3 (copy tokens -> x) of "
                     "train: cudaLaunchKernel: the GPU was lost"))
      << testing::PrintToString(texts);
  EXPECT_TRUE(
      texts.contains("rank 0 (data 0) on a fake GPU: program train, step 4: cudaGraphLaunch: "
                     "the GPU was lost"))
      << testing::PrintToString(texts);
}

TEST(LostGpu, steps_that_begin_ahead_end_in_one_line_too) {
  LostGpu lost;
  std::int64_t call = 1;
  for (std::string text; call == 1 || !text.empty(); ++call) {
    text = lost.run(1, call, -1, LostGpu::Steps::ahead);
    if (text.empty()) break;
    EXPECT_TRUE(text.starts_with("rank 0 (data 0) on a fake GPU: ")) << text;
    EXPECT_TRUE(text.ends_with(": the GPU was lost")) << text;
  }
  EXPECT_GT(call, 40) << "all steps take some calls";
  for (std::int64_t work = 0; work < 26; ++work)
    EXPECT_NE(lost.run(2, 0, work, LostGpu::Steps::ahead), "") << work;
}

TEST(LostGpu, what_fails_on_the_device_is_thrown_by_the_step_that_met_it) {
  LostGpu lost;
  for (unsigned seed = 1; seed < 4; ++seed)
    for (std::int64_t work = 0; work < 26; ++work) {
      // Six pieces of work a step: the blocks in, the feed, two copies, a block out; and the launch
      // of a graph, which all steps after the first are.
      const std::int64_t step = work < 6 ? 0 : 1 + (work - 6) / 7;
      const std::string text = lost.run(seed, 0, work);
      EXPECT_TRUE(text.starts_with("rank 0 (data 0) on a fake GPU: ")) << text;
      EXPECT_TRUE(text.ends_with(": the GPU was lost")) << text;
      // Where the host was still enqueueing single instructions, it may be one of them.
      if (step == 0) continue;
      EXPECT_NE(text.find(format("program train, step {}", step)), text.npos) << text;
    }
}

}  // namespace
}  // namespace fourfold::run::cuda
