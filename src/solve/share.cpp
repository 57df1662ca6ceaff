#include "solve/share.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace fourfold::solve {
namespace {

/// A node of the smaller problem.
struct Together {
  std::vector<std::size_t> members;
  std::vector<std::size_t> meanings;  // that all members have
};

std::vector<std::size_t> in_common(const std::vector<std::size_t>& a,
                                   const std::vector<std::size_t>& b) {
  std::vector<std::size_t> both;
  std::ranges::copy_if(a, std::back_inserter(both), [&](std::size_t meaning) {
    return std::ranges::find(b, meaning) != b.end();
  });
  return both;
}

/// In the order of their first members along the edges.
std::vector<Together> grouped(const Problem& problem, std::span<const std::size_t> groups,
                              const Meanings& meanings) {
  std::vector<Together> result;
  std::map<std::size_t, std::size_t> places;  // of groups
  for (const std::size_t node : order_of(problem)) {
    const auto [place, is_new] = places.try_emplace(groups[node], result.size());
    if (!is_new) {
      Together& group = result[place->second];
      if (auto both = in_common(group.meanings, meanings[node]); !both.empty()) {
        group.members.push_back(node);
        group.meanings = std::move(both);
        continue;
      }
    }
    result.push_back({{node}, meanings[node]});
  }
  return result;
}

}  // namespace

std::vector<std::size_t> Shared::whole(std::span<const std::size_t> choices_here) const {
  std::vector<std::size_t> all;
  for (std::size_t node = 0; node < node_of.size(); ++node)
    all.push_back(choices[node][choices_here[node_of[node]]]);
  return all;
}

Shared share(const Problem& problem, std::span<const std::size_t> groups,
             const Meanings& meanings) {
  Shared shared;
  shared.node_of.resize(problem.nodes.size());
  shared.choices.resize(problem.nodes.size());
  for (const Together& group : grouped(problem, groups, meanings)) {
    Node one{problem.nodes[group.members.front()].name, std::vector<double>(group.meanings.size()),
             problem.nodes[group.members.front()].is_heavy};
    for (const std::size_t node : group.members) {
      shared.node_of[node] = shared.problem.nodes.size();
      for (std::size_t choice = 0; choice < group.meanings.size(); ++choice) {
        const auto place = std::ranges::find(meanings[node], group.meanings[choice]);
        shared.choices[node].push_back(static_cast<std::size_t>(place - meanings[node].begin()));
        one.comp[choice] += problem.nodes[node].comp[shared.choices[node].back()];
      }
    }
    shared.problem.nodes.push_back(std::move(one));
  }
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> places;  // of edges
  for (const Edge& edge : problem.edges) {
    const std::size_t src = shared.node_of[edge.src], dst = shared.node_of[edge.dst];
    require(src != dst, "an edge leads from one group to another");
    const std::size_t first = std::min(src, dst), last = std::max(src, dst);
    const std::size_t rows = shared.problem.choices(first), columns = shared.problem.choices(last);
    const auto [place, is_new] = places.try_emplace({first, last}, shared.problem.edges.size());
    if (is_new) shared.problem.edges.push_back({first, last, std::vector<double>(rows * columns)});
    std::vector<double>& comm = shared.problem.edges[place->second].comm;
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column)
        comm[row * columns + column] +=
            problem.comm(edge, shared.choices[edge.src][src == first ? row : column],
                         shared.choices[edge.dst][src == first ? column : row]);
  }
  return shared;
}

}  // namespace fourfold::solve
