// The residue form of a row against its reference kernel: where it is made of sums and products
// alone, both compute the same from numbers that a double holds exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "base/format.h"
#include "numerics/harness.h"
#include "op/examples.h"
#include "support/residue_trial.h"

namespace fourfold::numerics {
namespace {

/// Fills an operand, where it holds real numbers, with small multiples of `unit`, and returns it.
Array numbers_of(op::ResidueTrial& trial, std::size_t operand, double unit) {
  Array array = filled(trial.shapes[operand], 0);
  const Random random(operand, random_stream("multiples"));
  for (std::size_t i = 0; i < array.data.size(); ++i) {
    op::Residue& element = trial.elements[operand][i];
    if (trial.is_integer(operand)) {
      array.data[i] = static_cast<double>(static_cast<std::int64_t>(element));
    } else {
      const bool may_be_negative = trial.operands[operand].element != op::Element::f64;
      array.data[i] =
          unit * (static_cast<double>(random.below(17, i, 0)) - (may_be_negative ? 8 : 0));
      element = op::residue_of(array.data[i]);
    }
  }
  return array;
}

/// The op with numbers of few bits as attributes, none of which becomes 0.
op::Op with_dyadic_numbers(const op::Op& op) {
  constexpr double parts = 8;
  return op::visit_row(
      [](auto row) -> op::Op {
        op::for_each_attribute(row, []<class T>(std::string_view, T& value) {
          if constexpr (std::is_same_v<T, double>)
            if (value > 0) value = std::max(1.0, std::round(value * parts)) / parts;
        });
        return row;
      },
      op);
}

/// What the residue form and the reference made of the same numbers. Nothing where the form depends
/// on keys: something is hashed, drawn or put in order.
struct Comparison {
  op::ResidueTrial made;
  Arrays expected;
  bool is_exact;  // float32 gave the same

  static std::optional<Comparison> of(const op::Example& example, double unit) {
    op::ResidueTrial trial(with_dyadic_numbers(example.op), example.reads);
    Arrays reads, updates;
    for (std::size_t i = 0; i < trial.operands.size(); ++i) {
      if (trial.is_read(i)) reads.push_back(numbers_of(trial, i, unit));
      if (trial.operands[i].role == op::Role::update) updates.push_back(numbers_of(trial, i, unit));
    }
    const op::ResidueTrial made = trial.computed(op::some_keys());
    if (!made.has_outputs_of(trial.computed(op::Residues(12)))) return std::nullopt;
    const Arrays expected = apply(trial.op, exact, reads, updates).values,
                 shorter = apply(trial.op, {"reference", DType::f32}, reads, updates).values;
    return Comparison{made, expected,
                      std::ranges::equal(expected, shorter, {}, &Array::data, &Array::data)};
  }

  /// The first output that differs; empty where none does.
  std::string difference() const {
    for (std::size_t output = 0; output < expected.size(); ++output) {
      const std::size_t operand = made.operands.size() - expected.size() + output;
      for (std::size_t i = 0; i < expected[output].data.size(); ++i) {
        const double value = expected[output].data[i];
        const op::Residue residue = made.is_integer(operand)
                                        ? static_cast<op::Residue>(static_cast<std::int64_t>(value))
                                        : op::residue_of(value);
        if (made.elements[operand][i] != residue)
          return format("{} {}: not {}", made.operands[operand].name, i, value);
      }
    }
    return {};
  }
};

TEST(ResidueForms, give_what_the_reference_computes_where_no_function_is_hashed) {
  std::set<std::string> rows;
  for (const op::Example& example : op::examples()) {
    SCOPED_TRACE(format("{} {}", op::name(example.op), op::attributes_text(example.op, {})));
    // A double holds products of several small numbers, and means of such as are divisible.
    for (const double unit : {1, 360}) {
      const auto comparison = Comparison::of(example, unit);
      if (!comparison) continue;
      const std::string difference = comparison->difference();
      if (difference.empty()) rows.emplace(op::name(example.op));
      EXPECT_TRUE(difference.empty() || !comparison->is_exact) << difference << " times " << unit;
    }
  }
  EXPECT_GE(rows.size(), 50U);
}

}  // namespace
}  // namespace fourfold::numerics
