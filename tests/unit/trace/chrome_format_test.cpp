#include "trace/chrome_format.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/chrome_trace.h"
#include "unit/trace/small_timeline.h"

namespace fourfold::trace {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ChromeFormat, what_is_written_reads_back_to_the_same_timeline) {
  const Timeline timeline = small_timeline();
  EXPECT_EQ(parse_chrome_json(to_chrome_json(timeline), "steps.json"), timeline);
}

TEST(ChromeFormat, a_prediction_reads_back_beside_what_was_measured) {
  const Timeline timeline = small_timeline();
  Timeline predicted = timeline;
  predicted.ranks.erase(predicted.ranks.begin());  // the other one stands for it
  for (Span& span : predicted.ranks[0].steps[0].spans) span.when.end_ns += 7;
  const std::string text = to_chrome_json(timeline, &predicted);
  const TimelineFile file = parse_timeline_file(text, "steps.json");
  EXPECT_EQ(file.timeline, timeline);
  EXPECT_EQ(file.predicted, predicted);
  EXPECT_EQ(parse_chrome_json(text, "steps.json"), timeline);
  EXPECT_EQ(parse_timeline_file(to_chrome_json(timeline), "x").predicted, std::nullopt);
  EXPECT_EQ(parse_chrome_json(to_chrome_json(predicted), "some ranks"), predicted);
  EXPECT_NE(text.find("\"name\":\"predicted: "), std::string::npos) << text;
}

TEST(ChromeFormat, events_may_stand_in_any_order) {
  const Timeline timeline = small_timeline();
  const Json json = parse_json(to_chrome_json(timeline), "steps.json");
  std::vector<Json> events = json.find("traceEvents")->items();
  std::ranges::reverse(events);
  Json turned = json;
  turned.set("traceEvents", Json::array(events));
  EXPECT_EQ(parse_chrome_json(turned.dump(), "steps.json"), timeline);
}

TEST(ChromeFormat, a_viewer_finds_all_it_needs) {
  const ChromeTraceCheck check(parse_json(to_chrome_json(small_timeline()), "steps.json"));
  EXPECT_EQ(check.faults, std::vector<std::string>());
  EXPECT_EQ(check.num_slices, 2U * (1 + 1 + 4)) << "a step, its task, its instructions";
  EXPECT_EQ(check.num_flows, 2U) << "the all-reduce and the message";
}

TEST(ChromeFormat, slices_name_their_layer_and_tasks_stand_above_them) {
  Timeline timeline = small_timeline();
  RankTimeline& rank = timeline.ranks[0];
  rank.works[0].text = "contract blocks.3.ln2, w -> h1";
  rank.works[1].task = "update";
  const std::string text = to_chrome_json(timeline);
  EXPECT_NE(text.find("\"name\":\"contract blocks.3\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"dur\":40.000,\"name\":\"forward(0)\",\"cat\":\"task\""), std::string::npos)
      << text;
  EXPECT_NE(text.find("\"dur\":20.000,\"name\":\"update\",\"cat\":\"task\""), std::string::npos)
      << text;
  EXPECT_EQ(parse_chrome_json(text, "steps.json"), timeline);
  EXPECT_EQ(ChromeTraceCheck(parse_json(text, "x")).faults, std::vector<std::string>());
}

TEST(ChromeFormat, a_slice_that_works_on_more_tensors_than_its_text_names_has_no_layer) {
  Timeline timeline = small_timeline();
  timeline.ranks[0].works[0].text = "contract wte.weight, blocks.0.ln1.gain and 24 more";
  const std::string text = to_chrome_json(timeline);
  EXPECT_EQ(text.find("\"name\":\"contract blocks.0\""), std::string::npos) << text;
  EXPECT_EQ(parse_chrome_json(text, "steps.json"), timeline);
}

TEST(ChromeFormat, arrows_go_from_who_came_first_whatever_its_rank) {
  Timeline timeline = small_timeline();
  for (Span& span : timeline.ranks[0].steps[0].spans)
    if (timeline.ranks[0].works[span.work].name == "all_reduce") span.when.begin_ns = 50'000;
  const ChromeTraceCheck check(parse_json(to_chrome_json(timeline), "steps.json"));
  EXPECT_EQ(check.faults, std::vector<std::string>());
}

TEST(ChromeFormat, the_check_sees_what_a_viewer_would_miss) {
  const std::string good = to_chrome_json(small_timeline());
  const auto faults = [](const std::string& text) {
    return ChromeTraceCheck(parse_json(text, "x")).faults.size();
  };
  EXPECT_GT(faults(replaced(good, "\"thread_name\"", "\"thread\"")), 0U);
  EXPECT_GT(faults(replaced(good, "\"ph\":\"f\"", "\"ph\":\"t\"")), 0U);
  EXPECT_GT(faults(replaced(good, "\"dur\":40.000", "\"dur\":40.001")), 0U) << "overlaps the wait";
  EXPECT_GT(faults(replaced(good, "\"ts\":70.000,\"name\":\"message\"",
                            "\"ts\":90.000,\"name\":\"message\"")),
            0U);
}

TEST(ChromeFormat, other_files_and_damaged_ones_are_refused_in_one_line) {
  const std::string good = to_chrome_json(small_timeline());
  for (const std::string& bad :
       {std::string("{}"), std::string("[]"), std::string("{\"traceEvents\":[]}"),
        replaced(good, "\"version\":1", "\"version\":2"),
        replaced(good, "\"program\":\"train\"", "\"program\":7"),
        replaced(good, "\"program\":\"train\"", "\"program\":\"trian\""),
        replaced(good, "\"rank\":1", "\"rank\":0"), replaced(good, "\"traceEvents\"", "\"events\""),
        replaced(good, "\"pid\":0,\"tid\":0,\"ts\"", "\"pid\":2,\"tid\":0,\"ts\""),
        replaced(good, "\"tid\":1,\"ts\"", "\"tid\":9,\"ts\""),
        replaced(good, "\"ts\":0.000", "\"ts\":\"soon\""),
        replaced(good, "\"ts\":0.000", "\"ts\":1e300"),
        replaced(good, "\"cat\":\"gemm\"", "\"cat\":\"magic\""),
        replaced(good, "\"instruction\":0", "\"instruction\":-1"), good.substr(0, 2000)}) {
    try {
      parse_chrome_json(bad, "steps.json");
      ADD_FAILURE() << "was read: " << bad.substr(0, 300);
    } catch (const UserError& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      EXPECT_EQ(text.find("steps.json"), 0U) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace fourfold::trace
