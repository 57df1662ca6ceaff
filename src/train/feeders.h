// Feeders hand the samples of a source to a running program. They hold no data of their own.
#pragma once

#include <cstdint>
#include <span>

#include "data/source.h"
#include "run/backend.h"

namespace fourfold::train {

/// Training samples.
class TrainFeeder : public run::Feeder {
 public:
  /// The source must outlive the feeder.
  explicit TrainFeeder(const data::Source& source) : source_(source) {}
  bool feeds_ahead() const override { return true; }
  void feed(const Input& input, const run::Samples& samples, std::span<std::byte> into) override;

 private:
  const data::Source& source_;
};

/// Validation samples, in order. Those beyond the end of the split, or of the range that is set,
/// have no labels.
class ValidationFeeder : public run::Feeder {
 public:
  explicit ValidationFeeder(const data::Source& source) : source_(source) {}
  /// Which validation sample is sample 0 of the next run, and before which one it ends; set between
  /// runs.
  void set_range(std::int64_t first, std::int64_t end = INT64_MAX) {
    first_ = first;
    end_ = end;
  }
  void feed(const Input& input, const run::Samples& samples, std::span<std::byte> into) override;

 private:
  const data::Source& source_;
  std::int64_t first_ = 0, end_ = INT64_MAX;
};

}  // namespace fourfold::train
