// Programs of several ranks over residues: what collectives, messages and packed tensors make of
// elements, on jobs written by hand.
#include "verify/residue_run.h"

#include <gtest/gtest.h>

#include "program/builder.h"
#include "program/jobs.h"
#include "verify/equal.h"
#include "verify/faults.h"

namespace fourfold::verify {
namespace {

using op::Residue;

constexpr Kind numbers{BufferRole::activation, DType::f32};

const Mesh& pair_of_ranks() {
  static const Mesh mesh{"main", {{"x", 2}}, {Rank(0), Rank(1)}};
  return mesh;
}

/// What `build` writes for each of two ranks, run once.
class TwoRanks {
 public:
  template <class Build>
  explicit TwoRanks(const Build& build) : job_(job_of_both(build)), run_(job_, arithmetic_) {
    fault_ = run_.run(0, {{}, {0, 0}, [](const Input&, std::int64_t sample, std::int64_t element) {
                            return static_cast<Residue>(100 * sample + element);
                          }});
  }

  std::string fault() { return fault_.value_or(""); }
  std::vector<Residue> elements(std::size_t rank, std::string_view name) {
    const Program& program = job_.program(rank, 0);
    const Slice slice = slice_of(program, name);
    Cells cells;
    run_.memory(rank).load(program, slice, program.buffer(slice.buffer).dtype, cells);
    for (const ElementKind kind : cells.kinds) EXPECT_NE(kind, no_element) << name;
    return cells.words;
  }

 private:
  template <class Build>
  static Job job_of_both(const Build& build) {
    std::vector<Bundle> bundles;
    for (const std::size_t rank : {0U, 1U}) {
      Builder b(op::ProgramKind::train, Rank(rank), pair_of_ranks(), {"math", "x", "feed"});
      b.group({"x"});
      b.serialize();
      b.task(TaskKind::forward, 0);
      build(b, rank);
      const Program program = b.finish();
      bundles.push_back({{program}, program.persistent_bytes, program.transient_bytes});
    }
    return program::job_of(bundles);
  }

