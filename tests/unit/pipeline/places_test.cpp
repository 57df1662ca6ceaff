#include "pipeline/places.h"

#include "unit/pipeline/pipelines.h"

namespace fourfold::pipeline {
namespace {

using Places = std::vector<std::size_t>;

TEST(Places, tell_where_each_micro_batch_stands_in_the_order_of_its_mesh) {
  // Mesh 0: F0 F1 B0 W0 F2 B1 W1 B2 W2. Mesh 1: F0 B0 W0 F1 ...
  const auto split = places_of_stages(made(with_delay({}, 0), 2, 3));
  ASSERT_EQ(split.size(), 2U);
  EXPECT_EQ(split[0].forward, (Places{0, 1, 4}));
  EXPECT_EQ(split[0].backward, (Places{2, 5, 7}));
  EXPECT_EQ(split[0].last(), (Places{3, 6, 8}));
  EXPECT_EQ(split[1].mesh, 1U);
  // F0 F1 B0 F2 B1 B2
  const auto whole = places_of_stages(made({}, 2, 3));
  EXPECT_EQ(whole[0].last(), (Places{2, 4, 5}));
  EXPECT_TRUE(whole[0].weight_backward.empty());
}

TEST(Places, of_several_stages_are_told_apart) {
  // Mesh 0: F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1
  const auto places =
      places_of_stages(made({.schedule = Schedule::interleaved, .stages_per_mesh = 2}, 2, 2));
  EXPECT_EQ(places[0].forward, (Places{0, 1}));
  EXPECT_EQ(places[2].forward, (Places{2, 3}));
  EXPECT_EQ(places[2].mesh, 0U);
  EXPECT_EQ(places[0].backward, (Places{6, 7}));
  EXPECT_EQ(places[3].mesh, 1U);
}

}  // namespace
}  // namespace fourfold::pipeline
