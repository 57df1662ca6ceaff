#include "solve/critical_nodes.h"

#include <algorithm>

namespace fourfold::solve {
namespace {

/// The earliest and latest times of nodes.
struct Times {
  explicit Times(const Problem& problem)
      : earliest(problem.nodes.size()), latest(problem.nodes.size()) {
    const std::vector<std::size_t> order = order_of(problem);
    const EdgesOfNodes edges(problem);
    for (const std::size_t node : order) {
      for (const std::size_t edge : edges.in[node])
        earliest[node] = std::max(earliest[node], earliest[problem.edges[edge].src] + 1);
      last = std::max(last, earliest[node]);
    }
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      latest[*node] = last;
      for (const std::size_t edge : edges.out[*node])
        latest[*node] = std::min(latest[*node], latest[problem.edges[edge].dst] - 1);
    }
  }
  std::vector<std::size_t> earliest, latest;
  std::size_t last = 0;
};

std::vector<bool> heavy_nodes(const Problem& problem) {
  std::vector<bool> is_heavy;
  std::vector<double> least;
  double mean = 0;
  bool is_told = false;
  for (const Node& node : problem.nodes) {
    is_heavy.push_back(node.is_heavy);
    is_told = is_told || node.is_heavy;
    least.push_back(*std::ranges::min_element(node.comp));
    mean += least.back() / static_cast<double>(problem.nodes.size());
  }
  for (std::size_t node = 0; node < least.size() && !is_told; ++node)
    is_heavy[node] = least[node] >= mean;
  return is_heavy;
}

}  // namespace

CriticalNodes find_critical_nodes(const Problem& problem) {
  const Times times(problem);
  const std::vector<bool> is_heavy = heavy_nodes(problem);
  const std::size_t nodes = problem.nodes.size();
  std::vector<std::size_t> number(times.last + 1), at_time(times.last + 1);
  for (std::size_t node = 0; node < nodes; ++node)
    if (times.earliest[node] == times.latest[node]) {
      ++number[times.earliest[node]];
      at_time[times.earliest[node]] = node;
    }
  CriticalNodes critical;
  for (std::size_t time = 0; time <= times.last; ++time)
    if (number[time] == 1 && is_heavy[at_time[time]]) critical.nodes.push_back(at_time[time]);
  critical.num_segments = std::max<std::size_t>(critical.nodes.size(), 2) - 1;

  // A time belongs to the segment of the last critical node before it.
  std::vector<std::size_t> segment_at(times.last + 1);
  std::size_t passed = 0;
  for (std::size_t time = 0; time <= times.last; ++time) {
    segment_at[time] = std::min(passed == 0 ? 0 : passed - 1, critical.num_segments - 1);
    if (passed < critical.nodes.size() && times.earliest[critical.nodes[passed]] == time) ++passed;
  }
  const EdgesOfNodes edges(problem);
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::size_t read = std::min(times.latest[node] + 1, times.last);
    critical.segments.push_back(segment_at[edges.in[node].empty() ? read : times.earliest[node]]);
  }
  std::vector<std::size_t> ends = critical.segments;  // the first segment of each node
  for (std::size_t i = 0; i < critical.nodes.size(); ++i) {
    critical.segments[critical.nodes[i]] = std::min(i, critical.num_segments - 1);
    ends[critical.nodes[i]] = std::min(i == 0 ? 0 : i - 1, critical.num_segments - 1);
  }
  for (const Edge& edge : problem.edges)
    critical.jumps.push_back(critical.segments[edge.src] < ends[edge.dst] ||
                             critical.segments[edge.dst] < ends[edge.src]);
  return critical;
}

}  // namespace fourfold::solve