  op::Residues residues_{1};
  ResidueArithmetic arithmetic_{residues_};
  ResidueJob job_;
  ResidueRun run_;
  std::optional<std::string> fault_;
};

using Words = std::vector<Residue>;

/// The rows of a tensor [rows, 2] become rank + 1, rank + 3, ...
void fill_rows(Builder& b, std::string_view name, std::size_t rank, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) {
    Compute fill{op::Fill{static_cast<double>(rank) + 1 + 2 * static_cast<double>(row), {1, 2}},
                 DType::f32,
                 {b.slice(name)},
                 std::nullopt,
                 "test"};
    fill.slices[0].offset_bytes = 8 * row;
    fill.slices[0].row_bytes = 8;
    b.add("math", fill);
  }
}

TEST(ResidueRun, members_of_a_group_have_the_sum_of_what_they_had) {
  TwoRanks ranks([](Builder& b, std::size_t rank) {
    b.buffer("a", {2, 2}, numbers);
    fill_rows(b, "a", rank, 2);
    b.all_reduce("x", "a");
  });
  EXPECT_EQ(ranks.fault(), "");
  for (const std::size_t rank : {0U, 1U}) EXPECT_EQ(ranks.elements(rank, "a"), Words({3, 3, 7, 7}));
}

TEST(ResidueRun, shares_of_sums_are_scattered_and_gathered_in_the_order_of_members) {
  TwoRanks ranks([](Builder& b, std::size_t rank) {
    b.buffer("a", {2, 2}, numbers);
    b.buffer("own", {2, 2}, numbers, {"x", ""});
    b.buffer("all", {2, 2}, numbers);
    fill_rows(b, "a", rank, 2);
    b.reduce_scatter("x", "a", "own");
    b.all_gather("x", "own", "all");
  });
  EXPECT_EQ(ranks.fault(), "");
  EXPECT_EQ(ranks.elements(0, "own"), Words({3, 3}));
  EXPECT_EQ(ranks.elements(1, "own"), Words({7, 7}));
  for (const std::size_t rank : {0U, 1U})
    EXPECT_EQ(ranks.elements(rank, "all"), Words({3, 3, 7, 7}));
}

TEST(ResidueRun, what_all_send_to_all_is_turned) {
  TwoRanks ranks([](Builder& b, std::size_t rank) {
    b.buffer("a", {4, 2}, numbers, {"x", ""});
    b.buffer("turned", {4, 2}, numbers, {"x", ""});
    fill_rows(b, "a", rank, 2);
    b.all_to_all("x", "a", "turned");
  });
  EXPECT_EQ(ranks.fault(), "");
  EXPECT_EQ(ranks.elements(0, "turned"), Words({1, 1, 2, 2}));
  EXPECT_EQ(ranks.elements(1, "turned"), Words({3, 3, 4, 4}));
}

TEST(ResidueRun, messages_of_a_tag_come_in_order) {
  TwoRanks ranks([](Builder& b, std::size_t rank) {
    b.buffer("a", {2, 2}, numbers);
    b.buffer("b", {2, 2}, numbers);
    if (rank == 0) {
      fill_rows(b, "a", 0, 2);
      b.add("x", Send{Rank(1), 5, b.slice("a")});
      fill_rows(b, "b", 1, 2);
      b.add("x", Send{Rank(1), 5, b.slice("b")});
    } else {
      b.add("x", Recv{Rank(0), 5, b.slice("a")});
      b.add("x", Recv{Rank(0), 5, b.slice("b")});
    }
  });
  EXPECT_EQ(ranks.fault(), "");
  EXPECT_EQ(ranks.elements(1, "a"), Words({1, 1, 3, 3}));
  EXPECT_EQ(ranks.elements(1, "b"), Words({2, 2, 4, 4}));
}

TEST(ResidueRun, blocks_stand_one_after_another_and_their_padding_is_zero) {
  constexpr Kind integers{BufferRole::feed, DType::i32};
  TwoRanks ranks([&](Builder& b, std::size_t) {
    b.program.feeds = {1, 2, 0, 2};
    b.buffer("rows", {2, 3}, integers);
    b.blocked("blocks", {2, 3}, integers, {}, 1, "x");
    b.buffer("back", {2, 3}, integers);
    b.feed(0, "rows");
    b.pack("math", "rows", "blocks");
    b.unpack("math", "blocks", "back");
  });
  EXPECT_EQ(ranks.fault(), "");
  EXPECT_EQ(ranks.elements(0, "rows"), Words({0, 1, 2, 100, 101, 102}));
  EXPECT_EQ(ranks.elements(0, "blocks"), Words({0, 1, 100, 101, 2, 0, 102, 0}));
  EXPECT_EQ(ranks.elements(0, "back"), ranks.elements(0, "rows"));
}

TEST(ResidueRun, a_message_that_never_comes_is_one_line) {
  TwoRanks ranks([](Builder& b, std::size_t rank) {
    b.buffer("a", {2, 2}, numbers);
    if (rank == 1) b.add("x", Recv{Rank(0), 5, b.slice("a")});
  });
  EXPECT_EQ(ranks.fault(),
            "rank 1: train: forward(0): instruction 0 (recv -> a peer 0 tag 5): it waits for ever");
}

TEST(ResidueRun, a_message_that_nobody_receives_is_one_line) {
  TwoRanks ranks([](Builder& b, std::size_t rank) {
    b.buffer("a", {2, 2}, numbers);
    fill_rows(b, "a", rank, 2);
    if (rank == 0) b.add("x", Send{Rank(1), 5, b.slice("a")});
  });
  EXPECT_EQ(ranks.fault(), "train: rank 0 sends rank 1 with tag 5 what nobody receives");
}

TEST(ResidueRun, members_that_do_something_else_are_one_line) {
  TwoRanks ranks([](Builder& b, std::size_t rank) {
    b.buffer("a", {2, 2}, numbers);
    b.buffer("b", {2, 2}, numbers);
    fill_rows(b, "a", rank, 2);
    if (rank == 0)
      b.all_reduce("x", "a");
    else
      b.all_to_all("x", "a", "b");
  });
  EXPECT_NE(ranks.fault().find("members of its group do something else"), std::string::npos)
      << ranks.fault();
}

TEST(ResidueRun, jobs_on_a_grid_written_by_hand_equal_the_one_of_one_rank) {
  const Job one = program::job_of(program::grid_job({}));
  for (const program::Grid& grid :
       {program::Grid{.x = 2}, program::Grid{.y = 2}, program::Grid{.y = 2, .x = 2}})
    EXPECT_EQ(all(compare(program::job_of(program::grid_job(grid)), one).faults), "");
}

}  // namespace
}  // namespace fourfold::verify
