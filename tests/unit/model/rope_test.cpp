#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fourfold::model {
namespace {

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 2e-6 * expected[i]) << i;
}

TEST(Rope, frequencies_fall_from_one_by_powers_of_theta) {
  expect_near(rope_frequencies({.theta = 10000}, 8), {1, 0.1, 0.01, 0.001});
  expect_near(rope_frequencies({.kind = RopeKind::linear, .theta = 10000, .factor = 4}, 4),
              {0.25, 0.0025});
  EXPECT_EQ(rope_factor({.kind = RopeKind::linear, .factor = 4}), 1);
}

// ROPE of transformers 5.24, in float32.
TEST(Rope, of_llama3_equals_that_of_transformers) {
  expect_near(
      rope_frequencies(
          {.kind = RopeKind::llama3, .theta = 500000, .factor = 32, .original_positions = 8192},
          16),
      {1.0, 0.193922758102417, 0.03760603070259094, 0.00729266507551074, 0.000429556705057621,
       8.570255886297673e-06, 1.6619674170215148e-06, 3.2229328894572973e-07});
}

TEST(Rope, of_yarn_equals_that_of_transformers) {
  RopeSpec yarn{.kind = RopeKind::yarn, .theta = 10000, .factor = 4, .original_positions = 2048};
  expect_near(
      rope_frequencies(yarn, 16),
      {1.0, 0.3162277638912201, 0.10000000149011612, 0.025693506002426147, 0.00624999962747097,
       0.0013834965648129582, 0.0002500000118743628, 7.905694656074047e-05});
  EXPECT_NEAR(rope_factor(yarn), 0.1 * std::log(4.0) + 1, 1e-15);
  yarn.truncate = false;
  yarn.beta_fast = 20;
  expect_near(
      rope_frequencies(yarn, 16),
      {1.0, 0.3162277638912201, 0.10000000149011612, 0.026374880224466324, 0.0054581379517912865,
       0.0008145414176397026, 0.0002500000118743628, 7.905694656074047e-05});
  yarn.attention_factor = 1.5;
  EXPECT_EQ(rope_factor(yarn), 1.5);
}

/// The bounds of the ramp fall together where the model was trained on few positions.
TEST(Rope, of_yarn_has_no_ramp_of_no_length) {
  expect_near(
      rope_frequencies(
          {.kind = RopeKind::yarn, .theta = 10000, .factor = 2, .original_positions = 1}, 4),
      {1, 0.005});
}

}  // namespace
}  // namespace fourfold::model
