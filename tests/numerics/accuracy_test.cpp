// Every case of every family on every backend: within the derived bound of the float64 reference,
// in place the same bits, twice and on any number of threads the same bits; and that no row of the
// op table is without a case.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/format.h"
#include "kernels/cpu/libraries.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

/// Made once: there are a thousand, some of them large.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = all_cases();
  return all;
}

TEST(Coverage, every_row_of_the_op_table_has_a_case) {
  std::set<std::size_t> covered;
  for (const Case& sample : cases()) covered.insert(sample.op.index());
  for (const op::Op& row : op::all_rows())
    EXPECT_TRUE(covered.contains(row.index()))
        << "add a case for " << op::name(row) << " to a file of tests/numerics";
}

/// The parameter is a place in the list of cases.
class Accuracy : public testing::TestWithParam<std::size_t> {
 protected:
  static const Case& sample() { return cases()[GetParam()]; }
};

TEST_P(Accuracy, result_is_within_the_derived_bound_of_the_float64_reference) {
  expect_within_bound(sample(), backends_of(sample().op));
}

TEST_P(Accuracy, two_runs_have_the_same_bits_also_where_outputs_take_over_inputs) {
  const bool may_alias = std::ranges::any_of(
      op::operands(sample().op), [](const auto& one) { return one.may_alias.has_value(); });
  const auto run = [&](const Backend& backend, Aliasing aliasing) {
    return apply(sample().op, backend, sample().reads, sample().updates, aliasing).bytes;
  };
  for (const Backend& backend : backends_of(sample().op)) {
    const auto first = run(backend, Aliasing::none);
    EXPECT_EQ(run(backend, Aliasing::none), first) << to_string(backend);
    if (!may_alias) continue;
    EXPECT_EQ(run(backend, Aliasing::where_allowed), first) << to_string(backend);
  }
}

TEST_P(Accuracy, own_loops_have_the_same_bits_on_any_number_of_threads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto on = [&](int threads) {
      return apply(sample().op, {"vector", dtype, threads}, sample().reads, sample().updates).bytes;
    };
    const auto alone = on(1);
    EXPECT_EQ(alone, on(2)) << to_string(dtype);
    EXPECT_EQ(alone, on(3)) << to_string(dtype);
  }
}

/// Where a CPU has no products of bf16, libraries take copies in float32; no other kernel asks for
/// them. tests/CMakeLists.txt runs this with oneDNN told that this CPU has none.
TEST_P(Accuracy, libraries_without_products_of_bf16_are_within_the_derived_bound) {
  if (kernels::cpu::has_bf16_products()) return;
  std::vector<Backend> backends = backends_of(sample().op);
  std::erase_if(backends, [](const Backend& one) {
    return one.dtype != DType::bf16 || one.implementation == "vector" ||
           one.implementation == "reference";
  });
  expect_within_bound(sample(), backends);
  for (const Backend& backend : backends) {
    const auto run = [&](Aliasing aliasing) {
      return apply(sample().op, backend, sample().reads, sample().updates, aliasing).bytes;
    };
    EXPECT_EQ(run(Aliasing::none), run(Aliasing::where_allowed)) << to_string(backend);
  }
}

std::string name_of(const testing::TestParamInfo<std::size_t>& tested) {
  const Case& sample = cases()[tested.param];
  std::string name = format("{}_{}_{}", op::name(sample.op), sample.name, tested.index);
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, Accuracy, testing::Range(std::size_t{0}, cases().size()), name_of);

}  // namespace
}  // namespace fourfold::numerics
