// Hands a dataset's samples to a running program. They hold no tokens of their own.
#pragma once

#include <cstdint>
#include <span>

#include "data/dataset.h"
#include "run/backend.h"

namespace fourfold::train {

/// Training samples: local sample b of micro-batch m is sample m * samples + first + b of the step.
class TrainFeeder : public run::Feeder {
 public:
  /// The dataset must outlive the feeder.
  explicit TrainFeeder(const data::Dataset& dataset) : dataset_(dataset) {}
  bool feeds_ahead() const override { return true; }
  void feed(program::FeedKind kind, const program::Feeds& feeds, std::int64_t step,
            std::int64_t micro, std::span<std::int32_t> ids) override;

 private:
  const data::Dataset& dataset_;
};

/// Validation windows, in order; a batch is what one run of the program takes over all ranks.
/// Windows beyond the end of the split have no labels.
class ValidationFeeder : public run::Feeder {
 public:
  explicit ValidationFeeder(const data::Dataset& dataset) : dataset_(dataset) {}
  /// Between runs.
  void set_batch(std::int64_t batch) { batch_ = batch; }
  void feed(program::FeedKind kind, const program::Feeds& feeds, std::int64_t step,
            std::int64_t micro, std::span<std::int32_t> ids) override;

 private:
  const data::Dataset& dataset_;
  std::int64_t batch_ = 0;
};

}  // namespace fourfold::train
