// Degrees of what rows make of numbers of known degrees.
#include "op/degrees.h"

#include <gtest/gtest.h>

namespace fourfold::op {
namespace {

/// Scalars and tensors of two elements, in the order of a row's operands.
class Degrees {
 public:
  explicit Degrees(std::vector<Degree> degrees) {
    for (const Degree& degree : degrees) words_.push_back({word_of(degree), word_of(degree)});
  }
  Degree made_by(const Op& op) {
    std::vector<ResidueTensor> all;
    for (auto& words : words_) all.push_back({{2}, words, false});
    compute_degrees(op, all);
    return degree_of(words_.back()[0]);
  }

 private:
  std::vector<std::vector<Residue>> words_;
};

TEST(DegreeOf, a_sum_is_the_larger_one) {
  const Degree sum = Degrees({{3, 5}, {7, 2}, {}}).made_by(Add{});
  EXPECT_EQ(sum.degree, 7);
  EXPECT_EQ(sum.before, 5);
}
TEST(DegreeOf, a_product_is_the_sum) {
  EXPECT_EQ(Degrees({{3, 0}, {7, 0}, {}}).made_by(Contract{}).degree, 10);
}
TEST(DegreeOf, a_sum_that_goes_on_is_not_below_what_it_was) {
  const Contract row{.accumulate = true};
  EXPECT_EQ(Degrees({{3, 0}, {7, 0}, {4, 0}}).made_by(row).degree, 10);
  EXPECT_EQ(Degrees({{3, 0}, {7, 0}, {40, 0}}).made_by(row).degree, 40);
}
TEST(DegreeOf, a_hash_is_one_and_remembers_what_was_hashed) {
  const Degree hash = Degrees({{3, 5}, {}}).made_by(Gelu{});
  EXPECT_EQ(hash.degree, 1);
  EXPECT_GE(hash.before, 5 + 3);
}
TEST(DegreeOf, a_gradient_enters_once) {
  const Degree near = Degrees({{3, 0}, {100, 0}, {}}).made_by(GeluGradient{}),
               far = Degrees({{3, 0}, {200, 0}, {}}).made_by(GeluGradient{});
  EXPECT_EQ(far.degree - near.degree, 100);
}
TEST(DegreeOf, numbers_beyond_all_bounds_stay_so) {
  EXPECT_GT(Degrees({{1e30, 0}, {1e30, 0}, {}}).made_by(Contract{}).degree, 1e30);
}

}  // namespace
}  // namespace fourfold::op
