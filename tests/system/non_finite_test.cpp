// A NaN anywhere changes no weight, and is named.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/token_source.h"
#include "run/find_non_finite.h"
#include "support/small_run.h"
#include "train/session.h"

namespace fourfold {
namespace {

using test::RunSetup;
using test::SmallRun;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The index of the first instruction of that name in the train program, counted `skip` times
/// further.
std::size_t find_instruction(const SmallRun& run, std::string_view name, std::size_t skip = 0) {
  const auto& list = run.train_program().instructions;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (program::name(list[i]) == name && skip-- == 0) return i;
  throw InternalError("there is such an instruction");
}

/// Runs one clean step, then one with a fault; weights must be those of the clean step, and the
/// finder must name it.
void expect_no_change(SmallRun& run, const RunSetup& setup, const std::string& buffer) {
  test::FixedFeeder feeder = test::random_batch(setup);
  const auto before = run.state();
  const auto result = run.step(feeder, 1);
  EXPECT_EQ(result.applied, 0) << buffer;
  EXPECT_EQ(run.state(), before) << buffer;
  const auto found = run::find_non_finite(run.executor(), op::ProgramKind::train,
                                          SmallRun::block(1, 1e-2, 1), &feeder);
  ASSERT_TRUE(found.has_value()) << buffer;
  EXPECT_EQ(found->buffer, buffer);
  EXPECT_EQ(run.state(), before) << buffer;
}

TEST(NonFinite, injected_behind_any_forward_or_backward_op_changes_no_weight_and_is_named) {
  const RunSetup setup;
  const auto program = SmallRun::compile_bundle(setup).at(op::ProgramKind::train);
  std::size_t tried = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* compute = std::get_if<program::Compute>(&program.instructions[i].what);
    if (compute == nullptr || i >= program.tasks.back().begin) continue;
    SmallRun run(setup);
    run.init(true);
    test::FixedFeeder feeder = test::random_batch(setup);
    EXPECT_EQ(run.step(feeder, 0).applied, 1);
    run.backend().inject({op::ProgramKind::train, i, 0, 0});
    const auto before = run.state();
    const auto result = run.step(feeder, 1);
    EXPECT_EQ(result.applied, 0) << i;
    EXPECT_EQ(run.state(), before) << i;
    const auto found = run::find_non_finite(run.executor(), op::ProgramKind::train,
                                            SmallRun::block(1, 1e-2, 1), &feeder);
    ASSERT_TRUE(found.has_value()) << i;
    EXPECT_EQ(found->instruction, i);
    ++tried;
  }
  EXPECT_GT(tried, 100U);
}

TEST(NonFinite, in_a_weight_changes_no_weight_and_is_named) {
  const RunSetup setup;
  SmallRun run(setup);
  run.init(true);
  auto values = run.doubles("blocks.1.mlp.up.weight");
  values[5] = nan;
  run.set_doubles(run.buffer("blocks.1.mlp.up.weight"), values);
  expect_no_change(run, setup, "blocks.1.mlp.up.weight");
}

/// The update that meets it writes all weights but one; the step after it changes none.
TEST(NonFinite, in_optimizer_state_makes_no_weight_non_finite_and_is_named) {
  const RunSetup setup;
  for (const std::string name : {"m/wte.weight", "v/ln_f.gain"}) {
    SmallRun run(setup);
    run.init(true);
    auto values = run.doubles(name);
    values[3] = std::numeric_limits<double>::infinity();
    run.set_doubles(run.buffer(name), values);
    const std::string weight = name.substr(2);
    const std::vector<double> before = run.doubles(weight);
    test::FixedFeeder feeder = test::random_batch(setup);
    const op::ResultBlock result = run.step(feeder, 0);
    EXPECT_EQ(result.applied, 1) << name;
    EXPECT_EQ(result.non_finite, 1) << name;
    const std::vector<double> after = run.doubles(weight);
    EXPECT_EQ(after[3], before[3]) << name;
    EXPECT_NE(after[2], before[2]) << name;
    for (const double value : after) EXPECT_TRUE(std::isfinite(value)) << name;
    expect_no_change(run, setup, name);
  }
}

TEST(NonFinite, in_the_norm_of_the_gradient_changes_no_weight) {
  const RunSetup setup;
  SmallRun run(setup);
  run.init(true);
  test::FixedFeeder feeder = test::random_batch(setup);
  const auto before = run.state();
  run.backend().inject({op::ProgramKind::train, find_instruction(run, "squared_norm"), 0, 0});
  EXPECT_EQ(run.step(feeder, 0).applied, 0);
  EXPECT_EQ(run.state(), before);
}

TEST(NonFinite, a_learning_rate_that_is_no_number_changes_no_weight_and_is_named) {
  const RunSetup setup;
  SmallRun run(setup);
  run.init(true);
  test::FixedFeeder feeder = test::random_batch(setup);
  const auto before = run.state();
  EXPECT_EQ(run.step(feeder, 0, nan).applied, 0);
  EXPECT_EQ(run.state(), before);
  const auto found = run::find_non_finite(run.executor(), op::ProgramKind::train,
                                          SmallRun::block(0, nan, 1), &feeder);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->buffer, "step.lr");
}

TEST(NonFinite, the_session_stops_with_exit_code_7_and_names_step_and_tensor) {
  const RunSetup setup;
  SmallRun run(setup);
  data::DataSpec data;
  data.format = data::Format::synthetic;
  data.seq_length = 6;
  data.vocab_size = 11;
  const data::TokenSource dataset(data);
  run.backend().inject({op::ProgramKind::train, find_instruction(run, "add_bias&gelu", 1), 1, 0});
  train::TrainSpec spec;
  spec.steps = 3;
  train::RunFacts facts;
  facts.items_per_step = 24;
  try {
    train::train(spec, facts, run.executor(), dataset, {});
    FAIL() << "the run goes on";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::numeric_stop);
    EXPECT_NE(std::string(error.what()).find("blocks.1.mlp.gelu"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("step 1"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fourfold
