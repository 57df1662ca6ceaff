#include "measure/reshard_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "comm/threads.h"

namespace fourfold::measure {
namespace {

/// A pair of meshes of two rows of one rank, and one of one row.
ReshardRequest small_request() {
  ReshardRequest request;
  request.tasks = {{"rows", Shape{8, 4}, "S0R", "RS0", {2, 1}, {2, 1}},
                   {"one", Shape{8, 4}, "RR", "RR", {1, 1}, {1, 1}}};
  request.strategies = {reshard::Strategy::broadcast, reshard::Strategy::send_recv};
  request.options.links = {{1e-6, 1e9}, {1e-7, 1e10}};
  request.rate = "1 GB/s";
  request.latency = "1 us";
  request.seconds = 0;
  return request;
}

std::string shown_of(const ReshardRequest& request, std::size_t ranks) {
  std::string shown;
  comm::ThreadJob job(ranks);
  job.run([&](comm::World& world) {
    measure_reshards(world, request, [&](const std::string& text) { shown += text; });
  });
  return shown;
}

TEST(ReshardTable, has_a_line_for_each_task_and_strategy_and_its_elements_are_right) {
  const std::vector<std::string> lines = split(shown_of(small_request(), 4), '\n');
  ASSERT_EQ(lines.size(), 8U);  // title, blank, header, four lines, the end
  EXPECT_EQ(lines[0],
            "4 ranks, of which each row of a mesh is taken for a host; a port of 1 GB/s and 1 us a "
            "message in the plans");
  EXPECT_TRUE(lines[3].starts_with("rows    send_recv") ||
              lines[3].starts_with("rows    broadcast"))
      << lines[3];
  EXPECT_TRUE(lines[5].starts_with("one ")) << lines[5];
  for (std::size_t line = 3; line < 7; ++line)
    EXPECT_TRUE(lines[line].ends_with("all right")) << lines[line];
}

TEST(ReshardTable, json_is_one_object_with_the_same_results) {
  ReshardRequest request = small_request();
  request.is_json = true;
  const Json json = parse_json(shown_of(request, 4), "the table");
  ASSERT_EQ(json.find("results")->items().size(), 4U);
  EXPECT_EQ(json.find("ranks")->as_integer(), 4);
}

TEST(ReshardTable, a_task_that_needs_more_ranks_than_there_are_is_refused) {
  EXPECT_EQ(small_request().ranks(), 4);
  EXPECT_THROW(shown_of(small_request(), 3), UserError);
}

TEST(ReshardTable, plans_alone_move_nothing_and_name_every_task) {
  std::string shown;
  print_plans(small_request(), [&](const std::string& text) { shown += text; });
  std::size_t rows = 0, ones = 0;
  for (const std::string& line : split(shown, '\n')) {
    rows += line.starts_with("rows: ") ? 1 : 0;
    ones += line.starts_with("one: ") ? 1 : 0;
  }
  EXPECT_EQ(rows, 2U) << shown;
  EXPECT_EQ(ones, 2U) << shown;
}

TEST(ReshardTable, plans_alone_are_one_object_of_json_with_every_transfer) {
  ReshardRequest request = small_request();
  request.is_json = true;
  std::string shown;
  print_plans(request, [&](const std::string& text) { shown += text; });
  const Json json = parse_json(shown, "the plans");
  const auto& plans = json.find("plans")->items();
  ASSERT_EQ(plans.size(), 4U);
  std::set<std::string> strategies;
  for (const Json& plan : plans) {
    strategies.insert(plan.find("strategy")->as_string());
    double last_s = 0;
    for (const Json& transfer : plan.find("transfers")->items())
      last_s = std::max(
          last_s, transfer.find("start_s")->as_double() + transfer.find("seconds")->as_double());
    EXPECT_DOUBLE_EQ(plan.find("planned_s")->as_double(), last_s);
  }
  EXPECT_EQ(strategies, (std::set<std::string>{"broadcast", "send_recv"}));
  const Json& whole = plans[2].find("transfers")->items().at(0);  // of `one`: all of the tensor
  EXPECT_EQ(whole.find("box")->dump(), "[[0,8],[0,4]]");
  EXPECT_EQ(whole.find("sender")->as_integer(), 0);
  EXPECT_EQ(whole.find("receivers")->dump(), "[[1]]");
}

}  // namespace
}  // namespace fourfold::measure
