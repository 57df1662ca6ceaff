#include "measure/exchange_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "comm/threads.h"
#include "machine/known_clusters.h"

namespace fourfold::measure {
namespace {

std::string shown_of(const ExchangeRequest& request, std::size_t ranks) {
  std::string shown;
  comm::ThreadJob job(ranks);
  job.run([&](comm::World& world) {
    HostCarrier carrier(world);
    measure_exchanges(world, carrier, "a test", request,
                      [&](const std::string& text) { shown += text; });
  });
  return shown;
}

std::vector<std::string> names_of(const std::vector<NamedGroup>& groups) {
  std::vector<std::string> names;
  for (const NamedGroup& group : groups)
    names.push_back(group.name + " " + std::to_string(group.ranks) + " at " +
                    std::to_string(group.stride));
  return names;
}

TEST(ExchangeTable, an_axis_of_several_ranks_is_a_group_and_x_varies_fastest) {
  EXPECT_EQ(names_of(groups_of(12, GridSizes{2, 1, 3, 2})),
            (std::vector<std::string>{"world 12 at 1", "x 2 at 1", "z 3 at 2", "data 2 at 6"}));
  EXPECT_EQ(names_of(groups_of(4, std::nullopt)), std::vector<std::string>{"world 4 at 1"});
}

TEST(ExchangeTable, an_axis_that_joins_all_ranks_has_its_name_at_theirs) {
  EXPECT_EQ(names_of(groups_of(4, GridSizes{1, 4, 1, 1})),
            std::vector<std::string>{"world, y 4 at 1"});
}

TEST(ExchangeTable, has_a_line_for_each_group_kind_and_size) {
  const ExchangeRequest request{.grid = GridSizes{2, 1, 1, 2},
                                .kinds = {Collective::all_reduce, message_of_two},
                                .sizes = {64, 256},
                                .machine = {},
                                .seconds = 0};
  const std::vector<std::string> lines = split(shown_of(request, 4), '\n');
  EXPECT_EQ(lines.front(), "4 ranks on 1 host: a test");
  std::size_t sends = 0, reductions = 0;
  for (const std::string& line : lines) {
    sends += line.starts_with("send ") ? 1 : 0;
    reductions += line.starts_with("all_reduce ") ? 1 : 0;
  }
  EXPECT_EQ(sends, 6U);
  EXPECT_EQ(reductions, 6U);
}

TEST(ExchangeTable, a_link_is_known_where_a_machine_is_named) {
  ExchangeRequest request{.grid = {},
                          .kinds = {Collective::all_reduce},
                          .sizes = {64},
                          .machine = {},
                          .seconds = 0,
                          .is_json = true};
  const auto link_of = [&] {
    const Json json = parse_json(shown_of(request, 2), "the table");
    return json.find("results")->items().front().find("link_bytes_per_s")->dump();
  };
  EXPECT_EQ(link_of(), "null");
  request.machine = machine::load_cluster("perlmutter-40gb");
  EXPECT_NE(link_of(), "null");
}

}  // namespace
}  // namespace fourfold::measure
