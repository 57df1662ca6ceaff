#include "train/evaluate.h"

#include <gtest/gtest.h>

#include "unit/train/scripted_backend.h"

namespace fourfold::train {
namespace {

using Batches = std::vector<std::int64_t>;

TEST(SpreadBatches, they_lie_evenly_over_the_split) {
  EXPECT_EQ(spread_batches(10, 5), (Batches{0, 2, 4, 6, 8}));
  EXPECT_EQ(spread_batches(10, 3), (Batches{0, 3, 6}));
  EXPECT_EQ(spread_batches(10, 1), (Batches{0}));
}

TEST(SpreadBatches, all_are_taken_when_none_is_wanted_or_there_are_fewer) {
  EXPECT_EQ(spread_batches(3, std::nullopt), (Batches{0, 1, 2}));
  EXPECT_EQ(spread_batches(3, 20), (Batches{0, 1, 2}));
}

TEST(Evaluate, the_whole_split_has_every_label_once_and_the_mean_is_over_labels) {
  // Token losses are 1 in the first batch and 4 in all others: a mean of means would be wrong, as
  // the last batch is not full.
  ScriptedBackend backend([&](const ScriptedBackend::Call& call) {
    op::ResultBlock result;
    result.valid_count = call.labels;
    result.loss_sum = static_cast<double>(call.labels) * (backend.calls.size() == 1 ? 1 : 4);
    return result;
  });
  const program::Bundle bundle = training_bundle();
  run::Executor executor(bundle, backend);
  const data::TokenSource dataset(synthetic_data());
  const auto labels = dataset.num_validation() - 1;
  ASSERT_NE(labels % 64, 0) << "the last batch is not full";

  const Evaluation evaluation =
      *evaluate(executor, dataset, {.batch_samples = 4, .batches = {}, .compared = 1});
  EXPECT_EQ(evaluation.items, labels);
  EXPECT_DOUBLE_EQ(evaluation.loss,
                   (64.0 + 4 * static_cast<double>(labels - 64)) / static_cast<double>(labels));
  EXPECT_EQ(backend.count(op::ProgramKind::evaluate), (labels + 63) / 64);
  EXPECT_EQ(evaluation.compared_items, 64);
  EXPECT_EQ(evaluation.compared_loss, 1);
}

TEST(Evaluate, a_few_batches_take_as_many_runs) {
  ScriptedBackend backend([](const ScriptedBackend::Call& call) {
    op::ResultBlock result;
    result.valid_count = call.labels;
    return result;
  });
  const program::Bundle bundle = training_bundle();
  run::Executor executor(bundle, backend);
  const data::TokenSource dataset(synthetic_data());
  EXPECT_EQ(evaluate(executor, dataset, {.batch_samples = 4, .batches = 3, .compared = 3})->items,
            3 * 64);
  EXPECT_EQ(backend.count(op::ProgramKind::evaluate), 3);
}

TEST(Evaluate, a_stop_between_two_runs_leaves_the_rest_and_tells_nothing) {
  ScriptedBackend backend([](const ScriptedBackend::Call& call) {
    op::ResultBlock result;
    result.valid_count = call.labels;
    return result;
  });
  const program::Bundle bundle = training_bundle();
  run::Executor executor(bundle, backend);
  const data::TokenSource dataset(synthetic_data());
  int asked = 0;
  const auto evaluation =
      evaluate(executor, dataset, {.batch_samples = 4, .batches = 3, .compared = 3},
               [&] { return ++asked == 2; });
  EXPECT_FALSE(evaluation.has_value());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(backend.count(op::ProgramKind::evaluate), 1);
}

/// Runs of four samples, as the grid has it.
TEST(Evaluate, a_batch_has_the_samples_of_the_configuration_whatever_a_run_takes) {
  for (const std::int64_t of_batch : {1, 3, 4, 6, 8}) {
    std::vector<std::int64_t> first;
    ScriptedBackend backend([&](const ScriptedBackend::Call& call) {
      first.push_back(call.step.first_sample);
      op::ResultBlock result;
      result.valid_count = call.labels;
      return result;
    });
    const program::Bundle bundle = training_bundle();
    run::Executor executor(bundle, backend);
    const data::TokenSource dataset(synthetic_data());
    const Evaluation evaluation =
        *evaluate(executor, dataset, {.batch_samples = of_batch, .batches = 2, .compared = 1});
    EXPECT_EQ(evaluation.items, 2 * of_batch * 16);
    EXPECT_EQ(evaluation.compared_items, of_batch * 16);
    const std::int64_t batches = (dataset.validation_samples() + of_batch - 1) / of_batch;
    std::vector<std::int64_t> expected;
    for (const std::int64_t batch : {std::int64_t{0}, batches / 2})
      for (std::int64_t run = 0; run < of_batch; run += 4)
        expected.push_back(batch * of_batch + run);
    EXPECT_EQ(first, expected) << of_batch;
  }
}

TEST(Evaluate, accuracy_is_told_where_the_program_counts_what_was_right) {
  ScriptedBackend backend([](const ScriptedBackend::Call& call) {
    op::ResultBlock result;
    result.valid_count = call.labels;
    result.correct_count = call.labels / 4;
    return result;
  });
  program::Bundle bundle = training_bundle();
  const data::TokenSource dataset(synthetic_data());
  {
    run::Executor executor(bundle, backend);
    EXPECT_FALSE(evaluate(executor, dataset, {.batch_samples = 4, .batches = 3, .compared = 3})
                     ->accuracy.has_value());
  }
  program::Program& program = bundle.programs.back();
  ASSERT_EQ(program.kind, op::ProgramKind::evaluate);
  const auto result = *program.find_buffer("result");
  program.instructions.push_back(
      {program::StreamId(0),
       program::Compute{.op = op::Fill{0, {}},
                        .dtype = DType::i64,
                        .slices = {run::Handmade::field(result, op::correct_count_field)},
                        .workspace = std::nullopt,
                        .implementation = {}}});
  run::Executor executor(bundle, backend);
  EXPECT_EQ(
      evaluate(executor, dataset, {.batch_samples = 4, .batches = 3, .compared = 3})->accuracy,
      0.25);
}

}  // namespace
}  // namespace fourfold::train
