#include "solve/segments.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "solve/eliminate.h"
#include "solve/prune.h"

namespace fourfold::solve {
namespace {

/// A segment as a problem of its own, in which the critical nodes at its ends cost nothing.
struct Segment {
  Problem problem;
  std::vector<std::size_t> nodes;  // their numbers in the whole problem
  std::vector<std::size_t> kept;   // the ends, by their numbers here
  EliminationOrder order;
  std::optional<Elimination> elimination;
};

class SegmentChain {
 public:
  SegmentChain(const Problem& problem, const CriticalNodes& critical)
      : problem_(problem), critical_(critical), segments_(critical.num_segments) {
    std::vector<std::size_t> number(problem.nodes.size());  // in its last segment
    std::vector<bool> is_critical(problem.nodes.size());
    if (critical.nodes.size() > 1) {
      for (const std::size_t node : critical.nodes) is_critical[node] = true;
      for (std::size_t i = 0; i < segments_.size(); ++i)
        for (const std::size_t end : {critical.nodes[i], critical.nodes[i + 1]}) {
          segments_[i].kept.push_back(segments_[i].nodes.size());
          add_node(segments_[i], end);
          std::ranges::fill(segments_[i].problem.nodes.back().comp, 0);
        }
    }
    for (std::size_t node = 0; node < problem.nodes.size(); ++node)
      if (!is_critical[node]) {
        number[node] = segments_[critical.segments[node]].nodes.size();
        add_node(segments_[critical.segments[node]], node);
      }
    for (const Edge& edge : problem.edges) {
      const std::size_t at = segment_of(edge, is_critical);
      const auto number_in = [&](std::size_t node) {
        return !is_critical[node] ? number[node] : critical.nodes[at] == node ? 0 : 1;
      };
      segments_[at].problem.edges.push_back({number_in(edge.src), number_in(edge.dst), edge.comm});
    }
  }

  /// Why a segment is not solved, if one is not.
  std::string excess(const Limits& limits) {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      Segment& segment = segments_[i];
      segment.order = choose_order(segment.problem, segment.kept);
      const std::string name = format("o2: segment {} of {}", i + 1, segments_.size());
      if (std::string excess = excess_of(segment.problem, segment.order, limits, name);
          !excess.empty())
        return excess;
    }
    return "";
  }

  /// The best choices of all nodes; empty: there are none.
  std::vector<std::size_t> run() {
    std::vector<std::size_t> choices(problem_.nodes.size());
    for (Segment& segment : segments_) {
      segment.elimination.emplace(segment.problem, segment.order, segment.kept);
      width = std::max(width, segment.order.width);
      visited += static_cast<std::uint64_t>(segment.order.entries);
    }
    if (segments_.front().kept.empty()) {
      cost = segments_.front().elimination->costs().front();
    } else {
      choose_ends(choices);
    }
    if (cost == forbidden) return {};
    for (const Segment& segment : segments_) complete(segment, choices);
    return choices;
  }

  double cost = 0;
  std::size_t width = 0;
  std::uint64_t visited = 0;

 private:
  void add_node(Segment& segment, std::size_t node) const {
    segment.problem.nodes.push_back(problem_.nodes[node]);
    segment.nodes.push_back(node);
  }

  /// The segment that has both ends of an edge.
  std::size_t segment_of(const Edge& edge, const std::vector<bool>& is_critical) const {
    if (!is_critical[edge.src]) return critical_.segments[edge.src];
    if (!is_critical[edge.dst]) return critical_.segments[edge.dst];
    return std::min(critical_.segments[edge.src], critical_.segments[edge.dst]);
  }

