#include "train/evaluate.h"

#include <algorithm>
#include <chrono>

#include "train/feeders.h"

namespace fourfold::train {

std::int64_t validation_batches(const program::Program& evaluate, const data::Source& source) {
  const std::int64_t in_batch = evaluate.feeds.micros * evaluate.feeds.samples;
  return (source.validation_samples() + in_batch - 1) / in_batch;
}

std::vector<std::int64_t> spread_batches(std::int64_t total, std::optional<std::int64_t> wanted) {
  const std::int64_t count = std::min(total, wanted.value_or(total));
  std::vector<std::int64_t> batches;
  for (std::int64_t i = 0; i < count; ++i) batches.push_back(i * total / count);
  return batches;
}

namespace {

/// True if the program says how many labels were right.
bool counts_correct(const program::Program& evaluate) {
  const op::BlockField field = *op::find_block_field(op::correct_count_field);
  const auto writes_it = [&](const program::Instruction& instruction) {
    for (const program::Access& access : program::accesses(instruction))
      if (access.role != op::Role::read &&
          evaluate.buffer(access.slice.buffer).role == program::BufferRole::result_block &&
          access.slice.offset_bytes == static_cast<std::int64_t>(field.offset_bytes))
        return true;
    return false;
  };
  return std::ranges::any_of(evaluate.instructions, writes_it);
}

/// True if the program reads moving averages in the place of weights.
bool reads_averages(const program::Program& evaluate) {
  return std::ranges::any_of(evaluate.instructions, [&](const program::Instruction& instruction) {
    return std::ranges::any_of(program::accesses(instruction), [&](const program::Access& access) {
      const program::Buffer& buffer = evaluate.buffer(access.slice.buffer);
      return buffer.role == program::BufferRole::average &&
             !program::averaged_name(buffer.name).empty();
    });
  });
}

}  // namespace

std::optional<Evaluation> evaluate(run::Executor& executor, const data::Source& source,
                                   EvaluationSize size, const std::function<bool()>& must_end) {
  const auto begin = std::chrono::steady_clock::now();
  ValidationFeeder feeder(source);
  const program::Program& program = executor.bundle().at(op::ProgramKind::evaluate);
  const std::int64_t in_run = program.feeds.micros * program.feeds.samples;
  const std::int64_t samples = source.validation_samples();
  const std::int64_t total = (samples + size.batch_samples - 1) / size.batch_samples;
  const std::vector<std::int64_t> compared = spread_batches(total, size.compared);
  double loss_sum = 0, compared_sum = 0;
  std::int64_t items = 0, compared_items = 0, correct = 0;
  for (const std::int64_t batch : spread_batches(total, size.batches)) {
    const bool is_compared = std::ranges::binary_search(compared, batch);
    const std::int64_t begin_of_batch = batch * size.batch_samples;
    const std::int64_t end = std::min(begin_of_batch + size.batch_samples, samples);
    for (std::int64_t first = begin_of_batch; first < end; first += in_run) {
      if (must_end && must_end()) return std::nullopt;
      feeder.set_range(first, end);
      // What is drawn for a sample is the same in every evaluation, and on every grid.
      const op::ResultBlock result =
          executor.run(op::ProgramKind::evaluate, {.first_sample = first}, &feeder);
      loss_sum += result.loss_sum;
      items += result.valid_count;
      correct += result.correct_count;
      if (!is_compared) continue;
      compared_sum += result.loss_sum;
      compared_items += result.valid_count;
    }
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const auto per_item = [&](double sum) { return sum / static_cast<double>(items); };
  Evaluation evaluation{per_item(loss_sum), items, elapsed.count(),
                        compared_sum / static_cast<double>(compared_items), compared_items};
  evaluation.is_of_averages = reads_averages(program);
  if (counts_correct(program)) evaluation.accuracy = per_item(static_cast<double>(correct));
  return evaluation;
}

}  // namespace fourfold::train
