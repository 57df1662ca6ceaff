// The residue form of every row of the table, on the problems that the row itself states: it writes
// all of its outputs, depends on every operand and attribute, is linear where the row says so. A
// row that is added is covered by no line here.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "base/format.h"
#include "op/examples.h"
#include "support/residue_trial.h"

namespace fourfold::op {
namespace {

std::string words_of(const Op& op) {
  return format("{} {}", name(op), attributes_text(op, std::nullopt));
}

/// Names of operands and attributes that change nothing, as the row states with the reason.
std::set<std::string_view> without_meaning(const Op& op) {
  return visit_row(
      []<class Row>(const Row&) -> std::set<std::string_view> {
        if constexpr (requires { Row::without_meaning; })
          return {std::begin(Row::without_meaning), std::end(Row::without_meaning)};
        else
          return {};
      },
      op);
}

/// Rows of which something was found to matter or not, over all their examples.
class Findings {
 public:
  void add(const Op& op, const std::string& what, bool matters) {
    matters_[{std::string(name(op)), what}] |= matters;
    excused_.try_emplace(std::string(name(op)), without_meaning(op));
  }
  /// What is said to be without meaning must be, too: a list does not outlive its reason.
  void expect_all_to_matter() const {
    for (const auto& [of, matters] : matters_) {
      const auto& [row, what] = of;
      const bool is_excused = excused_.at(row).contains(what.substr(0, what.find('.')));
      EXPECT_EQ(matters, !is_excused) << row << ": " << what;
    }
  }
  std::size_t size() const { return matters_.size(); }

 private:
  std::map<std::pair<std::string, std::string>, bool> matters_;
  std::map<std::string, std::set<std::string_view>> excused_;
};

// --- outputs

TEST(ResidueForms, write_every_element_of_their_outputs) {
  for (const Example& example : examples()) {
    ResidueTrial one(example.op, example.reads), other = one;
    for (std::size_t i = 0; i < one.operands.size(); ++i) {
      if (one.operands[i].role != Role::write) continue;
      std::ranges::fill(one.elements[i], 12345);
      std::ranges::fill(other.elements[i], not_finite);
    }
    const ResidueTrial made = one.computed(some_keys());
    EXPECT_TRUE(made.has_outputs_of(other.computed(some_keys()))) << words_of(example.op);
    EXPECT_TRUE(made.has_outputs_of(one.computed(some_keys()))) << words_of(example.op);
    for (std::size_t i = 0; i < one.operands.size(); ++i) {
      if (one.is_read(i)) {
        EXPECT_EQ(made.elements[i], one.elements[i]) << words_of(example.op) << " writes a read";
        continue;
      }
      for (const Residue element : made.elements[i])
        EXPECT_TRUE(one.is_integer(i) || element < residue_prime || element == minus_infinity)
            << words_of(example.op) << " " << one.operands[i].name << " " << element;
    }
  }
}

TEST(ResidueForms, may_write_over_the_reads_that_their_rows_name) {
  for (const Example& example : examples()) {
    const ResidueTrial trial(example.op, example.reads);
    EXPECT_TRUE(trial.computed(some_keys()).has_outputs_of(trial.computed(some_keys(), true)))
        << words_of(example.op);
  }
}

TEST(ResidueForms, add_to_the_old_content_where_told_to_accumulate) {
  std::size_t tried = 0;
  for (const Example& example : examples()) {
    if (!can_accumulate(example.op)) continue;
    const ResidueTrial plain(with_accumulate(example.op, false), example.reads);
    ResidueTrial adding(with_accumulate(example.op, true), example.reads);
    for (std::size_t i = 0; i < plain.operands.size(); ++i)
      if (plain.operands[i].role != Role::write) adding.elements[i] = plain.elements[i];
    const ResidueTrial made = plain.computed(some_keys()), sum = adding.computed(some_keys());
    for (std::size_t i = 0; i < plain.operands.size(); ++i) {
      std::vector<Residue> expected = made.elements[i];
      if (plain.operands[i].role != adding.operands[i].role) {
        ++tried;
        for (std::size_t element = 0; element < expected.size(); ++element) {
          const Residue old = adding.elements[i][element];
          expected[element] =
              plain.is_integer(i) ? expected[element] + old : add(expected[element], old);
        }
      }
      EXPECT_EQ(sum.elements[i], expected) << words_of(example.op) << plain.operands[i].name;
    }
  }
  EXPECT_GE(tried, 8U);
}

TEST(ResidueForms, take_any_integers) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 10; ++trial)
    for (const Example& example : examples()) {
      ResidueTrial wild(example.op, example.reads);
      for (std::size_t i = 0; i < wild.operands.size(); ++i)
        for (Residue& element : wild.elements[i])
          if (wild.is_integer(i)) element = random() % 3 == 0 ? random() : random() % 32 - 8;
      const ResidueTrial made = wild.computed(some_keys());
      EXPECT_TRUE(made.has_outputs_of(wild.computed(some_keys()))) << words_of(example.op);
    }
}

