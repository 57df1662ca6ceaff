// Token and position embeddings, whole and cut vocabularies.
#include <gtest/gtest.h>

#include <algorithm>

#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

/// Documents of three tokens, from another place on in each sample.
Array starts_of(std::int64_t batch, std::int64_t time) {
  Array starts = filled({batch, time}, 0);
  for (std::int64_t sample = 0; sample < batch; ++sample)
    for (std::int64_t t = 0; t < time; ++t)
      starts.data[static_cast<std::size_t>(sample * time + t)] =
          static_cast<double>(std::max<std::int64_t>(0, t - (t + sample) % 3));
  return starts;
}

}  // namespace

std::vector<Case> embedding_cases() {
  std::vector<Case> cases;
  for (const auto& [batch, time, channels, rows, first] :
       {std::array<std::int64_t, 5>{1, 1, 1, 1, 0},
        {3, 5, 7, 11, 0},
        {3, 5, 7, 4, 5},
        {4, 33, 130, 19, 2},
        {1, 300, 5, 2, 0},        // many tokens of a row
        {2, 1100, 3, 300, 1}}) {  // more rows than a byte counts
    const Array tokens = integers({batch, time}, "tokens", rows + 2 * first);
    const Array grad = uniform({batch, time, channels}, "grad");
    cases.push_back({"table", op::Embedding{first}, {tokens, uniform({rows, channels}, "table")}});
    cases.push_back({"overwriting",
                     op::EmbeddingGradient{rows, first, false},
                     {tokens, grad},
                     {},
                     static_cast<double>(batch * time)});
    cases.push_back({"adding",
                     op::EmbeddingGradient{rows, first, true},
                     {tokens, grad},
                     {uniform({rows, channels}, "old")},
                     static_cast<double>(batch * time)});
  }
  for (const auto& [batch, time, channels, positions] :
       {std::array<std::int64_t, 4>{1, 1, 1, 1}, {3, 5, 7, 9}, {5, 33, 130, 40}}) {
    const Array x = uniform({batch, time, channels}, "x"),
                table = uniform({positions, channels}, "table");
    cases.push_back({"from the start", op::AddPositions{false}, {x, table}});
    cases.push_back({"from the middle", op::AddPositions{false, positions - time}, {x, table}});
    cases.push_back({"cached",
                     op::AddPositions{true},
                     {x, table, scalar(static_cast<double>(positions - time))}});
    const Array starts = starts_of(batch, time);
    cases.push_back(
        {"documents", op::AddPositions{false, positions - time, true}, {x, table, starts}});
    for (const bool adds : {false, true})
      cases.push_back({"documents",
                       op::PositionsGradient{positions, positions - time, adds, true},
                       {x, starts},
                       adds ? Arrays{uniform({positions, channels}, "old")} : Arrays{},
                       static_cast<double>(batch * time)});
    cases.push_back({"overwriting",
                     op::PositionsGradient{positions, 0, false},
                     {x},
                     {},
                     static_cast<double>(batch)});
    cases.push_back({"adding",
                     op::PositionsGradient{positions, positions - time, true},
                     {x},
                     {uniform({positions, channels}, "old")},
                     static_cast<double>(batch)});
  }
  return cases;
}

namespace {

TEST(EmbeddingGradient, equals_central_differences) {
  const Array tokens = integers({2, 4}, "tokens", 7), table = uniform({5, 3}, "table");
  const Array weight = uniform({2, 4, 3}, "weight");
  for (const std::int64_t first : {0, 2})
    expect_gradient(
        op::Embedding{first}, {tokens, table}, 1, {weight},
        apply(op::EmbeddingGradient{5, first, false}, {"vector"}, {tokens, weight}).values[0]);
}

TEST(PositionsGradient, equals_central_differences) {
  const Array x = uniform({2, 4, 3}, "x"), table = uniform({6, 3}, "table"),
              weight = uniform({2, 4, 3}, "weight");
  expect_gradient(op::AddPositions{false}, {x, table}, 0, {weight}, weight);
  expect_gradient(op::AddPositions{false}, {x, table}, 1, {weight},
                  apply(op::PositionsGradient{6}, {"vector"}, {weight}).values[0]);
  expect_gradient(op::AddPositions{false, 2}, {x, table}, 1, {weight},
                  apply(op::PositionsGradient{6, 2}, {"vector"}, {weight}).values[0]);
  const Array starts = starts_of(2, 4);
  expect_gradient(
      op::AddPositions{false, 2, true}, {x, table, starts}, 1, {weight},
      apply(op::PositionsGradient{6, 2, false, true}, {"vector"}, {weight, starts}).values[0]);
}

TEST(AddPositions, restart_in_each_document) {
  const Array x = filled({1, 6, 1}, 0), table{{6, 1}, {10, 11, 12, 13, 14, 15}},
              starts{{1, 6}, {0, 0, 2, 3, 3, 3}};
  for (const Backend& backend : backends_of(op::AddPositions{}))
    EXPECT_EQ(apply(op::AddPositions{false, 0, true}, backend, {x, table, starts}).values[0].data,
              (std::vector<double>{10, 11, 10, 10, 11, 12}));
}

TEST(Embedding, tokens_outside_the_table_give_zero_rows) {
  const Array tokens{{1, 3}, {1, 2, 4}};
  for (const Backend& backend : backends_of(op::Embedding{}))
    EXPECT_EQ(apply(op::Embedding{2}, backend, {tokens, filled({2, 1}, 1)}).values[0].data,
              (std::vector<double>{0, 1, 0}));
}

}  // namespace
}  // namespace fourfold::numerics
