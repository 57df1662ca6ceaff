// What a simulation says of a step, in a few numbers: for people and for whoever compares plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulate/simulate.h"
#include "trace/summary.h"

namespace fourfold::simulate {

/// What the math stream of a rank spends time on, mean over the ranks of the job.
struct Cost {
  /// "gemm", "z.weights" of an exposed exchange, "gradients alone" where the stream of gradients
  /// computes and math does not, "other waits".
  std::string what;
  bool is_exposed = false;
  double seconds = 0;
};

struct Prediction {
  double step_s = 0;
  double compute_s = 0;     // a rank computes; mean over ranks, as all below
  double exposed_s = 0;     // it stands still for exchanges, of all classes of traffic together
  std::vector<Cost> costs;  // longest first; together they are the step
  std::vector<trace::Traffic> traffic;  // by name
  /// What all ranks compute in products and attention, counted in the program; and the type in
  /// which most of it is computed.
  double flops = 0;
  DType dtype = DType::f32;
  std::int64_t peak_bytes = 0;  // both regions of the rank that has most
};

/// Requires the job that was simulated. Cost: linear in the instructions that were followed.
Prediction predict(const program::Job& job, const Simulation& simulation);

/// What a device does at best in a type, times the devices that so many ranks have; none where the
/// machine says nothing of the type.
std::optional<double> peak_flops_per_s(const machine::Cluster& cluster, DType dtype,
                                       std::int64_t ranks);

/// Where a job of so many ranks lies: "1,024 of 6,144 devices: 4 nvlink x 256 slingshot".
std::string place_text(const machine::Cluster& cluster, std::int64_t ranks);
/// The unit of the first level that has a rank, in place of a host's name: "nvlink 12"; of a
/// cluster with fewer than two levels "device 3".
std::string host_text(const machine::Cluster& cluster, Rank rank);

/// Tables for people, at most 100 columns wide: the costs, and each class of traffic.
std::string to_text(const Prediction& prediction);
/// All numbers; times in seconds.
Json to_json(const Prediction& prediction);

}  // namespace fourfold::simulate