// --- operands

/// What an element may become. A tag, too: there are operands of which only that counts.
std::vector<Residue> other_elements(const ResidueTrial& trial, std::size_t operand, Residue old) {
  if (!trial.is_integer(operand)) return {add(old, 12345), not_finite};
  std::vector<Residue> made;
  if (trial.shapes[operand].rank() == 0)
    for (int bit = 0; bit < 64; ++bit) made.push_back(old ^ Residue{1} << bit);
  else
    for (Residue value = 0; value < 20; ++value)
      if (value != old) made.push_back(value);
  if (trial.operands[operand].name == "labels") made.push_back(~Residue{0});
  return made;
}

/// True if an output becomes another one when one of some elements of the operand changes.
bool matters(const ResidueTrial& trial, std::size_t operand) {
  const ResidueTrial made = trial.computed(some_keys());
  const std::size_t count = trial.elements[operand].size(), step = 1 + count / 12;
  for (std::size_t element = 0; element < count; element += step)
    for (const Residue other : other_elements(trial, operand, trial.elements[operand][element])) {
      ResidueTrial changed = trial;
      changed.elements[operand][element] = other;
      if (!changed.computed(some_keys()).has_outputs_of(made)) return true;
    }
  return false;
}

TEST(ResidueForms, depend_on_every_operand) {
  Findings findings;
  for (const Example& example : examples()) {
    const ResidueTrial trial(example.op, example.reads);
    // What is kept from step to step is kept where no update is applied, and only there counts
    // whether an update that writes it over looks at it.
    ResidueTrial idle = trial;
    if (idle.find("applied") < idle.operands.size()) idle["applied"] = {0};
    for (std::size_t i = 0; i < trial.operands.size(); ++i)
      if (trial.operands[i].role != Role::write)
        findings.add(example.op, std::string(trial.operands[i].name),
                     matters(trial, i) || matters(idle, i));
  }
  findings.expect_all_to_matter();
  EXPECT_GE(findings.size(), 250U);
}

TEST(ResidueForms, change_nothing_that_is_kept_where_no_update_is_applied) {
  std::size_t tried = 0;
  for (const Example& example : examples()) {
    ResidueTrial trial(example.op, example.reads);
    const std::size_t applied = trial.find("applied");
    if (applied == trial.operands.size() || !trial.is_read(applied)) continue;
    trial["applied"] = {0};
    const ResidueTrial made = trial.computed(some_keys());
    for (std::size_t i = 0; i < trial.operands.size(); ++i) {
      if (trial.operands[i].role != Role::update) continue;
      ++tried;
      EXPECT_EQ(made.elements[i], trial.elements[i])
          << words_of(example.op) << trial.operands[i].name;
    }
  }
  EXPECT_GE(tried, 20U);
}

