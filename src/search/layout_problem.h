// The layouts of a training graph as an assignment problem: an op takes a way to cut its factors, a
// value a way to be kept, a parameter a way to lie between steps. A choice costs the work of a
// rank, an edge the conversions between two shardings (layout_costs.h), in seconds of a step. Not
// how the problem is solved (solve/), nor which grid is best (rank_grids.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "op/rule.h"
#include "plan/pins.h"
#include "plan/plan.h"
#include "search/cut_choices.h"
#include "search/layout_costs.h"
#include "search/price.h"
#include "solve/problem.h"
#include "solve/share.h"

namespace fourfold::search {

/// A sum may stay terms where what reads it is linear, and the terms of a gradient until the end of
/// the step. Rows of large tables that ops look up, and what is made for each of them, are cut with
/// padding where the axes do not divide them, as they lie between steps. What is fed is divided as
/// the layout has it that the search begins with. Memory is not looked at. What tensors share at
/// the end of a step, as the starts of messages and the sums of a norm, is no cost of any single
/// choice.
class LayoutProblem {
 public:
  /// `start`: a legal layout of the graph on the mesh. The pins of the setting have no fault
  /// (plan::pinned_shardings). The graph, the mesh and the pricer outlive it. Cost: the ops by
  /// their choices, and these by the shardings of what they read and write.
  LayoutProblem(const graph::Graph& train, const plan::Layout& start, LayoutSetting setting,
                Pricer& pricer);
  LayoutProblem(const LayoutProblem&) = delete;
  LayoutProblem& operator=(const LayoutProblem&) = delete;

  const solve::Problem& problem() const { return shared_ ? shared_->problem : problem_; }
  /// The layout that an assignment means.
  plan::Layout layout(std::span<const std::size_t> choices) const;

 private:
  /// Which read an op leaves partial on an axis; of an op that leaves all of them so, the first.
  using Terms = std::map<AxisId, std::size_t>;
  using Linear = op::FactorRule::Linear;
  /// How an op is cut, and in which of their shardings it then sees its operands.
  struct Way {
    plan::FactorAxes axes;
    Terms terms;
    std::vector<std::size_t> seen;  // by operand, reads first
    double seconds = 0;
    bool operator==(const Way& other) const { return axes == other.axes && terms == other.terms; }
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

  void find_tables();
  std::string padded_of(const op::FactorSizes& sizes) const;
  bool is_padded(graph::ValueId id, const op::Sharding& sharding) const {
    return !padded_sizes_.empty() && has_padding(train_.value(id).shape, sharding, *setting_.mesh);
  }
  void find_ways(std::size_t node);
  void add_ways(std::size_t node, const op::FactorRule& rule, const plan::FactorAxes& axes);
  void add_way(std::size_t node, const op::FactorRule& rule, Way way, plan::NodeShardings shardings,
               const std::vector<op::Sharding>& claims);
  void for_each_terms(std::size_t node, const op::FactorRule& rule,
                      const plan::NodeShardings& shardings, const std::vector<op::Sharding>& claims,
                      std::span<const AxisId> axes, const Terms& terms,
                      const std::function<void(const Terms&)>& visit) const;
  bool gives_terms(graph::ValueId id, AxisId axis) const;
  void find_kept();
  void find_rests(std::size_t value);
  void add_rest(std::size_t value, const op::Sharding& rest);
  void add_nodes();
  void add_edges(std::size_t node);
  void add_edges_of_parameter(std::size_t value);
  void share_choices();

  bool may_read(std::size_t node, const Way& way, std::size_t read, const op::Sharding& kept) const;
  graph::ValueId operand(std::size_t node, std::size_t i) const;
  bool is_chosen(graph::ValueId id) const;
  bool is_pinned(std::size_t value) const { return pinned_.has(train_.values[value].name); }
  FixedCuts axes_not_open() const;
  std::size_t index_of(graph::ValueId id, op::Sharding sharding);
  double conversion(graph::ValueId id, std::size_t from, std::size_t to, bool is_at_end = false);

  const graph::Graph& train_;
  const plan::Layout& start_;
  const LayoutSetting setting_;
  const LayoutCosts costs_;
  plan::PinnedShardings pinned_;
  std::vector<AxisId> axes_;
  std::set<std::int64_t> padded_sizes_;  // of dims that may be cut with padding
  plan::GraphShardings fixed_;           // of the start: values that nobody chooses
  std::vector<std::string> names_;
  std::vector<std::size_t> first_makers_;  // by value
  std::vector<std::vector<Way>> ways_;     // by node
  std::vector<std::size_t> node_of_op_;    // by node: of the problem
  std::vector<Shardings> shardings_;       // by value
  std::vector<std::vector<Rest>> rests_;   // by value: of parameters
  std::vector<std::size_t> node_of_rest_;  // by value
  solve::Problem problem_;
  std::optional<solve::Shared> shared_;
};

}  // namespace fourfold::search
