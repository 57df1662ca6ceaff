// What the choices of a layout take: the work of an op, a conversion between two shardings, the
// update of a parameter. Seconds of a rank in a step. Not which choices there are: that is
// layout_problem.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "search/price.h"

namespace fourfold::search {

/// How much of a parameter a rank may have between steps: not all of it, or as little as there may
/// be.
enum class Cutting : std::uint8_t { some, most };

/// What the time of a choice depends on, beside the graph, and which choices there may be.
struct LayoutSetting {
  const Mesh* mesh = nullptr;
  std::vector<machine::AxisGroup> groups;  // by axis of the mesh
  plan::Batching batching;
  DType compute = DType::f32;
  std::int64_t bucket_bytes = 0;  // of gradients that are sent together at the end of a step
  /// Axes that may cut anything; the others cut what the start has them cut in ops and parameters.
  std::vector<AxisId> open;
  /// This share of the time of collectives that may run beside computation costs nothing: gathers
  /// of weights, sums of their gradients, and sums of activations of the backward pass. It costs
  /// what computation then takes longer.
  double hidden_share = 0;
  plan::Overlap overlap = {};
  plan::Checkpointing checkpointing = {};                     // what is computed again
  std::optional<std::int64_t> cached_gathers = std::nullopt;  // as a plan has them
  /// Layers of a model that do the same have the same layout.
  bool layers_alike = false;
  /// How the user has parameters lie between steps, and activations where they are kept.
  std::vector<plan::Pin> pins = {};
  /// Parameters that save memory between steps, where an axis divides them.
  std::map<std::string, Cutting> cut = {};
  bool bounds = false;  // whether a lower bound is found for what is chosen
  bool counts = false;  // whether what solvers make of the problem is counted
};

class LayoutCosts {
 public:
  /// All three outlive it.
  LayoutCosts(const graph::Graph& train, const LayoutSetting& setting, Pricer& pricer);

  /// How often an op is done in a step, with its repetitions in the backward pass.
  double times(std::size_t node) const;
  /// How often a weight is brought in a step from how it lies to how its readers want it.
  double times_gathered(std::size_t parameter) const;
  /// The work of an op, with what its cut form sends between its rows, in all of a step.
  double of_op(std::size_t node, const plan::NodeShardings& shardings) const;
  /// One conversion of a value. `is_at_end`: once in a step, where buckets join gradients.
  double of_conversion(graph::ValueId id, const op::Sharding& from, const op::Sharding& to,
                       bool is_at_end) const;
  /// The update of a parameter whose moments lie so; without one, of what belongs to none.
  double of_update(std::optional<std::size_t> parameter, const op::Sharding& moments) const;

 private:
  void find_repetitions();
  double share_that_costs(graph::ValueId id, Collective kind, bool is_at_end) const;

  const graph::Graph& train_;
  const LayoutSetting& setting_;
  Pricer& pricer_;
  /// By value: the nodes that update the parameter; past the last value, those of none.
  std::vector<std::vector<std::size_t>> updates_;
  std::vector<bool> is_backward_;  // by value: made in the backward pass
  /// Within a micro-batch: by node, how often it is done; by value, in how many stretches of the
  /// graph a weight is read, each of which gathers it for itself.
  std::vector<double> done_, stretches_;
};

}  // namespace fourfold::search