TEST(ResidueForms, hand_on_that_a_number_is_not_finite) {
  std::size_t tried = 0;
  for (const Example& example : examples()) {
    const ResidueTrial trial(example.op, example.reads);
    const ResidueTrial made = trial.computed(some_keys());
    for (std::size_t i = 0; i < trial.operands.size(); ++i) {
      if (!trial.is_read(i) || trial.is_integer(i) || trial.elements[i].empty()) continue;
      ResidueTrial other = trial, broken = trial;
      other.elements[i][0] = add(other.elements[i][0], 12345);
      broken.elements[i][0] = not_finite;
      other = other.computed(some_keys()), broken = broken.computed(some_keys());
      for (std::size_t output = 0; output < trial.operands.size(); ++output) {
        // A weight stays what it was, and is counted.
        const State state = trial.operands[output].state;
        if (trial.is_read(output) || trial.is_integer(output) || state == State::weight ||
            state == State::rounded || other.elements[output] == made.elements[output])
          continue;
        ++tried;
        EXPECT_TRUE(std::ranges::count(broken.elements[output], not_finite) > 0)
            << words_of(example.op) << " " << trial.operands[i].name << " to "
            << trial.operands[output].name;
      }
    }
  }
  EXPECT_GE(tried, 150U);
}

TEST(ResidueForms, give_the_rounded_copy_of_a_weight_what_the_weight_is) {
  std::size_t tried = 0;
  for (const Example& example : examples()) {
    const auto weight = operand_of(example.op, State::weight),
               rounded = operand_of(example.op, State::rounded);
    if (!rounded || !stands_for_itself(example.op)) continue;
    ++tried;
    ResidueTrial trial(example.op, example.reads);
    trial["grad"][0] = not_finite;
    const ResidueTrial made = trial.computed(some_keys());
    EXPECT_EQ(made.elements[*rounded], made.elements[*weight]) << words_of(example.op);
    EXPECT_EQ(made["weight"][0], trial["weight"][0]) << words_of(example.op);
    EXPECT_NE(made["weight"][1], trial["weight"][1]) << words_of(example.op);
    EXPECT_EQ(made["non_finite"].at(0), 1U) << words_of(example.op);
  }
  EXPECT_GE(tried, 2U);
}

// --- attributes

/// Other values of an attribute, with a name for each part of it that counts apart.
template <class T>
std::vector<std::pair<std::string, T>> changes(const T& value) {
  std::vector<std::pair<std::string, T>> made;
  const auto change = [&](const std::string& part, auto&& modify) {
    T other = value;
    modify(other);
    made.emplace_back(part, std::move(other));
  };
  if constexpr (std::is_same_v<T, bool>) {
    made.emplace_back("", !value);
  } else if constexpr (std::is_same_v<T, double>) {
    for (const double other : {2 * value, value / 2, value + 1})
      if (other != value) made.emplace_back("", other);
  } else if constexpr (std::is_integral_v<T>) {
    // 0 often stands for what is here alone, and so does 1.
    for (const T other : {value + 1, value + 2, 2 * value, value > 1 ? value - 1 : value})
      if (other != value) made.emplace_back("", other);
  } else if constexpr (std::is_same_v<T, RandomStream>) {
    for (const int bit : {0, 40}) change("", [&](T& other) { other.id ^= 1ULL << bit; });
  } else if constexpr (std::is_same_v<T, SampleWindow>) {
    // Which samples a chunk has, its `first` says.
    change(".micro", [](T& other) { ++other.micro; });
    change(".samples", [](T& other) { ++other.samples; });
    change(".first", [](T& other) { ++other.first; });
  } else if constexpr (std::is_same_v<T, TensorWindow>) {
    for (std::size_t dim = 0; dim < value.global.rank(); ++dim) {
      change(".global", [&](T& other) { ++other.global[dim]; });
      change(".first", [&](T& other) { --other.first[dim]; });
    }
  } else if constexpr (std::is_same_v<T, Numbers>) {
    for (std::size_t i = 0; i < value.size(); ++i) change("", [&](T& other) { other[i] += 1; });
  } else {
    static_assert(std::is_same_v<T, Shape>);
    for (std::size_t dim = 0; dim < value.rank(); ++dim)
      change("", [&](T& other) { ++other[dim]; });
  }
  return made;
}

