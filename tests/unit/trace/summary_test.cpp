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

const Traffic& traffic_of(const std::vector<Traffic>& traffic, const std::string& name) {
  for (const Traffic& one : traffic)
    if (one.name == name) return one;
  throw std::runtime_error("no traffic " + name);
}

void expect_traffic(const Traffic& got, double calls, double bytes, double all_us, double hidden_us,
                    double exposed_us) {
  SCOPED_TRACE(got.name);
  EXPECT_NEAR(got.amount.calls, calls, most);
  EXPECT_NEAR(got.amount.bytes, bytes, most);
  EXPECT_NEAR(got.amount.seconds, all_us * us, most);
  EXPECT_NEAR(got.hidden_s, hidden_us * us, most);
  EXPECT_NEAR(got.exposed_s, exposed_us * us, most);
}

TEST(Summary, traffic_is_hidden_beside_math_and_exposed_where_math_waits_for_it) {
  const Summary summary = summarize(small_timeline(), "f");
  const auto &first = summary.ranks[0].traffic, &second = summary.ranks[1].traffic;
  ASSERT_EQ(first.size(), 2U);
  expect_traffic(traffic_of(first, "x"), 1, 1e4, 40, 20, 20);
  expect_traffic(traffic_of(second, "x"), 1, 1e4, 30, 20, 10);
  // The mathematics ends at 60 us, before the message.
  expect_traffic(traffic_of(first, "to.1"), 1, 100, 10.001, 0, 10.001);
  expect_traffic(traffic_of(second, "from.0"), 1, 100, 10.001, 0, 10.001);
}

TEST(Summary, of_one_rank_alone_knows_all_but_how_early_it_was) {
  const Timeline timeline = small_timeline();
  const Summary summary = summarize(timeline, "f");
  double early_s = 0;
  for (std::size_t i = 0; i < timeline.ranks.size(); ++i) {
    const RankSummary alone = summarize_alone(timeline.ranks[i]), &among = summary.ranks[i];
    EXPECT_EQ(alone.early_s, 0);
    early_s += among.early_s;
    EXPECT_EQ(alone.step_s, among.step_s);
    EXPECT_EQ(alone.compute_s, among.compute_s);
    EXPECT_EQ(alone.wait_s, among.wait_s);
    EXPECT_EQ(alone.overlapped_s, among.overlapped_s);
    ASSERT_EQ(alone.parts.size(), among.parts.size());
    for (std::size_t part = 0; part < alone.parts.size(); ++part) {
      EXPECT_EQ(alone.parts[part].what, among.parts[part].what);
      EXPECT_EQ(alone.parts[part].amount.seconds, among.parts[part].amount.seconds);
    }
    ASSERT_EQ(alone.traffic.size(), among.traffic.size());
    for (std::size_t one = 0; one < alone.traffic.size(); ++one)
      EXPECT_EQ(alone.traffic[one].exposed_s, among.traffic[one].exposed_s);
  }
  EXPECT_GT(early_s, 0);
}

