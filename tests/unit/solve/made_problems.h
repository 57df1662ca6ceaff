// Assignment problems to be solved: random ones of many shapes, and a deep model's. Header only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "solve/problem.h"

namespace fourfold::solve {

enum class Shape : std::uint8_t { chain, tree, diamonds, sparse, dense };

/// Draws numbers that are the same with every standard library.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return random_() % bound; }
  /// Whole where `grain` is 1: equal sums are then frequent.
  double cost(double grain) {
    const double whole = static_cast<double>(below(12));
    return grain == 1 ? whole : whole + static_cast<double>(below(1000)) * grain;
  }

 private:
  std::mt19937 random_;
};

inline std::vector<double> drawn_costs(std::size_t number, double grain, double share_forbidden,
                                       Draw& draw) {
  std::vector<double> costs;
  const auto out = static_cast<std::size_t>(1000 * share_forbidden);
  for (std::size_t i = 0; i < number; ++i)
    costs.push_back(draw.below(1000) < out ? forbidden : draw.cost(grain));
  if (std::ranges::all_of(costs, [](double cost) { return cost == forbidden; }))
    costs[draw.below(number)] = draw.cost(grain);
  return costs;
}

/// Edges of a shape over nodes that are numbered along them.
inline std::vector<std::pair<std::size_t, std::size_t>> drawn_ends(Shape shape, std::size_t nodes,
                                                                   Draw& draw) {
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  for (std::size_t dst = 1; dst < nodes; ++dst) switch (shape) {
      case Shape::chain:
        ends.emplace_back(dst - 1, dst);
        break;
      case Shape::tree:
        ends.emplace_back(draw.below(dst), dst);
        break;
      case Shape::diamonds:  // of four: one, two beside each other, one that takes from both
        if (dst % 3 == 0) ends.emplace_back(dst - 2, dst);
        ends.emplace_back(dst % 3 == 2 ? dst - 2 : dst - 1, dst);
        break;
      case Shape::sparse:
        for (int i = 0; i < 2; ++i) ends.emplace_back(draw.below(dst), dst);
        break;
      case Shape::dense:
        for (std::size_t src = 0; src < dst; ++src)
          if (draw.below(4) > 0) ends.emplace_back(src, dst);
        break;
    }
  return ends;
}

/// A problem of at most `most_nodes` nodes and some 50,000 assignments. Numbers do not follow the
/// edges; some edges are there twice.
inline Problem random_problem(std::uint32_t seed, Shape shape, double share_forbidden,
                              std::size_t most_nodes = 14) {
  Draw draw(seed);
  Problem problem;
  const std::size_t nodes = 2 + draw.below(most_nodes - 1);
  const double grain = draw.below(3) == 0 ? 1 : 1e-3;
  double left = 50'000;
  std::vector<std::size_t> number(nodes);  // of each place along the edges
  for (std::size_t i = 0; i < nodes; ++i) {
    number[i] = i;
    std::swap(number[i], number[draw.below(i + 1)]);
    // Two choices of each node that is still to come have room.
    const double room = left / static_cast<double>(std::size_t{1} << (nodes - i - 1));
    const std::size_t choices =
        1 + draw.below(
                std::max<std::size_t>(2, std::min<std::size_t>(5, static_cast<std::size_t>(room))));
    left /= static_cast<double>(choices);
    problem.nodes.push_back({draw.below(2) == 0 ? format("n{}", i) : "",
                             drawn_costs(choices, grain, share_forbidden, draw),
                             draw.below(3) == 0});
  }
  for (const auto& [src, dst] : drawn_ends(shape, nodes, draw))
    for (std::size_t times = draw.below(8) == 0 ? 2 : 1; times > 0; --times)
      problem.edges.push_back(
          {number[src], number[dst],
           drawn_costs(problem.choices(number[src]) * problem.choices(number[dst]), grain,
                       share_forbidden, draw)});
  return problem;
}

/// A chain of nodes with as many choices each.
inline Problem long_chain(std::size_t nodes, std::size_t choices, std::uint32_t seed) {
  Draw draw(seed);
  Problem problem;
  for (std::size_t i = 0; i < nodes; ++i)
    problem.nodes.push_back({"", drawn_costs(choices, 1e-3, 0, draw), true});
  for (std::size_t i = 1; i < nodes; ++i)
    problem.edges.push_back({i - 1, i, drawn_costs(choices * choices, 1e-3, 0, draw)});
  return problem;
}

/// What a value costs to be made another, where a value may be whole on each of four devices (0),
/// cut in rows (1), cut in columns (2), or a sum of theirs (3): `becomes` says for each choice of
/// who takes it what that needs.
inline std::vector<double> conversions(double size, const std::vector<std::size_t>& becomes) {
  const double gather = 3 * size, cut = 0.01 * size, sum = 6 * size, exchange = 1.5 * size;
  const double table[4][4] = {{0, cut, cut, forbidden},
                              {gather, 0, exchange, forbidden},
                              {gather, exchange, 0, forbidden},
                              {sum, gather, gather, 0}};
  std::vector<double> costs;
  for (const auto& from : table)
    for (const std::size_t to : becomes) costs.push_back(from[to]);
  return costs;
}

