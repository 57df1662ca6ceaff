#include "train/evaluate.h"

#include <algorithm>
#include <chrono>

#include "train/feeders.h"

namespace fourfold::train {

std::int64_t validation_batches(const program::Program& evaluate, const data::Dataset& dataset) {
  const program::Feeds& feeds = evaluate.feeds;
  const std::int64_t windows = dataset.validation_windows(feeds.length);
  const std::int64_t per_batch = feeds.micros * feeds.samples;
  return (windows + per_batch - 1) / per_batch;
}

std::vector<std::int64_t> spread_batches(std::int64_t total, std::optional<std::int64_t> wanted) {
  const std::int64_t count = std::min(total, wanted.value_or(total));
  std::vector<std::int64_t> batches;
  for (std::int64_t i = 0; i < count; ++i) batches.push_back(i * total / count);
  return batches;
}

Evaluation evaluate(run::Executor& executor, const data::Dataset& dataset,
                    std::optional<std::int64_t> batches) {
  const auto begin = std::chrono::steady_clock::now();
  ValidationFeeder feeder(dataset);
  double loss_sum = 0;
  std::int64_t tokens = 0;
  for (const std::int64_t batch :
       spread_batches(validation_batches(executor.bundle().at("evaluate"), dataset), batches)) {
    feeder.set_batch(batch);
    const op::ResultBlock result = executor.run("evaluate", {}, &feeder);
    loss_sum += result.loss_sum;
    tokens += result.token_count;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return {loss_sum / static_cast<double>(tokens), tokens, elapsed.count()};
}

}  // namespace fourfold::train
