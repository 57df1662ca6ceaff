// `train --trace` and `trace summary`, through the binary.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>
#include <tuple>

#include "base/file.h"
#include "base/json.h"
#include "support/chrome_trace.h"
#include "support/command.h"
#include "support/launched_job.h"
#include "trace/chrome_format.h"
#include "trace/summary.h"

namespace fourfold {
namespace {

class Trace : public FolderTest {
 protected:
  /// Six steps of a tiny model on that grid, three of them traced unless `more` says otherwise.
  CommandResult train(const std::string& run, const std::string& more,
                      const std::string& launcher = "") const {
    return run_command(
        format("{} {} train configs/gpt-tiny.yaml --set run.dir={} --set "
               "train.steps=6 {} 2>&1",
               launcher, FOURFOLD_BINARY, path(run), more));
  }
  std::string file(const std::string& run) const { return path(run) + "/traces/steps.json"; }
  trace::Timeline read(const std::string& run) const {
    return trace::parse_chrome_json(read_file(file(run)), file(run));
  }
};

constexpr const char* four_ranks = "--set parallel.tensor.x=2 --set parallel.data=2";

TEST_F(Trace, the_steps_behind_the_warm_up_of_all_ranks_are_in_one_valid_file) {
  const CommandResult outcome = train("a", format("--trace 3 {}", four_ranks));
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const ChromeTraceCheck check(parse_json(read_file(file("a")), "steps.json"));
  EXPECT_EQ(check.faults, std::vector<std::string>());
  EXPECT_GT(check.num_flows, 3U * 10) << "collectives are joined";
  const trace::Timeline timeline = read("a");
  ASSERT_EQ(timeline.ranks.size(), 4U);
  EXPECT_EQ(timeline.ranks[3].place, "rank 3 (data 1, z 0, y 0, x 1)");
  for (const trace::RankTimeline& rank : timeline.ranks) {
    ASSERT_EQ(rank.steps.size(), 3U);
    EXPECT_EQ(rank.steps.front().number, 3);
    EXPECT_EQ(rank.steps.back().number, 5);
  }
  EXPECT_EQ(trace::parse_chrome_json(trace::to_chrome_json(timeline), "again"), timeline);
}

/// How many instructions of the streams that compute lie in a slice of their task; each must.
std::size_t enclosed_by_their_tasks(const Json& trace) {
  struct Slice {
    double begin, end;
  };
  const auto slice = [](const Json& event) {
    const double begin = event.find("ts")->as_double();
    return Slice{begin, begin + event.find("dur")->as_double()};
  };
  using Task = std::tuple<std::int64_t, std::int64_t, std::string>;  // of a rank, a step
  std::map<Task, std::vector<Slice>> tasks;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> tracks;
  const auto events = trace.find("traceEvents")->items();
  for (const Json& event : events) {
    const std::int64_t rank = event.find("pid")->as_integer();
    const Json* args = event.find("args");
    if (*event.find("name") == Json("thread_name"))
      tracks[{rank, event.find("tid")->as_integer()}] = args->find("name")->as_string();
    else if (event.find("cat") != nullptr && *event.find("cat") == Json("task"))
      tasks[{rank, args->find("step")->as_integer(), event.find("name")->as_string()}].push_back(
          slice(event));
  }
  std::size_t enclosed = 0;
  for (const Json& event : events) {
    const std::int64_t rank = event.find("pid")->as_integer();
    const Json* args = event.find("args");
    const Json* task = args == nullptr ? nullptr : args->find("task");
    if (task == nullptr || tracks[{rank, event.find("tid")->as_integer()}] != "math") continue;
    const auto& all = tasks[{rank, args->find("step")->as_integer(), task->as_string()}];
    const Slice own = slice(event);
    constexpr double rounding = 0.002;  // of microseconds with three decimals
    const bool is_inside = std::any_of(all.begin(), all.end(), [&](const Slice& outer) {
      return outer.begin <= own.begin + rounding && own.end <= outer.end + rounding;
    });
    EXPECT_TRUE(is_inside) << event.dump();
    enclosed += is_inside ? 1 : 0;
  }
  return enclosed;
}

TEST_F(Trace, tasks_are_slices_that_enclose_their_instructions) {
  ASSERT_EQ(train("a", format("--trace 2 {} --set train.micro_batch_size=1", four_ranks)).code, 0);
  const Json trace = parse_json(read_file(file("a")), "steps.json");
  std::size_t instructions = 0;
  for (const auto& rank : read("a").ranks)
    for (const auto& step : rank.steps)
      for (const auto& span : step.spans)
        if (rank.streams[rank.works[span.work].stream] == "math" &&
            !rank.works[span.work].task.empty())
          ++instructions;
  EXPECT_GT(instructions, 100U);
  EXPECT_EQ(enclosed_by_their_tasks(trace), instructions);
}

TEST_F(Trace, members_of_a_collective_are_in_it_at_the_same_time) {
  ASSERT_EQ(train("a", format("--trace 2 {}", four_ranks)).code, 0);
  struct Meeting {
    std::int64_t last_begin_ns = 0, first_end_ns = std::numeric_limits<std::int64_t>::max();
    std::size_t members = 0;
  };
  std::map<std::pair<std::int64_t, std::string>, Meeting> meetings;
  const trace::Timeline timeline = read("a");
  for (const auto& rank : timeline.ranks)
    for (const auto& step : rank.steps)
      for (const auto& span : step.spans) {
        const trace::Work& work = rank.works[span.work];
        if (work.meeting.empty()) continue;
        Meeting& meeting = meetings[{step.number, work.meeting}];
        meeting.last_begin_ns = std::max(meeting.last_begin_ns, span.when.begin_ns);
        meeting.first_end_ns = std::min(meeting.first_end_ns, span.when.end_ns);
        ++meeting.members;
      }
  EXPECT_FALSE(meetings.empty());
  for (const auto& [key, meeting] : meetings) {
    // "x ranks 0 1 number 7"
    std::istringstream words(key.second.substr(key.second.find(" ranks ") + 7));
    std::size_t members = 0;
    for (std::string word; words >> word && word != "number";) ++members;
    EXPECT_EQ(meeting.members, members) << key.second;
    EXPECT_LE(meeting.last_begin_ns, meeting.first_end_ns) << key.second;
  }
}

TEST_F(Trace, a_traced_run_computes_the_same_bits) {
  ASSERT_EQ(train("a", four_ranks).code, 0);
  ASSERT_EQ(train("b", format("--trace 3 {}", four_ranks)).code, 0);
  EXPECT_EQ(read_file(path("a") + "/model.safetensors"),
            read_file(path("b") + "/model.safetensors"));
  EXPECT_FALSE(file_exists(file("a")));
}

TEST_F(Trace, the_math_stream_computes_or_waits_nearly_all_of_the_step) {
  // Long enough that starting and ending a step weigh little. The best of the steps counts, and
  // there are several runs, so that other work on the machine does not.
  constexpr double wanted = 0.98;
  constexpr int most_runs = 10;
  double best = 0;
  for (int run = 0; run < most_runs && best < wanted; ++run) {
    const std::string name = format("run{}", run);
    const CommandResult outcome =
        train(name,
              "--trace 4 --set train.global_batch_size=32 --set train.micro_batch_size=16 "
              "--set data.seq_length=128 --set model.hidden_size=128");
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    const trace::Timeline timeline = read(name);
    for (const trace::Step& step : timeline.ranks[0].steps) {
      std::int64_t covered_ns = 0;
      for (const trace::Span& span : step.spans)
        if (timeline.ranks[0].streams[timeline.ranks[0].works[span.work].stream] == "math")
          covered_ns += span.when.duration_ns();
      best = std::max(
          best, static_cast<double>(covered_ns) / static_cast<double>(step.whole.duration_ns()));
    }
  }
  EXPECT_GE(best, wanted);
}

TEST_F(Trace, the_summary_is_text_for_people_and_json_for_programs) {
  ASSERT_EQ(train("a", format("--trace 3 {}", four_ranks)).code, 0);
  for (const std::string& of : {path("a"), file("a")}) {
    const CommandResult text = run_command(format("{} trace summary {}", FOURFOLD_BINARY, of));
    EXPECT_EQ(text.code, 0);
    for (const char* expected : {"3 steps (3 to 5) on 4 ranks", "gemm", "all_reduce data",
                                 "wait for x", "imbalance", "longest instructions"})
      EXPECT_NE(text.text.find(expected), std::string::npos) << expected << "\n" << text.text;
  }
  const CommandResult json =
      run_command(format("{} trace summary --json {}", FOURFOLD_BINARY, path("a")));
  const Json summary = parse_json(json.text, "summary");
  EXPECT_EQ(summary.find("ranks")->items().size(), 4U);
}

/// The number of seconds, calls or bytes of a member of a summary.
double number_of(const Json& object, const char* key) {
  return object.find(key)->as_double();
}

/// What a rank's math stream waits for beside the feed, which is no communication.
double waits_of(const Json& rank) {
  double sum_s = 0;
  for (const Json& part : rank.find("parts")->items()) {
    const std::string work = part.find("work")->as_string();
    if (*part.find("stream") == Json("math") && work.starts_with("wait for ") &&
        work != "wait for feed")
      sum_s += number_of(*part.find("amount"), "seconds");
  }
  return sum_s;
}

TEST_F(Trace, each_class_of_traffic_has_its_bytes_and_its_hidden_and_exposed_time) {
  ASSERT_EQ(train("a",
                  "--trace 3 --set parallel.tensor.z=2 --set parallel.data=2 --set "
                  "train.micro_batch_size=2")
                .code,
            0);
  const CommandResult text = run_command(format("{} trace summary {}", FOURFOLD_BINARY, path("a")));
  for (const char* expected :
       {"traffic", "hidden", "exposed", "\nz.weights", "\nz.gradients", "\ndata.gradients"})
    EXPECT_NE(text.text.find(expected), std::string::npos) << expected << "\n" << text.text;
  const Json summary =
      parse_json(run_command(format("{} trace summary --json {}", FOURFOLD_BINARY, path("a"))).text,
                 "summary");
  for (const Json& rank : summary.find("ranks")->items()) {
    double exposed_s = 0;
    ASSERT_NE(rank.find("traffic"), nullptr);
    for (const Json& traffic : rank.find("traffic")->items()) {
      const double all_s = number_of(traffic, "seconds");
      EXPECT_GT(number_of(traffic, "bytes"), 0);
      EXPECT_GT(number_of(traffic, "calls"), 0);
      EXPECT_LE(number_of(traffic, "hidden_s"), all_s * (1 + 1e-9));
      exposed_s += number_of(traffic, "exposed_s");
    }
    // Waits, and what is still exchanged when the mathematics is done.
    const double waits_s = waits_of(rank);
    EXPECT_GE(exposed_s, waits_s * (1 - 1e-9));
    EXPECT_LE(exposed_s, waits_s + number_of(rank, "communication_s"));
  }
}

TEST_F(Trace, what_cannot_be_traced_or_read_is_said_in_one_line) {
  struct Case {
    std::string command;
    int code;
    std::string expected;
  };
  ASSERT_EQ(train("plain", "").code, 0);
  write_file_atomic(path("other.json"), "{\"traceEvents\": []}\n");
  for (const Case& c : std::vector<Case>{
           {format("train configs/gpt-tiny.yaml --trace 19 --set run.dir={}", path("x")), 2,
            "--trace 19 needs 21 steps"},
           {"train configs/gpt-tiny.yaml --trace 0", 2, "--trace"},
           {"trace summary " + path("plain"), 3, "train with --trace N"},
           {"trace summary " + path("no-such-file"), 3, "no-such-file"},
           {"trace summary " + path("other.json"), 3, "is no trace of Fourfold"},
           {"trace summary configs/gpt-tiny.yaml", 3, "not valid JSON"}}) {
    const CommandResult outcome = run_command(format("{} {} 2>&1", FOURFOLD_BINARY, c.command));
    EXPECT_EQ(outcome.code, c.code) << c.command << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find(c.expected), std::string::npos) << c.command << "\n"
                                                                << outcome.text;
  }
  EXPECT_FALSE(file_exists(path("x"))) << "nothing is written before the check";
}

TEST_F(Trace, ranks_that_are_processes_write_one_file_too) {
  if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  std::string launcher;
  for (const std::string& word : test::mpirun(2)) launcher += word + " ";
  const CommandResult outcome = train("a", "--trace 2 --set parallel.data=2", launcher);
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const ChromeTraceCheck check(parse_json(read_file(file("a")), "steps.json"));
  EXPECT_EQ(check.faults, std::vector<std::string>());
  EXPECT_GT(check.num_flows, 0U);
  EXPECT_EQ(read("a").ranks.size(), 2U);
}

}  // namespace
}  // namespace fourfold
