// A linear program whose columns lie in [0, 1], some of them whole, and what a solver says of it.
// Not what it is made from: integer_forms.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fourfold::solve {

/// The costs of columns times their values are to be least.
struct IntegerProgram {
  struct Column {
    double cost = 0;
    double most = 1;  // its value; 0: it is out
    bool is_whole = false;
  };
  struct Term {
    int column = 0;
    double factor = 1;
  };
  std::vector<Column> columns;
  std::vector<Term> terms;                  // row by row
  std::vector<std::size_t> row_ends;        // in `terms`
  std::vector<double> row_least, row_most;  // what the sum of a row's terms may be

  /// Ends a row whose terms have been added.
  void end_row(double least, double most) {
    row_ends.push_back(terms.size());
    row_least.push_back(least);
    row_most.push_back(most);
  }
};

/// With or without the wish that columns are whole.
enum class Columns : std::uint8_t { as_told, continuous };

struct ProgramResult {
  enum class End : std::uint8_t { best, limit, infeasible, failed };
  End end = End::failed;
  std::vector<double> values;  // of columns; empty: none were found
  double cost = 0;             // of these
  double bound = 0;            // no values cost less
  int branches = 0;            // nodes of the tree that were looked at
};

}  // namespace fourfold::solve