/// One rank, one step of 100 us: classes that run side by side, and one that outlasts the
/// mathematics.
RankTimeline rank_with_two_classes(std::size_t rank) {
  RankTimeline made{rank, "", "", {"math", "z.weights", "z.gradients"}, {}, {}};
  made.steps.push_back({1, {0, 100'000}, {}});
  return made;
}

void run(RankTimeline& rank, std::size_t stream, WorkClass work_class, const std::string& traffic,
         std::int64_t begin_us, std::int64_t end_us) {
  Work work = work_of(rank.works.size(), stream, work_class, "w");
  work.traffic = traffic;
  if (work_class == WorkClass::communication) work.bytes = 1000;
  rank.steps[0].spans.push_back({rank.works.size(), {1000 * begin_us, 1000 * end_us}});
  rank.works.push_back(work);
}

TEST(Summary, classes_of_traffic_that_run_at_once_are_told_apart) {
  using enum WorkClass;
  const std::string weights = "z.weights", gradients = "z.gradients";
  RankTimeline first = rank_with_two_classes(0), second = rank_with_two_classes(1);
  run(first, 0, gemm, "", 0, 30);
  run(first, 0, wait, weights, 30, 40);
  run(first, 0, gemm, "", 40, 70);
  run(first, 0, wait, gradients, 70, 80);
  run(first, 0, optimizer, "", 80, 90);
  run(first, 1, communication, weights, 10, 40);
  run(first, 1, communication, weights, 40, 60);
  run(first, 1, communication, weights, 85, 100);
  run(first, 2, communication, gradients, 50, 80);
  // The gather runs while the mathematics waits for gradients: neither hidden nor exposed.
  run(second, 0, gemm, "", 0, 20);
  run(second, 0, wait, gradients, 20, 60);
  run(second, 0, gemm, "", 60, 80);
  run(second, 1, communication, weights, 9, 50);
  run(second, 2, communication, gradients, 20, 60);
  const Summary summary = summarize({op::ProgramKind::train, {first, second}}, "f");
  expect_traffic(traffic_of(summary.ranks[0].traffic, weights), 3, 3000, 65, 45, 20);
  expect_traffic(traffic_of(summary.ranks[0].traffic, gradients), 1, 1000, 30, 20, 10);
  expect_traffic(traffic_of(summary.ranks[1].traffic, weights), 1, 1000, 41, 11, 0);
  expect_traffic(traffic_of(summary.ranks[1].traffic, gradients), 1, 1000, 40, 0, 40);
  ASSERT_EQ(summary.traffic.size(), 2U);
  expect_traffic(traffic_of(summary.traffic, weights), 2, 2000, 53, 28, 10);
  expect_traffic(traffic_of(summary.traffic, gradients), 1, 1000, 35, 10, 25);
  const std::string text = to_text(summary);
  EXPECT_NE(text.find("traffic      calls     bytes     ms  hidden  exposed\n"
                      "z.gradients      1    1000 B  0.035   0.010    0.025\n"
                      "z.weights        2  1.95 KiB  0.053   0.028    0.010\n"
                      "all              3  2.93 KiB  0.088   0.038    0.035\n"),
            std::string::npos)
      << text;
}

TEST(Summary, gradients_count_where_they_are_computed_alone) {
  using enum WorkClass;
  RankTimeline rank{0, "", "", {"math", "gradients", "x"}, {}, {}};
  rank.steps.push_back({1, {0, 100'000}, {}});
  run(rank, 0, gemm, "", 0, 30);
  run(rank, 0, wait, "", 30, 50);
  run(rank, 0, optimizer, "", 50, 80);
  run(rank, 0, wait, "x", 80, 90);
  run(rank, 1, gemm, "", 10, 50);
  run(rank, 1, gemm, "", 75, 95);
  run(rank, 1, wait, "", 95, 100);
  run(rank, 2, communication, "x", 70, 90);
  const RankSummary summary = summarize({op::ProgramKind::train, {rank}}, "f").ranks[0];
  EXPECT_NEAR(summary.compute_s, 95 * us, most);
  EXPECT_NEAR(summary.gradients_s, 25 * us, most) << "30 to 50, 90 to 95";
  EXPECT_NEAR(summary.wait_s, 30 * us, most);
  EXPECT_NEAR(summary.idle_s, 10 * us, most);
  expect_traffic(summary.traffic[0], 1, 1000, 20, 20, 10);
}

TEST(Summary, a_trace_that_knows_no_classes_of_traffic_has_no_table_of_them) {
  Timeline timeline = small_timeline();
  for (RankTimeline& rank : timeline.ranks)
    for (Work& work : rank.works) work.traffic.clear();
  const Summary summary = summarize(timeline, "f");
  EXPECT_TRUE(summary.traffic.empty());
  EXPECT_EQ(to_text(summary).find("exposed"), std::string::npos);
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
  EXPECT_EQ(rank.find("traffic")->items().size(), 2U);
  ASSERT_EQ(json.find("traffic")->items().size(), 3U) << "from.0, to.1, x";
  const Json& x = json.find("traffic")->items()[2];
  EXPECT_EQ(*x.find("traffic"), Json("x"));
  EXPECT_EQ(x.find("bytes")->as_double(), 1e4);
  EXPECT_NEAR(x.find("seconds")->as_double(), 35 * us, most);
  EXPECT_NEAR(x.find("hidden_s")->as_double(), 20 * us, most);
  EXPECT_NEAR(x.find("exposed_s")->as_double(), 15 * us, most);
}

TEST(Summary, a_trace_without_steps_is_refused) {
  Timeline timeline = small_timeline();
  timeline.ranks[1].steps.clear();
  EXPECT_THROW(summarize(timeline, "f"), UserError);
  EXPECT_THROW(summarize({}, "f"), UserError);
}

}  // namespace
}  // namespace fourfold::trace
