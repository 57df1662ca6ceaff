// The time of a step from what it asks of a rank and what a cluster has, in closed form: work by
// the rates of its device, each collective by what its group gets of the links. Of what may run
// beside computation as much is hidden as there is computation; a program's own order is not looked
// at. The sum of all, which hides nothing, is that of AxoNN's equation 9.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "machine/mesh_bandwidth.h"
#include "search/demand.h"

namespace fourfold::search {

/// The groups of each axis of a mesh whose axes have these names, in an order of ranks (innermost
/// first).
std::vector<machine::AxisGroup> groups_in_order(const Mesh& mesh,
                                                const std::vector<std::string>& order);

/// Seconds of one kind of collective along the same axes, for one purpose.
struct TrafficPrice {
  compile::Purpose purpose = compile::Purpose::activations;
  Collective kind = Collective::all_reduce;
  std::vector<AxisId> axes;
  double sent_bytes = 0, seconds = 0;
};

/// Seconds of a step.
struct Price {
  double products = 0;  // by their flops, at what the device reaches for products of that size
  double others = 0;    // rows that are no products, by their bytes, and the starts of all
  double weights = 0, gradients = 0, activations = 0;                       // sent
  std::vector<TrafficPrice> traffic;                                        // the longest first
  double hidden_weights = 0, hidden_gradients = 0, hidden_activations = 0;  // of what is sent
  double slower_by = 0;  // computation, for what runs beside it
  double at_end = 0;     // of step(): once, after the last micro-batch
  /// What a step of a pipeline takes more than its slowest stage, whose price this is: stages wait
  /// for the first and the last micro-batch, and for what is sent between them.
  double pipeline = 0;
  double compute() const { return products + others; }
  double sent() const { return weights + gradients + activations; }
  double hidden() const { return hidden_weights + hidden_gradients + hidden_activations; }
  double all() const { return compute() + sent() + pipeline; }
  /// With what may run beside computation there.
  double step() const { return all() - hidden() + slower_by; }
};

/// Prices demands on one cluster; what its groups get is found once. May be asked from several
/// threads. The cluster must outlive it.
class Pricer {
 public:
  /// `rate`: that of the device for the type of the computation. `bucket_bytes`: of gradients that
  /// are sent together at the end of a step; 0: each alone.
  Pricer(const machine::Cluster& cluster, const machine::ComputeRate& rate,
         std::int64_t bucket_bytes)
      : cluster_(cluster), rate_(rate), bucket_bytes_(bucket_bytes) {}

  /// `groups`: by axis of the mesh that the demand was found on.
  Price price(const Demand& demand, const std::vector<machine::AxisGroup>& groups);

  /// Seconds of collectives of one kind: the latency of the steps of `calls` of them, and the bytes
  /// at the rate of the group. What was measured of such groups replaces both. Groups along several
  /// axes that are no neighbours have the least rate of theirs.
  double seconds(Collective kind, const std::vector<machine::AxisGroup>& groups, const Sent& sent);

  const machine::Cluster& cluster() const { return cluster_; }
  /// machine::axis_bytes_per_s of the cluster.
  double bytes_per_s(machine::AxisGroup group) { return link_of(group).bytes_per_s; }

 private:
  struct Link {
    double bytes_per_s = 0, latency_s = 0;
  };
  Link link_of(machine::AxisGroup group);

  const machine::Cluster& cluster_;
  const machine::ComputeRate& rate_;
  std::int64_t bucket_bytes_;
  std::mutex mutex_;                                             // of the links
  std::map<std::pair<std::int64_t, std::int64_t>, Link> links_;  // by ranks and stride
};

}  // namespace fourfold::search