  /// Dynamic programming along the chain: the best choice of each critical node for each of the
  /// next one's.
  void choose_ends(std::vector<std::size_t>& choices) {
    const std::vector<std::size_t>& ends = critical_.nodes;
    std::vector<double> costs = problem_.nodes[ends.front()].comp;
    std::vector<std::vector<std::size_t>> best(segments_.size());
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      const std::vector<double>& pairs = segments_[i].elimination->costs();
      std::vector<double> next = problem_.nodes[ends[i + 1]].comp;
      for (std::size_t column = 0; column < next.size(); ++column) {
        double least = forbidden;
        std::size_t chosen = 0;
        for (std::size_t row = 0; row < costs.size(); ++row)
          if (const double sum = costs[row] + pairs[row * next.size() + column]; sum < least) {
            least = sum;
            chosen = row;
          }
        next[column] += least;
        best[i].push_back(chosen);
      }
      costs = std::move(next);
    }
    const auto least = std::ranges::min_element(costs);
    cost = *least;
    choices[ends.back()] = static_cast<std::size_t>(least - costs.begin());
    for (std::size_t i = segments_.size(); i-- > 0;)
      choices[ends[i]] = best[i][choices[ends[i + 1]]];
  }

  static void complete(const Segment& segment, std::vector<std::size_t>& choices) {
    std::vector<std::size_t> of_segment;
    for (const std::size_t node : segment.nodes) of_segment.push_back(choices[node]);
    segment.elimination->complete(of_segment);
    for (std::size_t i = 0; i < of_segment.size(); ++i) choices[segment.nodes[i]] = of_segment[i];
  }

  const Problem& problem_;
  const CriticalNodes& critical_;
  std::vector<Segment> segments_;
};

enum class After : std::uint8_t { search, sweeps };

Outcome solve_by_segments(const Problem& problem, const Limits& limits, After after) {
  const CriticalNodes critical = find_critical_nodes(problem);
  Problem searched{problem.nodes, {}};
  for (std::size_t edge = 0; edge < problem.edges.size(); ++edge)
    if (!critical.jumps[edge]) searched.edges.push_back(problem.edges[edge]);
  const std::size_t jumping = problem.edges.size() - searched.edges.size();
  std::variant<Pruned, Refused> maybe = prune(searched);
  if (const auto* refused = std::get_if<Refused>(&maybe)) return *refused;
  const Pruned& pruned = std::get<Pruned>(maybe);
  SegmentChain chain(pruned.problem, critical);
  if (std::string excess = chain.excess(limits); !excess.empty())
    return Refused{ExitCode::does_not_fit, std::move(excess)};
  const std::vector<std::size_t> choices = chain.run();
  if (choices.empty()) return no_assignment();
  Solution solution;
  solution.choices = pruned.as_before(choices);
  if (after == After::sweeps && jumping > 0) {
    Swept swept = sweep_segments(problem, critical, std::move(solution.choices), limits);
    solution.choices = std::move(swept.choices);
    chain.visited += swept.visited;
  }
  solution.cost = cost_of(problem, solution.choices);
  if (solution.cost == forbidden)
    return Refused{ExitCode::does_not_fit,
                   format("o2: the best segments meet in a forbidden pair, as {} jump over "
                          "critical nodes; use o3 or elimination",
                          counted(static_cast<std::int64_t>(jumping), "edge"))};
  solution.bound = jumping == 0 ? Bound::proved : Bound::segments;
  solution.lower_bound = jumping == 0 ? solution.cost : std::min(chain.cost, solution.cost);
  solution.statistics = sizes_of(problem);
  solution.statistics.width = chain.width;
  solution.statistics.critical = critical.nodes.size();
  solution.statistics.segments = critical.num_segments;
  solution.statistics.jumping = jumping;
  solution.statistics.visited = chain.visited;
  return solution;
}

}  // namespace

Swept sweep_segments(const Problem& problem, const CriticalNodes& critical,
                     std::vector<std::size_t> choices, const Limits& limits) {
  Swept all{std::move(choices)};
  for (const std::size_t together : {1, 2})
    for (std::size_t shift = 0; shift < together; ++shift) {
      std::vector<std::size_t> groups = critical.segments;
      for (std::size_t& group : groups) group = (group + shift) / together;
      Swept swept = sweep(problem, groups, std::move(all.choices), limits);
      all.choices = std::move(swept.choices);
      all.sweeps += swept.sweeps;
      all.visited += swept.visited;
    }
  return all;
}

Outcome solve_segments(const Problem& problem, const Limits& limits) {
  return solve_by_segments(problem, limits, After::search);
}

Outcome solve_segments_again(const Problem& problem, const Limits& limits) {
  return solve_by_segments(problem, limits, After::sweeps);
}

}  // namespace fourfold::solve
