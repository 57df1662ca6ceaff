#include "solve/integer_forms.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "solve/cbc.h"

namespace fourfold::solve {
namespace {

/// Where `infinite` stands in a row there is no bound.
constexpr double infinite = forbidden;

/// CBC counts in 32 bits; and it would take days for a hundredth of that.
constexpr double most_terms = 2e9;

class FormWriter {
 public:
  explicit FormWriter(const Problem& problem) : problem_(problem) {
    for (const Node& node : problem.nodes) {
      first_.push_back(columns());
      for (const double cost : node.comp)
        program_.columns.push_back({.cost = cost < forbidden ? cost : 0,
                                    .most = cost < forbidden ? 1. : 0.,
                                    .is_whole = true});
      for (int column = first_.back(); column < columns(); ++column)
        program_.terms.push_back({column, 1});
      program_.end_row(1, 1);
    }
  }

  void add_paper_edge(const Edge& edge) {
    for (std::size_t i = 0; i < problem_.choices(edge.src); ++i)
      for (std::size_t j = 0; j < problem_.choices(edge.dst); ++j) {
        const double cost = problem_.comm(edge, i, j);
        if (cost == 0) continue;
        program_.terms.push_back({column_of(edge.src, i), 1});
        program_.terms.push_back({column_of(edge.dst, j), 1});
        if (cost < forbidden) program_.terms.push_back({add_pair(cost), -1});
        program_.end_row(-infinite, 1);
      }
  }

  void add_tight_edge(const Edge& edge) {
    const std::size_t rows = problem_.choices(edge.src), columns = problem_.choices(edge.dst);
    std::vector<int> pairs;  // -1: forbidden
    for (const double cost : edge.comm) pairs.push_back(cost < forbidden ? add_pair(cost) : -1);
    for (std::size_t i = 0; i < rows; ++i)
      add_sum(column_of(edge.src, i), pairs, i * columns, 1, columns);
    for (std::size_t j = 0; j < columns; ++j)
      add_sum(column_of(edge.dst, j), pairs, j, columns, rows);
  }

  IntegerProgram result() && { return std::move(program_); }

 private:
  int columns() const { return static_cast<int>(program_.columns.size()); }
  int column_of(std::size_t node, std::size_t choice) const {
    return first_[node] + static_cast<int>(choice);
  }
  int add_pair(double cost) {
    program_.columns.push_back({.cost = cost});
    return columns() - 1;
  }
  /// The pairs of a choice add up to it.
  void add_sum(int choice, const std::vector<int>& pairs, std::size_t first, std::size_t stride,
               std::size_t number) {
    for (std::size_t i = 0; i < number; ++i)
      if (const int pair = pairs[first + i * stride]; pair >= 0)
        program_.terms.push_back({pair, 1});
    program_.terms.push_back({choice, -1});
    program_.end_row(0, 0);
  }

  const Problem& problem_;
  IntegerProgram program_;
  std::vector<int> first_;  // column of each node
};

/// The choice of each node that has most of the whole.
std::vector<std::size_t> choices_of(const Problem& problem, const std::vector<double>& values) {
  std::vector<std::size_t> choices;
  auto first = values.begin();
  for (const Node& node : problem.nodes) {
    const auto end = first + static_cast<std::ptrdiff_t>(node.comp.size());
    choices.push_back(static_cast<std::size_t>(std::max_element(first, end) - first));
    first = end;
  }
  return choices;
}

/// Empty where CBC can be asked.
std::optional<Refused> refusal_of(const Problem& problem, const char* name) {
  if (!has_cbc())
    return Refused{ExitCode::environment,
                   format("{}: this build has no CBC; install coinor-libcbc-dev (scripts/setup "
                          "does) and build again, or use elimination, o3 or o2",
                          name)};
  double terms = 0;
  for (const Edge& edge : problem.edges) terms += 3 * static_cast<double>(edge.comm.size());
  if (terms > most_terms)
    return Refused{ExitCode::does_not_fit,
                   format("{}: {:.1e} terms, of which CBC counts {:.1e}; use elimination, o3 or o2",
                          name, terms, most_terms)};
  return std::nullopt;
}

Outcome solve_program(const Problem& problem, const IntegerProgram& program, const char* name,
                      const Limits& limits) {
  const ProgramResult result = run_cbc(program, Columns::as_told, limits.branches);
  if (result.end == ProgramResult::End::infeasible) return no_assignment();
  if (result.values.empty())
    return Refused{ExitCode::does_not_fit,
                   format("{}: CBC has found no assignment after {} branches; use elimination, o3 "
                          "or o2",
                          name, result.branches)};
  Solution solution;
  solution.choices = choices_of(problem, result.values);
  solution.cost = cost_of(problem, solution.choices);
  require(solution.cost < forbidden, "CBC keeps to its constraints");
  const bool is_best = result.end == ProgramResult::End::best;
  solution.bound = is_best ? Bound::proved : Bound::branches;
  solution.lower_bound = is_best ? solution.cost : std::min(result.bound, solution.cost);
  solution.statistics = sizes_of(problem);
  solution.statistics.columns = program.columns.size();
  solution.statistics.visited = static_cast<std::uint64_t>(result.branches);
  return solution;
}

}  // namespace

IntegerProgram program_of(const Problem& problem, Form form) {
  FormWriter writer(problem);
  if (form == Form::paper)
    for (const Edge& edge : problem.edges) writer.add_paper_edge(edge);
  else
    for (const Edge& edge : joined_edges(problem)) writer.add_tight_edge(edge);
  return std::move(writer).result();
}

Outcome solve_paper_form(const Problem& problem, const Limits& limits) {
  if (auto refused = refusal_of(problem, "ilp")) return *std::move(refused);
  return solve_program(problem, program_of(problem, Form::paper), "ilp", limits);
}

Outcome solve_tight_form(const Problem& problem, const Limits& limits) {
  if (auto refused = refusal_of(problem, "ilp-tight")) return *std::move(refused);
  const IntegerProgram program = program_of(problem, Form::tight);
  const ProgramResult relaxed = run_cbc(program, Columns::continuous, 1);
  if (relaxed.end == ProgramResult::End::infeasible) return no_assignment();
  Outcome outcome = solve_program(problem, program, "ilp-tight", limits);
  auto* solution = std::get_if<Solution>(&outcome);
  if (solution != nullptr && relaxed.end == ProgramResult::End::best) {
    solution->relaxation = std::min(relaxed.bound, solution->cost);
    add_bound(relaxed.bound, *solution);
  }
  return outcome;
}

std::optional<double> relaxation_of(const Problem& problem) {
  if (refusal_of(problem, "relaxation")) return std::nullopt;
  const ProgramResult result = run_cbc(program_of(problem, Form::tight), Columns::continuous, 1);
  if (result.end != ProgramResult::End::best) return std::nullopt;
  return result.bound;
}

}  // namespace fourfold::solve
