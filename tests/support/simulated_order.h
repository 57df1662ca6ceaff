// A simulation of a job beside what its ranks did when they ran: in what its events contradict the
// programs, or the run. Header only.
//
// Every test that runs a compiled job on rank threads asks for this (grid_run.h, session_run.h), of
// one step.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/format.h"
#include "base/mesh.h"
#include "machine/cluster.h"
#include "program/job.h"
#include "simulate/simulate.h"
#include "simulate/tracks.h"
#include "support/order_of_events.h"
#include "trace/recorder.h"

namespace fourfold::test {

/// Hosts of so many devices, slow enough that much is exposed and much is hidden.
inline machine::Cluster slow_cluster(std::int64_t devices_of_host = 4, std::int64_t hosts = 16) {
  machine::Cluster cluster;
  cluster.name = "slow";
  cluster.device.name = "device";
  cluster.device.memory_bytes_per_s = 1e10;
  cluster.device.rates = {{DType::f64, 1e10, {}}, {DType::f32, 2e10, {}}, {DType::bf16, 4e10, {}}};
  cluster.device.instruction_s = 1e-6;
  cluster.device.slowdown_beside_communication = 1.2;
  machine::Level host, network;
  host.name = "host";
  host.units = devices_of_host;
  host.latency_s = 1e-6;
  host.link_bytes_per_s = 1e10;
  host.port_bytes_per_s = 2e10;
  network = host;
  network.name = "network";
  network.units = hosts;
  network.latency_s = 1e-5;
  network.link_bytes_per_s = network.port_bytes_per_s = 1e9;
  cluster.levels = {host, network};
  return cluster;
}

/// Simulated times beside the programs of the job as it is; `program` is a place in each bundle.
inline std::vector<TimedRank> timed(const program::Job& job, std::size_t program,
                                    const simulate::Simulation& simulation) {
  std::vector<TimedRank> ranks;
  for (const simulate::SimulatedRank& rank : simulation.ranks) {
    TimedRank& of = ranks.emplace_back();
    of.program = program::bundle_of(job, Rank(rank.rank)).programs[program];
    for (const simulate::Times& times : rank.times)
      of.times.push_back({times.begin_s, times.end_s});
  }
  return ranks;
}

/// The same of a run of each rank.
inline std::vector<TimedRank> timed(const program::Job& job, std::size_t program,
                                    const std::vector<trace::RecordedRun>& runs) {
  std::vector<TimedRank> ranks;
  for (std::size_t rank = 0; rank < runs.size(); ++rank) {
    TimedRank& of = ranks.emplace_back();
    of.program = program::bundle_of(job, Rank(rank)).programs[program];
    for (const trace::Interval& when : runs[rank].instructions)
      of.times.push_back(
          {1e-9 * static_cast<double>(when.begin_ns), 1e-9 * static_cast<double>(when.end_ns)});
  }
  return ranks;
}

/// Seconds that so many bytes take at least from each to each of some ranks, or between two: each
/// unit of each level needs what the members outside it have, through its port.
inline double least_exchange_s(const machine::Cluster& cluster, const Ranks& members,
                               double bytes) {
  double least_s = 0;
  for (std::size_t level = 0; level < cluster.levels.size(); ++level) {
    std::map<std::int64_t, std::size_t> of_unit;  // so many members
    for (const Rank rank : members)
      ++of_unit[static_cast<std::int64_t>(rank.index()) / cluster.ranks_per_device /
                cluster.devices_below(level)];
    for (const auto& [unit, count] : of_unit)
      least_s = std::max(least_s, static_cast<double>(members.size() - count) /
                                      static_cast<double>(members.size()) * bytes /
                                      std::max(cluster.levels[level].port_bytes_per_s,
                                               cluster.levels[level].group_bytes_per_s));
  }
  return least_s;
}

/// The first instruction that takes less than it must, by the price of the computation, or by the
/// payload and the ports on its way; empty: none does. Requires a cluster without measured groups.
inline std::string too_short(const std::vector<TimedRank>& ranks, const machine::Cluster& cluster) {
  for (const auto& [program, times] : ranks)
    for (std::size_t i = 0; i < times.size(); ++i) {
      const program::Instruction& instruction = program.instructions[i];
      double least_s = 0;
      std::visit(
          [&]<class Kind>(const Kind& what) {
            if constexpr (program::AnyCollective<Kind>) {
              double bytes = 0;
              program::for_each_tensor(what, [&](const auto& from, const auto& to) {
                bytes += static_cast<double>(std::max(from.bytes(), to.bytes()));
              });
              least_s =
                  least_exchange_s(cluster, program.groups[what.group.index()].members, bytes);
            } else if constexpr (std::is_same_v<Kind, program::Send>) {
              // Both ends count as members, and each has half of what they have together.
              least_s = least_exchange_s(cluster, {program.rank, what.peer},
                                         2 * static_cast<double>(what.from.bytes()));
            } else if constexpr (std::is_same_v<Kind, program::Compute>) {
              least_s = simulate::compute_s(cluster, program, what);
            }
          },
          static_cast<const program::AnyKind&>(instruction.what));
      if (times[i].end_s - times[i].begin_s < least_s * (1 - 1e-9))
        return format("rank {}: instruction {} ({}) takes less than it must", program.rank.index(),
                      i, program::short_text(program, instruction));
    }
  return {};
}

/// In words, how the simulation of a job contradicts its programs or a run of it, at most some of
/// it; nothing where both have the same order of events on each stream, keep what the programs
/// demand, and the simulation prices everything.
inline std::vector<std::string> contradictions(const std::vector<TimedRank>& measured,
                                               const std::vector<TimedRank>& simulated,
                                               const machine::Cluster& cluster) {
  // Simulated times are sums that differ by rounding; nanoseconds were counted from the start of
  // the machine, and as seconds they are rounded.
  std::vector<std::string> list = faults_of_order(simulated, 1e-12);
  for (const std::string& fault : faults_of_order(measured, 1e-9)) list.push_back("run: " + fault);
  if (std::string fault = too_short(simulated, cluster); !fault.empty())
    list.push_back(std::move(fault));
  if (measured.size() != simulated.size()) {
    list.push_back(format("{} ranks ran, {} were simulated", measured.size(), simulated.size()));
    return list;
  }
  for (std::size_t rank = 0; rank < measured.size(); ++rank)
    if (order_of_streams(simulated[rank]) != order_of_streams(measured[rank]))
      list.push_back(format("rank {}: a stream has another order than in the run", rank));
  return list;
}

/// Where each rank of a job writes down one step; made before any rank begins.
class StepRecorders {
 public:
  static constexpr op::ProgramKind recorded = op::ProgramKind::train;

