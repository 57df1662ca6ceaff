// Everything a run is told, as each room's own small spec. Filled by load(); only cli/ reads it
// whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/data_spec.h"
#include "generate/sample_spec.h"
#include "graph/optimizer_spec.h"
#include "model/gpt_spec.h"
#include "plan/plan_spec.h"
#include "train/train_spec.h"

namespace fourfold::config {

struct Config {
  std::string name;
  std::string dir;
  std::uint64_t seed = 1;
  int threads = 0;               // of the CPU kernels; 0: all cores this process may use
  std::string kernels = "auto";  // "auto" or "reference"
  model::GptSpec model;          // vocab_size 0: the tokenizer's, which cli/ knows
  plan::PlanSpec plan;
  data::DataSpec data;
  graph::AdamWSpec optimizer;
  train::TrainSpec train;
  generate::SampleSpec sample;
  bool operator==(const Config&) const = default;
};

/// Copies what several rooms need (seed, sequence length, synthetic vocabulary, run name and
/// folder) from where the schema stores it to the other specs. load() has done it; call it again
/// after changing such a value in code.
void share_values(Config& config);

/// Reads the files from left to right (a later value wins), then the "key.path=value" texts of
/// --set, whose values are YAML. No file and no set gives the defaults, if they are consistent.
/// Errors: one UserError(bad_config) with every problem of every file and --set, each with its
/// place and what to do.
Config load(std::span<const std::string> files, std::span<const std::string> sets);

/// The whole configuration as YAML, every key explicit. Loading it gives the same Config.
std::string resolved_yaml(const Config& config);

}  // namespace fourfold::config
