// Every case of every family on every backend: within the derived bound of the float64 reference,
// in place the same bits, twice and on any number of threads the same bits; and that no row of the
// op table is without a case.
#include <gtest/gtest.h>

#include <set>

#include "base/format.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

template <std::size_t... indices>
std::vector<std::string> all_op_names(std::index_sequence<indices...>) {
  return {std::string(std::variant_alternative_t<indices, op::AnyRow>::name)...};
}

TEST(Coverage, every_row_of_the_op_table_has_a_case) {
  std::set<std::size_t> covered;
  for (const Case& sample : all_cases()) covered.insert(sample.op.index());
  const auto names = all_op_names(std::make_index_sequence<std::variant_size_v<op::AnyRow>>{});
  for (std::size_t row = 0; row < names.size(); ++row)
    EXPECT_TRUE(covered.contains(row))
        << "add a case for " << names[row] << " to a file of tests/numerics";
}

class Accuracy : public testing::TestWithParam<Case> {};

TEST_P(Accuracy, result_is_within_the_derived_bound_of_the_float64_reference) {
  for (const Backend& backend : backends_of(GetParam().op))
    expect_within_bound(GetParam(), backend);
}

TEST_P(Accuracy, outputs_that_take_over_an_input_have_the_same_bits) {
  const Case& sample = GetParam();
  for (const Backend& backend : backends_of(sample.op))
    EXPECT_EQ(
        apply(sample.op, backend, sample.reads, sample.updates, Aliasing::none).bytes,
        apply(sample.op, backend, sample.reads, sample.updates, Aliasing::where_allowed).bytes)
        << to_string(backend);
}

TEST_P(Accuracy, two_runs_have_the_same_bits) {
  const Case& sample = GetParam();
  for (const Backend& backend : backends_of(sample.op))
    EXPECT_EQ(apply(sample.op, backend, sample.reads, sample.updates).bytes,
              apply(sample.op, backend, sample.reads, sample.updates).bytes)
        << to_string(backend);
}

TEST_P(Accuracy, own_loops_have_the_same_bits_on_any_number_of_threads) {
  const Case& sample = GetParam();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto on = [&](int threads) {
      return apply(sample.op, {"vector", dtype, threads}, sample.reads, sample.updates).bytes;
    };
    EXPECT_EQ(on(1), on(2)) << to_string(dtype);
    EXPECT_EQ(on(1), on(3)) << to_string(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Accuracy, testing::ValuesIn(all_cases()), [](const auto& tested) {
  std::string name = format("{}_{}_{}", op::name(tested.param.op), tested.param.name, tested.index);
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
});

}  // namespace
}  // namespace fourfold::numerics
