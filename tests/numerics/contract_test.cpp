// Products of matrices: all transposes, row splits, accumulation, sizes around the register tiles.
#include <gtest/gtest.h>

#include "base/format.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

struct ContractSizes {
  std::int64_t m, n, k;
};

Case matrix_case(const ContractSizes& sizes, bool transpose_a, bool transpose_b, bool accumulate,
                 bool unrounded = false) {
  const auto [m, n, k] = sizes;
  Case sample;
  sample.name = format("{}x{}x{} {}{}", m, n, k, transpose_a ? "t" : "n", transpose_b ? "t" : "n") +
                (unrounded ? " unrounded" : "");
  sample.op = op::Contract{1, 1, transpose_a, transpose_b, accumulate, unrounded};
  sample.reads = {uniform(transpose_a ? Shape{k, m} : Shape{m, k}, "a"),
                  uniform(transpose_b ? Shape{n, k} : Shape{k, n}, "b")};
  if (accumulate) sample.updates = {uniform({m, n}, "out")};
  sample.reduction = static_cast<double>(k);
  return sample;
}

}  // namespace

std::vector<Case> contract_cases() {
  std::vector<Case> cases;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool accumulate : {false, true})
        for (const ContractSizes& sizes :
             {ContractSizes{1, 1, 1}, ContractSizes{7, 5, 3}, ContractSizes{13, 33, 300},
              ContractSizes{203, 130, 67}, ContractSizes{40, 90, 400}})
          cases.push_back(matrix_case(sizes, transpose_a, transpose_b, accumulate));
  // Many columns, more rows than pass under one panel, and gradients of weights too large for
  // threads to share what is summed.
  for (const bool transpose_b : {false, true}) {
    cases.push_back(matrix_case({20, 500, 130}, false, transpose_b, false));
    cases.push_back(matrix_case({1600, 17, 140}, false, transpose_b, true));
  }
  for (const ContractSizes& sizes : {ContractSizes{530, 515, 9}, ContractSizes{515, 530, 9}})
    cases.push_back(matrix_case(sizes, true, false, true));
  // The gradient of a weight: of either layout, and added up over micro-batches.
  for (const bool transpose_a : {false, true})
    for (const bool accumulate : {false, true})
      for (const ContractSizes& sizes :
           {ContractSizes{1, 1, 1}, ContractSizes{13, 33, 300}, ContractSizes{203, 130, 67}})
        cases.push_back(matrix_case(sizes, transpose_a, false, accumulate, true));
  Case split;
  split.name = "rows split over several dims";
  split.op = op::Contract{2, 2, false, false, false};
  split.reads = {uniform({3, 4, 5, 2}, "a"), uniform({5, 2, 3, 2, 7}, "b")};
  split.reduction = 10;
  cases.push_back(split);
  return cases;
}

namespace {

/// Gradients of out = op(A) op(B) as products again.
void expect_contract_gradients(const op::Contract& op, const Array& a, const Array& b) {
  const Array weight = uniform(op::outputs(op, std::vector<Shape>{a.shape, b.shape})[0], "weight");
  const auto rank = [](const Array& array) {
    return static_cast<std::int64_t>(array.shape.rank());
  };
  const std::int64_t rows = op.transpose_a ? rank(a) - op.a_rows : op.a_rows;  // dims of out from A
  // Not transposed: dA = W op(B)^T. Transposed: dA = op(B) W^T.
  const Array a_gradient =
      op.transpose_a
          ? apply(op::Contract{op.b_rows, rows, op.transpose_b, true, false}, exact, {b, weight})
                .values[0]
          : apply(op::Contract{rows, op.b_rows, false, !op.transpose_b, false}, exact, {weight, b})
                .values[0];
  const Array b_gradient =
      op.transpose_b
          ? apply(op::Contract{rows, op.a_rows, true, op.transpose_a, false}, exact, {weight, a})
                .values[0]
          : apply(op::Contract{op.a_rows, rows, !op.transpose_a, false, false}, exact, {a, weight})
                .values[0];
  expect_gradient(op, {a, b}, 0, {weight}, a_gradient);
  expect_gradient(op, {a, b}, 1, {weight}, b_gradient);
}

TEST(ContractGradient, equals_central_differences_for_all_transposes) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      expect_contract_gradients({1, 1, transpose_a, transpose_b, false},
                                uniform(transpose_a ? Shape{5, 4} : Shape{4, 5}, "a"),
                                uniform(transpose_b ? Shape{3, 5} : Shape{5, 3}, "b"));
}

TEST(ContractGradient, equals_central_differences_for_split_rows) {
  expect_contract_gradients({2, 1, false, false, false}, uniform({2, 3, 4}, "a"),
                            uniform({4, 3, 2}, "b"));
  expect_contract_gradients({1, 2, true, true, false}, uniform({4, 2, 2}, "a"),
                            uniform({3, 2, 4}, "b"));
}

TEST(Contract, by_own_tiles_has_the_same_bits_where_many_threads_share_rows_and_columns) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const ContractSizes& sizes :
           {ContractSizes{203, 130, 67}, ContractSizes{40, 500, 130}, ContractSizes{130, 90, 400}})
        for (const bool accumulate : {false, true}) {
          const Case sample = matrix_case(sizes, transpose_a, transpose_b, accumulate);
          SCOPED_TRACE(sample.name);
          const auto on = [&](int threads) {
            return apply(sample.op, {"vector", DType::f32, threads}, sample.reads, sample.updates)
                .bytes;
          };
          const auto alone = on(1);
          for (const int threads : {4, 6, 8, 12, 16, 17}) EXPECT_EQ(on(threads), alone) << threads;
        }
}

}  // namespace
}  // namespace fourfold::numerics
