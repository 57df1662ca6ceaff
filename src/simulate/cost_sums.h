// What ranks spend their time on, added up over ranks and over stretches of a step: the costs of a
// prediction (prediction.h), and what it computes and keeps. Not when a step ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "simulate/prediction.h"

namespace fourfold::simulate {

class CostSums {
 public:
  /// The job that was simulated. Both must outlive this.
  CostSums(const program::Job& job, const Simulation& simulation)
      : job_(job), simulation_(simulation) {}

  /// What a rank that was followed does in that time, so many times over; for each rank that it
  /// stands for. Works that the time cuts count with what lies in it. Cost: linear in them.
  void add(const SimulatedRank& rank, trace::Interval when, double times);

  /// Means over the ranks of the job: costs and traffic, the longest first, and their sums.
  Prediction result() &&;

 private:
  void add(const trace::RankSummary& rank, double share);

  const program::Job& job_;
  const Simulation& simulation_;
  std::map<std::uint32_t, trace::RankTimeline> of_class_;  // what its ranks do, but not when
  std::map<std::pair<bool, std::string>, double> costs_;
  std::map<std::string, trace::Traffic> traffic_;
  Prediction prediction_;
};

/// Operations of products and attention; 0 for any other instruction.
double counted_flops(const program::Program& program, const program::Instruction& instruction);

/// What the program that was simulated computes, in which type, and what its ranks keep.
void add_work(const program::Job& job, const Simulation& simulation, Prediction& prediction);

}  // namespace fourfold::simulate
