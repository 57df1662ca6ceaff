// What a transformer's layers cost by ATP's model (Cheng et al. 2023, arXiv:2301.08658, equations 2
// to 4), in closed form, and which mesh it chooses. The rates of a mesh are machine/'s
// (mesh_bandwidth.h), which reads equation 3 so that groups share what they meet in.
//
// DeviceMesh(d1, d2) has rows of d2 consecutive ranks; ATP-i on N ranks is (N / i, i).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "machine/mesh_bandwidth.h"

namespace fourfold::search {

/// How attention's core is shared out over the second dim. ATP prints 14 h: it all-reduces queries,
/// keys and values, scatters them, and gathers what the core gives, 2 h more in forward and
/// backward pass together. Ours reduce-scatters instead, 12 h, as AxoNN's equations have it.
enum class AtpCore : std::uint8_t { all_reduced, reduce_scattered };

/// What is all-reduced in a layer for each token, forward and backward, in elements: along the
/// second dim what one rank of d1 holds, along the first what one of d2 holds.
struct AtpElements {
  double second = 0;  // 14 h / d1, or 12 h / d1
  double first = 0;   // 4 h / d2
};
AtpElements atp_elements(double d1, double d2, double hidden, AtpCore core);

/// A step's activations.
struct AtpModel {
  double layers = 1, batch = 1, length = 1, hidden = 1;
  double element_bytes = 2;
};

/// Equation 2: seconds of a step's all-reduces, at the rates B1 and B2 (bytes of a tensor by the
/// time of its all-reduce; infinite along a dim of one rank).
double atp_seconds(const AtpModel& model, double d1, double d2, const machine::AtpBandwidths& rates,
                   AtpCore core);
/// The same on meshes whose groups all have the rate `group` (IC5 and IC6):
///   2 L b s h / GroupBW (14 d2 + 4 d1 - 18) / (d1 d2).
double atp_seconds_at_one_rate(const AtpModel& model, double d1, double d2, double group);
/// Megatron's: 4 L b s h / B, as DeviceMesh(N, 1) has it.
double megatron_seconds(const AtpModel& model, double all_reduce_rate);

/// Equation 2 with the starts of its messages, which ATP leaves out: by Rabenseifner's algorithm,
/// whose cost it takes, 2 log2 d in each of the four all-reduces of a layer along a dim of d ranks,
/// and log2 d in each of two gathers of the core along the second. Few tokens of a small model lose
/// by them what large ones gain.
double atp_seconds_with_latency(const AtpModel& model, double d1, double d2,
                                const machine::AtpBandwidths& rates, AtpCore core,
                                double latency_s);

/// All meshes of so many ranks, ATP-1 first: n + 1 of 2^n ranks.
std::vector<std::pair<std::int64_t, std::int64_t>> atp_meshes(std::int64_t ranks);
/// The i of the ATP-i of least time on the first `ranks` of a cluster; of equal ones the smallest.
/// Where the cluster has measured all-reduces of all dims of some mesh, only such meshes count, as
/// ATP does on IC1: what follows from links and what was measured there are no equals.
std::int64_t best_atp(const machine::Cluster& cluster, std::int64_t ranks, AtpCore core);
/// The d2 at which equation 2 is least on one level, were it no whole number: sqrt(2 N / 7).
double best_second_dim(double ranks);

}  // namespace fourfold::search
