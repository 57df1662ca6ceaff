// A priced step as `fourfold simulate` shows it: beside the machine, and one line of a sweep. The
// costs in it: prediction.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/rows.h"
#include "machine/cluster.h"
#include "simulate/by_analogy.h"
#include "simulate/prediction.h"
#include "simulate/simulate.h"

namespace fourfold::simulate {

/// A step that was simulated, and what its program does not say of it.
struct PricedStep {
  std::string name;  // of the run, or of the file
  std::optional<double> model_flops = std::nullopt, hardware_flops = std::nullopt;  // of all ranks
  std::int64_t items = 0;      // of a step; 0: not known
  std::string_view unit = {};  // of them
  Simulation simulation = {};
  Prediction prediction = {};
  std::vector<ByAnalogy> by_analogy = {};  // what of it nobody measured on the machine
  double elapsed_s = 0;                    // to simulate, from the compiled job on
};

/// Machine, place, time, what most of it is, utilization (of the machine's peak, where it says
/// one), memory.
Rows step_rows(const PricedStep& step, const machine::Cluster& cluster);
/// What the simulation itself took.
Row simulation_row(const PricedStep& step);
/// All numbers; times in seconds, what is not known null.
Json to_json(const PricedStep& step, const machine::Cluster& cluster);

/// The lines of a table of several numbers of ranks: the first one is of the machine.
std::string sweep_header(const machine::Cluster& cluster);
std::string sweep_line(const PricedStep& step, const machine::Cluster& cluster);
/// In place of a line: why so many ranks cannot be, its first line, at most 90 columns of it.
std::string sweep_refusal(std::int64_t ranks, const std::string& why);

}  // namespace fourfold::simulate
