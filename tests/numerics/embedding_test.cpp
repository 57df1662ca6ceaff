// Token and position embeddings, whole and cut vocabularies.
#include <gtest/gtest.h>

#include "numerics/harness.h"

namespace fourfold::numerics {

std::vector<Case> embedding_cases() {
  std::vector<Case> cases;
  for (const auto& [batch, time, channels, rows, first] :
       {std::array<std::int64_t, 5>{1, 1, 1, 1, 0},
        {3, 5, 7, 11, 0},
        {3, 5, 7, 4, 5},
        {4, 33, 130, 19, 2}}) {
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
    cases.push_back({"cached",
                     op::AddPositions{true},
                     {x, table, scalar(static_cast<double>(positions - time))}});
    cases.push_back({"overwriting",
                     op::PositionsGradient{positions, false},
                     {x},
                     {},
                     static_cast<double>(batch)});
    cases.push_back({"adding",
                     op::PositionsGradient{positions, true},
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
                  apply(op::PositionsGradient{6, false}, {"vector"}, {weight}).values[0]);
}

TEST(Embedding, tokens_outside_the_table_give_zero_rows) {
  const Array tokens{{1, 3}, {1, 2, 4}};
  for (const Backend& backend : backends_of(op::Embedding{}))
    EXPECT_EQ(apply(op::Embedding{2}, backend, {tokens, filled({2, 1}, 1)}).values[0].data,
              (std::vector<double>{0, 1, 0}));
}

}  // namespace
}  // namespace fourfold::numerics
