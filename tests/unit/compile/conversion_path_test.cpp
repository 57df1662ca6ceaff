// Paths between any two states of a tensor: every step is legal, and carried out on arrays of
// numbers they give each rank what it should hold.
#include "compile/conversion_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "compile/sharded_graph.h"
#include "unit/compile/arrays_on_ranks.h"
#include "unit/compile/conversion_cases.h"

namespace fourfold::compile {
namespace {

using op::Cut;
using op::Reduction;
using op::Sharding;

// --- the states along a path, by hand

bool is_in_use(const Sharding& state, AxisId axis) {
  for (const Cuts& cuts : state.dims)
    for (const Cut& cut : cuts)
      if (cut.axis == axis) return true;
  return state.partial_on(axis) != nullptr;
}

/// True if the innermost cut of `dim` in `after`, on `axis`, is new and the rest of the dim as
/// before.
bool gains(const Sharding& before, const Sharding& after, std::size_t dim, AxisId axis) {
  Cuts expected = cuts_of(before, dim);
  const Cuts cuts = cuts_of(after, dim);
  if (cuts.empty() || cuts.back().axis != axis) return false;
  expected.push_back(cuts.back());
  return cuts == expected;
}

bool equal_beside(const Sharding& a, const Sharding& b, std::size_t rank,
                  const std::vector<std::size_t>& changed) {
  for (std::size_t dim = 0; dim < rank; ++dim)
    if (std::find(changed.begin(), changed.end(), dim) == changed.end() &&
        cuts_of(a, dim) != cuts_of(b, dim))
      return false;
  return true;
}

bool is_legal(const Sharding& before, const Conversion& step, std::size_t rank) {
  const Sharding& after = step.after;
  std::vector<op::Partial> reduced = before.partial;
  bool is_reduced = !step.axes.empty();
  for (const AxisId along : step.axes) {
    const auto partial =
        std::find(reduced.begin(), reduced.end(), op::Partial{along, step.reduction});
    is_reduced = is_reduced && partial != reduced.end();
    if (partial != reduced.end()) reduced.erase(partial);
  }
  const AxisId axis = step.axes.front();
  if (step.axes.size() > 1 && step.kind != Collective::all_reduce) return false;
  if (step.kind == OwnMove::slice)
    return !is_in_use(before, axis) && gains(before, after, step.dim, axis) &&
           equal_beside(before, after, rank, {step.dim}) && after.partial == before.partial;
  if (!is_collective(step.kind)) return false;  // packing is choose_blocks' business
  switch (*step.kind.collective()) {
    case Collective::reduce_scatter:
      return is_reduced && gains(before, after, step.dim, axis) &&
             equal_beside(before, after, rank, {step.dim}) && after.partial == reduced;
    case Collective::all_reduce:
      return is_reduced && equal_beside(before, after, rank, {}) && after.partial == reduced;
    case Collective::all_gather:
      return gains(after, before, step.dim, axis) &&
             equal_beside(before, after, rank, {step.dim}) && after.partial == before.partial;
    case Collective::all_to_all:
      return step.dim != step.from_dim && gains(before, after, step.dim, axis) &&
             gains(after, before, step.from_dim, axis) &&
             equal_beside(before, after, rank, {step.dim, step.from_dim}) &&
             after.partial == before.partial;
  }
  return false;
}

bool makes_smaller(MoveKind kind) {
  return kind == OwnMove::slice || kind == Collective::reduce_scatter;
}

constexpr int num_cases = 3000;

TEST(ConversionPath, ends_in_the_target_by_legal_steps) {
  ConversionCases cases(1);
  for (int i = 0; i < num_cases; ++i) {
    const ConversionCase c = cases.next();
    Sharding now = c.from;
    for (const Conversion& step : conversion_path(c.from, c.to)) {
      ASSERT_TRUE(is_legal(now, step, c.shape.rank())) << text_of(c);
      now = step.after;
    }
    ASSERT_EQ(now, c.to) << text_of(c);
  }
}

/// How many dims have more cuts, or fewer, after a step.
std::pair<std::size_t, std::size_t> gained_and_lost(const Sharding& before, const Sharding& after) {
  std::pair<std::size_t, std::size_t> counts;
  const auto cuts = [](const Sharding& of, std::size_t dim) {
    return dim < of.dims.size() ? of.dims[dim].size() : 0;
  };
  for (std::size_t dim = 0; dim < std::max(before.dims.size(), after.dims.size()); ++dim) {
    counts.first += cuts(after, dim) > cuts(before, dim) ? 1 : 0;
    counts.second += cuts(after, dim) < cuts(before, dim) ? 1 : 0;
  }
  return counts;
}

TEST(ConversionPath, does_with_each_collective_what_its_row_says) {
  ConversionCases cases(5);
  std::map<Collective, int> seen;
  for (int i = 0; i < num_cases; ++i) {
    const ConversionCase c = cases.next();
    Sharding now = c.from;
    for (const Conversion& step : conversion_path(c.from, c.to)) {
      if (const auto collective = step.kind.collective()) {
        const CollectiveFacts& row = facts_of(*collective);
        const auto [gained, lost] = gained_and_lost(now, step.after);
        EXPECT_EQ(row.reduces(), step.after.partial.size() < now.partial.size()) << row.name;
        EXPECT_EQ(row.scatters(), gained == 1) << row.name;
        EXPECT_EQ(row.gathers(), lost == 1) << row.name;
        ++seen[*collective];
      }
      now = step.after;
    }
  }
  for (const CollectiveFacts& row : collectives)
    EXPECT_EQ(seen[row.kind] > num_cases / 10, row.plain == row.kind) << row.name;
}

TEST(ConversionPath, gives_every_rank_what_it_should_hold) {
  ConversionCases cases(2);
  std::map<MoveKind, int> steps;
  for (int i = 0; i < num_cases; ++i) {
    const ConversionCase c = cases.next();
    ArraysOnRanks ranks(c);
    for (const Conversion& step : conversion_path(c.from, c.to)) {
      ranks.run(step);
      ++steps[step.kind];
    }
    ASSERT_EQ(ranks.num_wrong(), 0U) << text_of(c);
  }
  for (const MoveKind kind : std::initializer_list<MoveKind>{
           Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
           Collective::all_to_all, OwnMove::slice})
    EXPECT_GT(steps[kind], num_cases / 10) << "the cases contain every kind of step";
}

TEST(ConversionPath, changes_each_cut_and_reduces_each_axis_once) {
  ConversionCases cases(3);
  int joined = 0;
  for (int i = 0; i < num_cases; ++i) {
    const ConversionCase c = cases.next();
    std::size_t lost = 0, gained = 0;
    for (std::size_t dim = 0; dim < c.shape.rank(); ++dim) {
      const Cuts from = cuts_of(c.from, dim), to = cuts_of(c.to, dim);
      const auto common = static_cast<std::size_t>(
          std::mismatch(from.begin(), from.end(), to.begin(), to.end()).first - from.begin());
      lost += from.size() - common;
      gained += to.size() - common;
    }
    std::map<MoveKind, std::size_t> steps;
    std::size_t reduced = 0;  // axes, by all-reduces
    for (const Conversion& step : conversion_path(c.from, c.to)) {
      ++steps[step.kind];
      if (step.kind == Collective::all_reduce) reduced += step.axes.size();
      if (step.axes.size() > 1) ++joined;
      EXPECT_FALSE(
          step.kind == Collective::all_reduce &&
          std::ranges::any_of(step.axes, [&](AxisId axis) { return is_in_use(c.to, axis); }))
          << "what is cut in the end is reduce-scattered: " << text_of(c);
    }
    EXPECT_EQ(steps[Collective::all_gather] + steps[Collective::all_to_all], lost) << text_of(c);
    EXPECT_EQ(
        steps[OwnMove::slice] + steps[Collective::reduce_scatter] + steps[Collective::all_to_all],
        gained)
        << text_of(c);
    EXPECT_EQ(steps[Collective::reduce_scatter] + reduced,
              c.from.partial.size() - c.to.partial.size())
        << text_of(c);
    EXPECT_LE(steps[Collective::all_reduce], 2U) << "one for each reduction: " << text_of(c);
  }
  EXPECT_GT(joined, num_cases / 200) << "the cases reduce along several axes at once";
}

// A step that makes the tensor smaller comes after one that makes it larger only where it was not
// possible before: its axis cut something else, or its dim had another cut to lose first.
TEST(ConversionPath, makes_the_tensor_smaller_before_it_makes_it_larger) {
  ConversionCases cases(4);
  int late = 0;
  for (int i = 0; i < num_cases; ++i) {
    const ConversionCase c = cases.next();
    const auto path = conversion_path(c.from, c.to);
    Sharding before_first_gather = c.from;
    bool has_gathered = false;
    for (const Conversion& step : path) {
      if (step.kind == Collective::all_gather) has_gathered = true;
      if (!has_gathered) before_first_gather = step.after;
      if (!has_gathered || !makes_smaller(step.kind)) continue;
      ++late;
      Cuts wanted = cuts_of(step.after, step.dim);
      wanted.pop_back();
      const bool axis_was_free = step.kind == OwnMove::slice
                                     ? !is_in_use(before_first_gather, step.axes.front())
                                     : before_first_gather.partial_on(step.axes.front()) != nullptr;
      EXPECT_FALSE(axis_was_free && cuts_of(before_first_gather, step.dim) == wanted) << text_of(c);
    }
  }
  EXPECT_GT(late, 0);
}

// --- paths that the strategies use

const Mesh grid{"main", {{"data", 2}, {"z", 2}, {"y", 2}, {"x", 2}}, {}};

Sharding state(std::string_view text, const std::vector<std::string>& partial = {}) {
  Sharding sharding = op::parse_sharded_shape(text, MeshId(0), grid)->sharding;
  for (std::size_t axis = 0; axis < grid.axes.size(); ++axis)
    for (const std::string& name : partial)
      if (grid.axes[axis].name == name) sharding.partial.push_back({AxisId(axis), Reduction::sum});
  return sharding;
}

std::string words(const Sharding& from, const Sharding& to) {
  std::string text;
  for (const Conversion& step : conversion_path(from, to))
    for (std::size_t i = 0; i < step.axes.size(); ++i)
      text += format("{}{}",
                     i > 0 ? "-" : format("{}{} ", text.empty() ? "" : ", ", to_string(step.kind)),
                     grid.axes[step.axes[i].index()].name);
  return text;
}

TEST(ConversionPath, of_equal_states_is_empty) {
  EXPECT_EQ(words(state("[8 (x), 4]", {"y"}), state("[8 (x), 4]", {"y"})), "");
}

TEST(ConversionPath, of_weights_and_activations_are_the_papers_collectives) {
  EXPECT_EQ(words(state("[8 (y,z), 4 (x)]"), state("[8 (y), 4 (x)]")), "all_gather z");
  EXPECT_EQ(words(state("[8 (data,z), 4 (x)]", {"y"}), state("[8 (data,z), 4 (x)]")),
            "all_reduce y");
  EXPECT_EQ(words(state("[8 (y), 4 (x)]", {"data", "z"}), state("[8 (y,z), 4 (x)]", {"data"})),
            "reduce_scatter z");
  // Queries, keys and values to heads, and back.
  EXPECT_EQ(
      words(state("[8 (data,z), 4, 3, 8 (x), 2]", {"y"}), state("[8 (data,z), 4, 3, 8 (x,y), 2]")),
      "reduce_scatter y");
  EXPECT_EQ(words(state("[8 (data,z), 4, 8 (x,y), 2]"), state("[8 (data,z), 4, 8 (x), 2]")),
            "all_gather y");
  // The embedding of a vocabulary cut on x and y, hidden then cut on y: the scatter comes first, so
  // that less is reduced.
  EXPECT_EQ(words(state("[8, 4, 32]", {"y", "x"}), state("[8, 4, 32 (y)]")),
            "reduce_scatter y, all_reduce x");
  EXPECT_EQ(words(state("[8 (x), 4]"), state("[8, 4 (x)]")), "all_to_all x");
  EXPECT_EQ(words(state("[37 (x:20,y:10,z:5)]"), state("[37 (x:20,y:10)]")), "all_gather z");
}

TEST(ConversionPath, to_a_partial_sum_that_is_none_yet_or_to_another_mesh_is_refused) {
  EXPECT_THROW(conversion_path(state("[8]"), state("[8]", {"x"})), InternalError);
  Sharding elsewhere = state("[8]");
  elsewhere.mesh = MeshId(1);
  EXPECT_THROW(conversion_path(state("[8]"), elsewhere), InternalError);
}

}  // namespace
}  // namespace fourfold::compile
