// The one file that calls CBC, by its C interface.
#include "solve/cbc.h"

#include <Cbc_C_Interface.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"

namespace fourfold::solve {
namespace {

/// Costs are scaled so that the largest is this: CBC takes reduced costs below 1e-7 for none, and
/// an assignment for better where it gains the increment.
constexpr double largest_cost = 1e3;
/// One thread; and neither heuristics nor Gomory's cuts, without which small programs take a fifth
/// of the time. With heuristics CBC 2.10.8 ends the process on an assertion of its own, once in
/// some hundred programs of the paper's form.
constexpr std::pair<const char*, const char*> options[] = {
    {"threads", "0"}, {"increment", "1e-7"}, {"heuristicsOnOff", "off"}, {"gomoryCuts", "off"}};

struct DeleteModel {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};
using Model = std::unique_ptr<Cbc_Model, DeleteModel>;

/// Columns after one another, as CBC takes them.
struct ByColumn {
  explicit ByColumn(const IntegerProgram& program)
      : starts(program.columns.size() + 1),
        rows(program.terms.size()),
        factors(program.terms.size()) {
    for (const IntegerProgram::Term& term : program.terms)
      ++starts[static_cast<std::size_t>(term.column) + 1];
    for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
    std::vector<int> next(starts.begin(), starts.end() - 1);
    std::size_t at = 0;
    for (std::size_t row = 0; row < program.row_ends.size(); ++row)
      for (; at < program.row_ends[row]; ++at) {
        const IntegerProgram::Term& term = program.terms[at];
        const auto place = static_cast<std::size_t>(next[static_cast<std::size_t>(term.column)]++);
        rows[place] = static_cast<int>(row);
        factors[place] = term.factor;
      }
  }
  std::vector<int> starts, rows;
  std::vector<double> factors;
};

double scale_of(const IntegerProgram& program) {
  double largest = 0;
  for (const IntegerProgram::Column& column : program.columns)
    if (column.most > 0) largest = std::max(largest, column.cost);
  return largest > 0 ? largest_cost / largest : 1;
}

void load(Cbc_Model* model, const IntegerProgram& program, Columns columns, double scale) {
  const ByColumn by_column(program);
  std::vector<double> least(program.columns.size()), most, costs;
  for (const IntegerProgram::Column& column : program.columns) {
    most.push_back(column.most);
    costs.push_back(column.most > 0 ? column.cost * scale : 0);
  }
  Cbc_loadProblem(model, static_cast<int>(program.columns.size()),
                  static_cast<int>(program.row_ends.size()), by_column.starts.data(),
                  by_column.rows.data(), by_column.factors.data(), least.data(), most.data(),
                  costs.data(), program.row_least.data(), program.row_most.data());
  if (columns == Columns::continuous) return;
  for (std::size_t i = 0; i < program.columns.size(); ++i)
    if (program.columns[i].is_whole) Cbc_setInteger(model, static_cast<int>(i));
}

ProgramResult result_of(Cbc_Model* model, const IntegerProgram& program, Columns columns,
                        double scale) {
  ProgramResult result;
  result.branches = Cbc_getNodeCount(model);
  const bool is_relaxed = columns == Columns::continuous;
  if (Cbc_isProvenOptimal(model) != 0)
    result.end = ProgramResult::End::best;
  else if (Cbc_isProvenInfeasible(model) != 0)
    result.end = ProgramResult::End::infeasible;
  else if (!is_relaxed && Cbc_isNodeLimitReached(model) != 0)
    result.end = ProgramResult::End::limit;
  const double* values = is_relaxed ? Cbc_getColSolution(model) : Cbc_bestSolution(model);
  const bool has_values = result.end == ProgramResult::End::best ||
                          (result.end == ProgramResult::End::limit && values != nullptr);
  if (has_values) {
    result.values.assign(values, values + program.columns.size());
    result.cost = Cbc_getObjValue(model) / scale;
  }
  result.bound = result.end == ProgramResult::End::limit
                     ? Cbc_getBestPossibleObjValue(model) / scale
                     : result.cost;
  return result;
}

}  // namespace

bool has_cbc() {
  return true;
}

ProgramResult run_cbc(const IntegerProgram& program, Columns columns, int most_branches) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const Model model(Cbc_newModel());
  require(model != nullptr, "CBC makes a model");
  Cbc_setLogLevel(model.get(), 0);
  for (const auto& [name, value] : options) Cbc_setParameter(model.get(), name, value);
  const double scale = scale_of(program);
  load(model.get(), program, columns, scale);
  Cbc_setMaximumNodes(model.get(), most_branches);
  Cbc_solve(model.get());
  return result_of(model.get(), program, columns, scale);
}

}  // namespace fourfold::solve
