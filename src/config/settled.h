// A configuration whose model, grid and batch are known: what data, ranks and planner say stands in
// it. Not how that is found out (job/settle.h), nor what the machine adds (job/job.h).
#pragma once

#include <string>

#include "config/config.h"

namespace fourfold::config {

/// What a run is: each room's spec with every value known. It is settled once and never changes.
class Settled {
 public:
  /// Takes a configuration whose model needs no data, whose grid is stated and divides its batch.
  /// Errors: InternalError where something is open.
  explicit Settled(Config config);

  model::Spec model() const { return config_.model(); }
  plan::PlanSpec plan() const { return config_.plan_spec(); }
  data::DataSpec data() const { return config_.data_spec(); }
  train::TrainSpec train() const { return config_.train_spec(); }
  generate::SampleSpec sample() const { return config_.sample_spec(); }
  const graph::OptimizerSpec& optimizer() const { return config_.optimizer; }
  const std::string& dir() const { return config_.dir; }
  /// As the run's folder keeps it, with the places where its values were given.
  const Config& config() const { return config_; }

 private:
  Config config_;
};

}  // namespace fourfold::config
