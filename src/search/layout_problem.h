// The layouts of a training graph as an assignment problem: an op takes a way to cut its factors, a
// value a way to be kept, a parameter a way to lie between steps. A choice costs the work of a
// rank, an edge the conversions between two shardings, both in seconds of a step in which nothing
// is hidden. Not how the problem is solved (solve/), nor which grid is best (rank_grids.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "search/price.h"
#include "solve/problem.h"

namespace fourfold::search {

/// What the time of a choice depends on, beside the graph.
struct LayoutSetting {
  const Mesh* mesh = nullptr;
  std::vector<machine::AxisGroup> groups;  // by axis of the mesh
  plan::Batching batching;
  DType compute = DType::f32;
  std::int64_t bucket_bytes = 0;  // of gradients that are sent together at the end of a step
  /// Axes that may cut anything; the others cut what the start has them cut in ops and parameters.
  std::vector<AxisId> open;
};

/// Sums are reduced where they are made, but for gradients, which may stay terms until the end of
/// the step; no factor is cut with padding; what is fed is divided as the layout has it that the
/// search begins with. Memory is not looked at. What tensors share at the end of a step, as the
/// starts of messages and the sums of a norm, is no cost of any single choice.
class LayoutProblem {
 public:
  /// `start`: a legal layout of the graph on the mesh. The graph, the mesh and the pricer outlive
  /// it. Cost: the ops by their choices, and these by the shardings of what they read and write.
  LayoutProblem(const graph::Graph& train, const plan::Layout& start, LayoutSetting setting,
                Pricer& pricer);

  const solve::Problem& problem() const { return problem_; }
  /// The layout that an assignment means.
  plan::Layout layout(std::span<const std::size_t> choices) const;

 private:
  /// How an op is cut, and in which of their shardings it then sees its operands.
  struct Way {
    plan::FactorAxes axes;
    std::vector<std::size_t> seen;  // by operand, reads first
    double seconds = 0;
  };
  struct Rest {
    std::size_t rest = 0, moments = 0;  // shardings of the parameter
    double seconds = 0;
  };
  /// The shardings of a value that ops of choice make or read, or of a parameter.
  struct Shardings {
    std::vector<op::Sharding> all;
    std::vector<std::size_t> kept;  // in which it may be kept, or be used
    std::size_t node = none;        // of the problem
    std::map<std::tuple<std::size_t, std::size_t, bool>, double> seconds;  // of conversions
  };
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  void find_ways(std::size_t node);
  void add_way(std::size_t node, const op::FactorRule& rule, const plan::FactorAxes& axes);
  double seconds_of(std::size_t node, const plan::NodeShardings& shardings);
  void find_kept();
  void find_rests(std::size_t value);
  /// Seconds of the update of a parameter; without one, of what belongs to none.
  double update_seconds(std::optional<std::size_t> value, const op::Sharding& moments);
  void add_nodes();
  void add_edges(std::size_t node);
  void add_edges_of_parameter(std::size_t value);

  graph::ValueId operand(std::size_t node, std::size_t i) const;
  bool is_chosen(graph::ValueId id) const;
  bool is_open(AxisId axis) const;
  std::size_t index_of(graph::ValueId id, op::Sharding sharding);
  double conversion(graph::ValueId id, std::size_t from, std::size_t to, bool is_at_end = false);
  double times(graph::Phase phase) const;

  const graph::Graph& train_;
  const plan::Layout& start_;
  LayoutSetting setting_;
  Pricer& pricer_;
  plan::GraphShardings fixed_;  // of the start: values that nobody chooses
  std::vector<std::string> names_;
  std::vector<std::vector<Way>> ways_;     // by node
  std::vector<std::size_t> node_of_op_;    // by node: of the problem
  std::vector<Shardings> shardings_;       // by value
  std::vector<std::vector<Rest>> rests_;   // by value: of parameters
  std::vector<std::size_t> node_of_rest_;  // by value
  solve::Problem problem_;
};

/// Axes of a mesh that have more than one rank, those of samples first: the order in which several
/// of them cut one factor.
std::vector<AxisId> axes_to_cut(const Mesh& mesh, const std::vector<AxisId>& samples);

}  // namespace fourfold::search