  explicit StepRecorders(const program::Job& job) {
    for (const program::Binding& binding : job.ranks)
      recorders_.emplace_back(recorded,
                              job.classes[binding.of_class].at(recorded).instructions.size(), 0, 1);
  }
  /// Ranks may ask at the same time, each for its own.
  trace::Recorder& operator[](std::size_t rank) { return recorders_[rank]; }
  /// By rank; nothing where a rank has ended no step.
  std::vector<trace::RecordedRun> runs() const {
    std::vector<trace::RecordedRun> list;
    for (const trace::Recorder& recorder : recorders_) {
      if (recorder.runs().empty()) return {};
      list.push_back(recorder.runs().front());
    }
    return list;
  }

 private:
  std::vector<trace::Recorder> recorders_;
};

/// How the simulation of a job on a slow cluster contradicts a step of it that ran; `runs` by rank.
inline std::vector<std::string> contradictions(const program::Job& job,
                                               const std::vector<trace::RecordedRun>& runs) {
  const machine::Cluster cluster = slow_cluster();
  const auto is_step = [](const program::Program& one) {
    return one.kind == StepRecorders::recorded;
  };
  const auto& programs = job.classes[0].programs;
  const auto place =
      static_cast<std::size_t>(std::ranges::find_if(programs, is_step) - programs.begin());
  return contradictions(
      timed(job, place, runs),
      timed(job, place,
            simulate::simulate(job, StepRecorders::recorded, cluster, simulate::Follow::all_ranks)),
      cluster);
}

/// A failure for each contradiction, and where no step was recorded.
inline void expect_like_simulated(const program::Job& job,
                                  const std::vector<trace::RecordedRun>& runs) {
  if (runs.empty()) {
    ADD_FAILURE() << "no whole step of the job ran on all ranks, which its simulation could be "
                     "compared with; run one, or say why there is none";
    return;
  }
  for (const std::string& text : contradictions(job, runs))
    ADD_FAILURE() << "the simulation of the job: " << text;
}

}  // namespace fourfold::test
