// A simulation of a job beside what its ranks did when they ran: in what its events contradict the
// programs, or the run. Header only.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/format.h"
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

/// The first instruction that takes less than it must, by the price of the computation, or by the
/// payload and the fastest port; empty: none does.
inline std::string too_short(const std::vector<TimedRank>& ranks, const machine::Cluster& cluster) {
  double fastest = 0;
  for (const machine::Level& level : cluster.levels)
    fastest = std::max(fastest, level.port_bytes_per_s);
  for (const auto& [program, times] : ranks)
    for (std::size_t i = 0; i < times.size(); ++i) {
      const program::Instruction& instruction = program.instructions[i];
      double least_s = 0;
      std::visit(
          [&]<class Kind>(const Kind& what) {
            if constexpr (program::Collective<Kind>) {
              const auto n = static_cast<double>(program.groups[what.group.index()].members.size());
              double bytes = 0;
              program::for_each_tensor(what, [&](const auto& from, const auto& to) {
                bytes += static_cast<double>(std::max(from.bytes(), to.bytes()));
              });
              least_s = (n - 1) / n * bytes / fastest;
            } else if constexpr (std::is_same_v<Kind, program::Send>) {
              least_s = static_cast<double>(what.from.bytes()) / fastest;
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

}  // namespace fourfold::test
