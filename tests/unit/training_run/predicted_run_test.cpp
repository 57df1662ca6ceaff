// A step as it was predicted beside what it took: what is measured, what is said, and what is kept.
#include "training_run/predicted_run.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "job/job.h"
#include "job/settle.h"
#include "unit/trace/small_timeline.h"

namespace fourfold::training_run {
namespace {

constexpr double micro_s = 1e-6;
constexpr double rounding_s = 1e-12;

/// 80 us a step, of which 15 exposed; its product is half of the measured one.
PredictedStep prediction() {
  PredictedStep step{"some-machine", 80 * micro_s, 15 * micro_s, trace::small_timeline()};
  for (trace::RankTimeline& rank : step.timeline.ranks) {
    rank.steps[0].spans[0].when.end_ns -= 20'000;
    rank.steps[0].spans[1].when.begin_ns -= 20'000;
  }
  return step;
}

train::StepMetrics metrics_of(std::int64_t step, double time_s,
                              std::optional<double> exposed_s = std::nullopt) {
  train::StepMetrics metrics;
  metrics.step = step;
  metrics.time_s = time_s;
  metrics.exposed_communication_s = exposed_s;
  return metrics;
}

std::string words_of(const StepBeside& beside) {
  std::string text;
  for (const Row& row : to_rows(beside)) text += row.label + ": " + row.text + "\n";
  return text;
}

TEST(StepsBeside, measured_is_the_median_of_the_steps_but_the_first) {
  const PredictedStep predicted = prediction();
  StepsBeside steps(predicted);
  EXPECT_FALSE(steps.result().has_value());
  steps.step(metrics_of(11, 5));
  EXPECT_EQ(steps.result().value().step.measured_s, 5) << "there is no other";
  EXPECT_NE(words_of(*steps.result()).find("than the 5.00 s measured, of one step"),
            std::string::npos)
      << words_of(*steps.result());
  for (const double time_s : {100 * micro_s, 900 * micro_s, 90 * micro_s, 110 * micro_s})
    steps.step(metrics_of(12, time_s));
  const StepBeside beside = steps.result().value();
  EXPECT_NEAR(beside.step.measured_s, 105 * micro_s, rounding_s);
  EXPECT_EQ(beside.step.predicted_s, 80 * micro_s);
  EXPECT_EQ(beside.num_steps, 4);
  EXPECT_EQ(beside.last_step, 12);
  EXPECT_TRUE(beside.kinds.empty()) << "one rank, and no timeline: no more is known";
  const std::string words = words_of(beside);
  for (const char* part : {"predicted: 0.080 ms a step on some-machine, 24% less than the 0.105 ms "
                           "measured, the median "
                           "of 4\n",
                           "furthest off: --trace N tells which work\n"})
    EXPECT_NE(words.find(part), std::string::npos) << part << "\n" << words;
}

TEST(StepsBeside, without_a_timeline_ranks_know_what_was_exposed) {
  const PredictedStep predicted = prediction();
  StepsBeside steps(predicted);
  for (std::int64_t step = 1; step <= 4; ++step)
    steps.step(metrics_of(step, 100 * micro_s, 40 * micro_s));
  const StepBeside beside = steps.result().value();
  ASSERT_EQ(beside.kinds.size(), 2U);
  EXPECT_EQ(beside.kinds[0].what, "exposed communication");
  EXPECT_NEAR(beside.kinds[0].predicted_s, 15 * micro_s, rounding_s);
  EXPECT_NEAR(beside.kinds[0].measured_s, 40 * micro_s, rounding_s);
  EXPECT_NEAR(beside.kinds[1].predicted_s, 65 * micro_s, rounding_s);
  EXPECT_NEAR(beside.kinds[1].measured_s, 60 * micro_s, rounding_s);
  const std::string words = words_of(beside);
  EXPECT_NE(words.find("furthest off: predicted for measured: exposed communication 0.015 for "
                       "0.040 ms, all else 0.065 for 0.060 ms; --trace N tells of each kind of "
                       "work\n"),
            std::string::npos)
      << words;
}

TEST(StepsBeside, a_timeline_tells_which_kinds_of_work_are_furthest_off) {
  const PredictedStep predicted = prediction();
  StepsBeside steps(predicted);
  for (std::int64_t step = 1; step <= 3; ++step)
    steps.step(metrics_of(step, 80.1 * micro_s, 40 * micro_s));
  steps.add_timeline(trace::small_timeline());
  const StepBeside beside = steps.result().value();
  EXPECT_EQ(beside.num_traced, 1);
  const std::string words = words_of(beside);
  for (const char* part :
       {"some-machine, as the 0.080 ms measured",
        "furthest off: predicted for measured: gemm 0.020 for 0.040 ms, exposed x 0.035 for 0.015 "
        "ms, "})
    EXPECT_NE(words.find(part), std::string::npos) << part << "\n" << words;
  EXPECT_EQ(words.find("--trace"), std::string::npos) << words;
  const Json json = to_json(beside);
  EXPECT_EQ(json.find("machine")->as_string(), "some-machine");
  EXPECT_EQ(json.find("traced_steps")->as_integer(), 1);
  EXPECT_EQ(json.find("step")->find("predicted_s")->as_double(), 80 * micro_s);
  EXPECT_EQ(json.find("kinds")->items().size(), beside.kinds.size());
  EXPECT_EQ(json.find("worst")->items().at(0).find("what")->as_string(), "contract a -> b");
}

TEST(StepsBeside, says_what_was_predicted_by_analogy_as_a_simulation_does) {
  PredictedStep predicted = prediction();
  const auto beside_of = [&] {
    StepsBeside steps(predicted);
    steps.step(metrics_of(1, 80.1 * micro_s));
    return steps.result().value();
  };
  EXPECT_EQ(words_of(beside_of()).find('~'), std::string::npos);
  const Json measured = to_json(beside_of());
  EXPECT_TRUE(measured.find("by_analogy")->items().empty());
  predicted.by_analogy = {{"convolution", 3e-3}, {"attention", 2e-3}};
  const std::string words = words_of(beside_of());
  EXPECT_NE(words.find("predicted: ~0.080 ms a step"), std::string::npos) << words;
  EXPECT_NE(words.find("by analogy: " + simulate::analogy_text(predicted.by_analogy)),
            std::string::npos)
      << words;
  const Json json = to_json(beside_of());
  const Json& list = *json.find("by_analogy");
  EXPECT_EQ(list.items().at(0).find("op")->as_string(), "convolution");
  EXPECT_EQ(list.items().at(1).find("seconds")->as_double(), 2e-3);
}

TEST(StepsBeside, the_median_of_a_long_run_is_that_of_some_steps_of_all_of_it) {
  const PredictedStep predicted = prediction();
  StepsBeside steps(predicted);
  constexpr std::int64_t count = 100'000;
  for (std::int64_t step = 0; step <= count; ++step)
    steps.step(metrics_of(step, static_cast<double>(step)));
  const StepBeside beside = steps.result().value();
  EXPECT_EQ(beside.num_steps, count);
  // Two thousand and more of them, evenly spread.
  EXPECT_NEAR(beside.step.measured_s, count / 2, count / 1000);
}

/// What is predicted of a job on two ranks, and what is said of it.
std::optional<PredictedStep> predicted_on(const std::string& machine, std::string& said) {
  const std::vector<std::string> sets = {"data.format=synthetic", "model.vocab_size=64",
                                         "run.device=cpu", "parallel.tensor.x=4",
                                         "run.machine=" + machine};
  const job::Job job = job::prepare(job::settle(config::load({}, sets), {}));
  std::FILE* const file = std::tmpfile();
  std::optional<PredictedStep> step;
  {
    screen::Log log(Level::info, {.descriptor = screen::Terminal::none}, file);
    step = predict_step(job, log);
  }
  std::rewind(file);
  said.clear();
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) said += static_cast<char>(c);
  std::fclose(file);
  return step;
}

TEST(PredictStep, is_made_where_a_machine_is_named_that_can_take_the_job) {
  std::string said;
  const auto step = predicted_on("dgx-h100", said);
  ASSERT_TRUE(step.has_value()) << said;
  EXPECT_EQ(said, "");
  EXPECT_EQ(step->machine, "dgx-h100");
  EXPECT_GT(step->exposed_s, 0);
  EXPECT_LT(step->exposed_s, step->step_s);
  ASSERT_EQ(step->timeline.ranks.size(), 1U) << "one rank stands for all";
  EXPECT_NEAR(1e-9 * static_cast<double>(step->timeline.ranks[0].steps[0].whole.duration_ns()),
              step->step_s, 1e-9);
  EXPECT_FALSE(predicted_on("auto", said).has_value());
  EXPECT_EQ(said, "");
  EXPECT_FALSE(predicted_on("workstation", said).has_value());
  EXPECT_NE(said.find("run.machine: no time of a step is predicted: "), std::string::npos) << said;
  EXPECT_NE(said.find("has room for 2 ranks, the job has 4"), std::string::npos) << said;
  EXPECT_THROW(predicted_on("dgx-h10", said), UserError);
}

}  // namespace
}  // namespace fourfold::training_run
