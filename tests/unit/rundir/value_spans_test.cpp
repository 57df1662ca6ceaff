#include "rundir/value_spans.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace fourfold::rundir {
namespace {

const config::Key& key_of(const std::string& path) {
  return *std::ranges::find(config::keys(), path, &config::Key::path);
}

Held held(std::int64_t first_step, double lr) {
  Held one{first_step, {}};
  one.config.train.schedule.lr = lr;
  return one;
}

TEST(ValueSpans, equal_values_in_a_row_are_one_and_each_ends_where_the_next_begins) {
  const std::vector<Held> run = {held(0, 1e-3), held(100, 1e-3), held(250, 1e-4)};
  const auto spans = spans_of(key_of("optimizer.lr"), run);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].first, 0);
  EXPECT_EQ(spans[0].last, 250);
  EXPECT_NE(spans[0].place().find("steps 1 to 250"), std::string::npos) << spans[0].place();
  EXPECT_EQ(spans[1].last, std::nullopt);
  EXPECT_NE(spans[1].place().find("from step 251"), std::string::npos) << spans[1].place();
  EXPECT_EQ(spans_of(key_of("train.steps"), run).size(), 1U);
}

TEST(ValueSpans, spans_are_equal_by_value_and_steps_and_not_by_place) {
  const auto lr = [](const std::vector<Held>& run) {
    return spans_of(key_of("optimizer.lr"), run);
  };
  EXPECT_TRUE(lr({held(0, 1e-3)}) == lr({held(0, 1e-3)}));
  EXPECT_FALSE(lr({held(0, 1e-3)}) == lr({held(0, 1e-4)}));
  EXPECT_FALSE(lr({held(0, 1e-3), held(5, 2e-3)}) == lr({held(0, 1e-3), held(6, 2e-3)}));
}

TEST(ValueSpans, a_file_has_one_configuration) {
  const auto configs = held_configs("a.yaml", [](const std::string& path) {
    config::Config config;
    config.name = path;
    return config;
  });
  ASSERT_EQ(configs.size(), 1U);
  EXPECT_EQ(configs[0].first_step, 0);
  EXPECT_EQ(configs[0].config.name, "a.yaml");
}

}  // namespace
}  // namespace fourfold::rundir