/// A GPT's step with made-up costs: products with a weight each, residual connections, the same
/// layer again and again; and, for training, the gradients of all and what they make of the
/// weights. A choice says what a node leaves its outcome as.
class MadeGpt {
 public:
  enum class Pass : std::uint8_t { forward, training };

  explicit MadeGpt(std::size_t layers, Pass pass = Pass::forward) {
    const std::size_t embedded = add("embed", {8, 2, 4, 3}, {});
    std::size_t x = embedded;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const auto name = [&](const char* what) { return format("{}.{}", layer, what); };
      const std::size_t norm1 = plain(name("norm1"), {4, 1, 6, forbidden}, x),
                        qkv = product(name("qkv"), norm1, 3),
                        core = plain(name("core"), {12, 3, 3, forbidden}, qkv),
                        out = product(name("out"), core, 1), sum1 = sum(name("sum1"), out, x),
                        norm2 = plain(name("norm2"), {4, 1, 6, forbidden}, sum1),
                        up = product(name("up"), norm2, 4),
                        gelu = plain(name("gelu"), {8, 2, 2, forbidden}, up),
                        down = product(name("down"), gelu, 4);
      x = sum(name("sum2"), down, sum1);
    }
    const std::size_t norm = plain("norm", {4, 1, 6, forbidden}, x),
                      head = product("head", norm, 12),
                      loss = plain("loss", {2, 1, 1, forbidden}, head);
    if (pass == Pass::training) differentiate(loss);
  }

  Problem problem;

 private:
  /// How a node was made, for its gradients.
  struct Made {
    std::size_t node = 0;
    std::vector<std::size_t> inputs;
    std::size_t weight = 0;
    double size = 0;  // of the weight; 0: there is none
  };

  std::size_t add(std::string name, std::vector<double> comp,
                  const std::vector<std::size_t>& inputs) {
    problem.nodes.push_back({std::move(name), std::move(comp), false});
    for (const std::size_t src : inputs) connect(src, 1, {0, 1, 2, 3});
    return problem.nodes.size() - 1;
  }
  void connect(std::size_t src, double size, const std::vector<std::size_t>& becomes) {
    problem.edges.push_back({src, problem.nodes.size() - 1, conversions(size, becomes)});
  }
  std::size_t plain(const std::string& name, const std::vector<double>& comp, std::size_t input) {
    made_.push_back({add(name, comp, {input}), {input}});
    return made_.back().node;
  }
  std::size_t sum(const std::string& name, std::size_t one, std::size_t other) {
    made_.push_back({add(name, {4, 1, 1, 1}, {one, other}), {one, other}});
    return made_.back().node;
  }

  std::size_t heavy(const std::string& name, double size) {
    const std::size_t node = add(name, {16 * size, 4 * size, 4 * size, 4 * size}, {});
    problem.nodes[node].is_heavy = true;
    return node;
  }

  /// Rows come of rows and the whole weight, columns of its columns, a sum of columns and its rows.
  std::size_t product(const std::string& name, std::size_t input, double size) {
    const std::size_t weight = add(name + ".weight", {2 * size, size, size, forbidden}, {}),
                      node = heavy(name, size);
    connect(input, 1, {0, 1, 0, 2});
    connect(weight, size, {0, 0, 2, 1});
    made_.push_back({node, {input}, weight, size});
    return node;
  }

  /// Gradients of all nodes, the last first: what a node gives to several is added up.
  void differentiate(std::size_t loss) {
    std::vector<std::size_t> gradients(loss + 1, none);
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
      const std::string name = problem.nodes[made->node].name;
      const std::size_t of_outcome = made->node == loss ? loss : gradients[made->node];
      for (const std::size_t input : made->inputs) {
        const std::size_t one =
            made->size > 0 ? of_product(name, *made, of_outcome)
            : made->inputs.size() > 1
                ? of_outcome
                : add(name + ".grad", {4, 1, 2, forbidden}, {of_outcome, input});
        gradients[input] = gradients[input] == none
                               ? one
                               : add(name + ".grads", {4, 1, 1, 1}, {gradients[input], one});
      }
    }
  }

  std::size_t of_product(const std::string& name, const Made& made, std::size_t of_outcome) {
    const std::size_t of_weight = heavy(name + ".weight.grad", made.size);
    connect(made.inputs.front(), 1, {0, 2, 0, 1});
    connect(of_outcome, 1, {0, 0, 2, 1});
    add(name + ".update", {2 * made.size, made.size, made.size, forbidden}, {});
    connect(of_weight, made.size, {0, 1, 2, 3});
    connect(made.weight, made.size, {0, 1, 2, 3});
    const std::size_t of_input = heavy(name + ".grad", made.size);
    connect(of_outcome, 1, {0, 1, 0, 2});
    connect(made.weight, made.size, {0, 0, 1, 2});
    return of_input;
  }

  static constexpr auto none = static_cast<std::size_t>(-1);
  std::vector<Made> made_;
};

}  // namespace fourfold::solve