/// Calls visit(name of the attribute or of a part of it, op with another value of it).
template <class Visit>
void for_each_change(const Op& op, Visit&& visit) {
  visit_row(
      [&](const auto& row) {
        auto other = row;
        for_each_attribute(other, [&]<class T>(std::string_view attribute, T& value) {
          const T old = value;
          for (const auto& [part, changed] : changes(old)) {
            value = changed;
            visit(std::string(attribute) + part, Op(other));
          }
          value = old;
        });
      },
      op);
}

bool have_same_operands(const Op& a, const Op& b) {
  const Operands first = operands(a), second = operands(b);
  return std::ranges::equal(first, second, [](const Operand& one, const Operand& other) {
    return one.name == other.name && one.role == other.role &&
           is_integer(one.element) == is_integer(other.element);
  });
}

/// Attributes that say in which type something is kept.
constexpr std::string_view kept_as[] = {"wide", "unrounded"};

TEST(ResidueForms, depend_on_every_attribute_but_those_that_say_how_something_is_kept) {
  Findings findings;
  for (const Example& example : examples()) {
    const ResidueTrial trial(example.op, example.reads);
    const ResidueTrial made = trial.computed(some_keys());
    for_each_change(example.op, [&](const std::string& attribute, const Op& changed) {
      // A change of shapes, or of what there is to read and to write, cannot go unseen.
      if (!have_same_operands(example.op, changed)) return;
      const Outputs shapes = judge_outputs(changed, example.reads);
      if (shapes.mistake() != nullptr || shapes.shapes() != outputs(example.op, example.reads))
        return;
      ResidueTrial other = trial;
      other.op = changed;
      const bool differs = !other.computed(some_keys()).has_outputs_of(made);
      if (std::ranges::find(kept_as, attribute) != std::end(kept_as))
        EXPECT_FALSE(differs) << words_of(changed);
      else
        findings.add(example.op, attribute, differs);
    });
  }
  findings.expect_all_to_matter();
  EXPECT_GE(findings.size(), 60U);
}

// --- linearity

/// The op on sums of what both have in these reads, and the sums of what it makes of each.
void expect_linear(const ResidueTrial& one, const std::vector<std::size_t>& reads) {
  const auto sum_of = [&](std::size_t operand, Residue a, Residue b) {
    return one.is_integer(operand) ? a + b : add(a, b);
  };
  ResidueTrial other = one, both = one;
  const ResidueTrial drawn(one.op, one.read_shapes(), 2);
  for (const std::size_t i : reads)
    for (std::size_t element = 0; element < one.elements[i].size(); ++element) {
      other.elements[i][element] = drawn.elements[i][element];
      both.elements[i][element] = sum_of(i, one.elements[i][element], other.elements[i][element]);
    }
  const ResidueTrial a = one.computed(some_keys()), b = other.computed(some_keys()),
                     sum = both.computed(some_keys());
  for (std::size_t i = 0; i < one.operands.size(); ++i)
    for (std::size_t element = 0; !one.is_read(i) && element < one.elements[i].size(); ++element)
      EXPECT_EQ(sum.elements[i][element], sum_of(i, a.elements[i][element], b.elements[i][element]))
          << words_of(one.op) << " " << one.operands[i].name << " " << element;
}

TEST(ResidueForms, are_linear_where_their_rows_are) {
  using Linear = FactorRule::Linear;
  std::size_t tried = 0;
  for (const Example& example : examples()) {
    if (!stands_for_itself(example.op)) continue;
    const Linear linear = factors(example.op, example.reads).linear;
    if (linear == Linear::no) continue;
    ResidueTrial trial(example.op, example.reads);
    std::vector<std::size_t> reads;
    for (std::size_t i = 0; i < trial.operands.size(); ++i) {
      if (!trial.is_read(i)) std::ranges::fill(trial.elements[i], 0);
      if (trial.is_read(i) && !trial.is_integer(i)) reads.push_back(i);
    }
    ++tried;
    if (linear == Linear::all) expect_linear(trial, reads);
    if (linear == Linear::first) expect_linear(trial, {0});
    for (std::size_t i = 0; linear == Linear::one && i < reads.size(); ++i)
      expect_linear(trial, {reads[i]});
  }
  EXPECT_GE(tried, 30U);
}

}  // namespace
}  // namespace fourfold::op
