#include "trace/summary.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/trace/small_timeline.h"

namespace fourfold::trace {
namespace {

constexpr double us = 1e-6;
constexpr double most = 1e-12;

const Part& part_of(const RankSummary& rank, const std::string& stream, const std::string& what) {
  for (const Part& part : rank.parts)
    if (part.stream == stream && part.what == what) return part;
  throw std::runtime_error("no part " + stream + " " + what);
}

TEST(Summary, times_of_a_rank_add_up_to_its_step) {
  const Summary summary = summarize(small_timeline(), "f");
  for (const RankSummary& rank : summary.ranks) {
    EXPECT_NEAR(rank.step_s, 100 * us, most);
    EXPECT_NEAR(rank.compute_s + rank.wait_s + rank.idle_s, rank.step_s, most);
    for (const char* stream : {"math", "x"}) {
      double sum = 0;
      for (const Part& part : rank.parts)
        if (part.stream == stream) sum += part.amount.seconds;
      EXPECT_NEAR(sum, rank.step_s, most) << stream;
    }
  }
}

TEST(Summary, classes_overlap_and_lateness_are_what_they_are_by_hand) {
  const Summary summary = summarize(small_timeline(), "f");
  ASSERT_EQ(summary.ranks.size(), 2U);
  const RankSummary &first = summary.ranks[0], &second = summary.ranks[1];
  EXPECT_NEAR(part_of(first, "math", "gemm").amount.seconds, 40 * us, most);
  EXPECT_NEAR(part_of(first, "math", "gemm").amount.gflop_per_s(), 200, 1e-6);
  EXPECT_NEAR(part_of(first, "math", "wait for x").amount.seconds, 20 * us, most);
  EXPECT_NEAR(part_of(first, "x", "all_reduce x").amount.seconds, 40 * us, most);
  EXPECT_NEAR(part_of(second, "x", "all_reduce x").amount.seconds, 30 * us, most);
  EXPECT_NEAR(part_of(first, "x", "send").amount.seconds, 10.001 * us, most);
  EXPECT_NEAR(first.communication_s, 50.001 * us, most);
  EXPECT_NEAR(first.overlapped_s, 20 * us, most) << "the gemm ends at 40 us";
  EXPECT_NEAR(second.overlapped_s, 20 * us, most);
  EXPECT_NEAR(first.early_s, 10 * us, most) << "rank 1 came at 30 us";
  EXPECT_NEAR(second.early_s, 0, most);
}

TEST(Summary, operations_are_summed_over_instructions_and_waits_are_none) {
  Timeline timeline = small_timeline();
  for (RankTimeline& rank : timeline.ranks) {
    rank.works[3].work_class = WorkClass::gemm;
    rank.works[3].name = "contract";
    rank.works[3].implementation = "onednn";
    rank.works[3].text = "contract c -> d";
  }
  const Summary summary = summarize(timeline, "f");
  ASSERT_EQ(summary.operations.size(), 3U) << "contract on two streams, all_reduce";
  EXPECT_EQ(summary.operations[0].what, "contract");
  EXPECT_EQ(summary.operations[0].by, "onednn");
  EXPECT_NEAR(summary.operations[0].amount.seconds, 40 * us, most);
  EXPECT_NEAR(summary.operations[1].amount.seconds, 35 * us, most) << "mean of 40 and 30";
  EXPECT_EQ(summary.longest.front().what, "contract a -> b");
  for (const Operation& operation : summary.longest) EXPECT_NE(operation.what, "wait a -> b");
}

TEST(Summary, several_steps_are_averaged) {
  Timeline timeline = small_timeline();
  for (RankTimeline& rank : timeline.ranks) {
    Step second = rank.steps[0];
    second.number = 6;
    second.whole.begin_ns += 1'000'000, second.whole.end_ns += 1'060'000;
    for (Span& span : second.spans) span.when.begin_ns += 1'000'000, span.when.end_ns += 1'000'000;
    second.spans[0].when.end_ns -= 20'000;
    rank.steps.push_back(second);
  }
  const Summary summary = summarize(timeline, "f");
  EXPECT_EQ(summary.num_steps, 2);
  EXPECT_NEAR(summary.step_s, 130 * us, most);
  EXPECT_NEAR(summary.longest_step_s, 160 * us, most);
  EXPECT_NEAR(part_of(summary.ranks[0], "math", "gemm").amount.seconds, 30 * us, most);
  EXPECT_NEAR(part_of(summary.ranks[0], "math", "gemm").amount.calls, 1, most);
}

TEST(Summary, the_text_says_it_within_a_hundred_columns) {
  const std::string text = to_text(summarize(small_timeline(), "f"));
  for (const char* expected :
       {"train: 1 step (5 to 5) on 2 ranks", "gemm", "wait for x", "all_reduce x", "200",
        "imbalance: rank 0", "longest instructions", "contract a -> b"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    EXPECT_LE(end - begin, 100U) << text.substr(begin, end - begin);
}

TEST(Summary, the_json_has_each_rank_and_stream) {
  const Json json = parse_json(to_json(summarize(small_timeline(), "f")).dump(), "summary");
  ASSERT_EQ(json.find("ranks")->items().size(), 2U);
  const Json& rank = json.find("ranks")->items()[1];
  EXPECT_NEAR(rank.find("step_s")->as_double(), 100 * us, most);
  EXPECT_EQ(rank.find("parts")->items().size(), 3U + 3U) << "idle among them";
}

TEST(Summary, a_trace_without_steps_is_refused) {
  Timeline timeline = small_timeline();
  timeline.ranks[1].steps.clear();
  EXPECT_THROW(summarize(timeline, "f"), UserError);
  EXPECT_THROW(summarize({}, "f"), UserError);
}

}  // namespace
}  // namespace fourfold::trace
