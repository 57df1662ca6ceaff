#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "trace/chrome_format.h"
#include "trace/chrome_processes.h"

namespace fourfold::trace {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  TimelineFile read(const Json& json) {
    TimelineFile result;
    read_description(json, result);
    const Json* const events = json.find("traceEvents");
    if (events == nullptr || events->kind() != Json::Kind::array) fail("has no list traceEvents");
    for (const Json& event : events->items()) {
      ++event_;
      const Json* const phase = event.find("ph");
      if (phase != nullptr && *phase == Json("X")) read_slice(event);
    }
    for (auto& [process, build] : builds_) finish(build);
    return result;
  }

 private:
  /// What is known of a rank so far, by the instruction and by the step's number.
  struct Build {
    RankTimeline* rank = nullptr;
    std::map<std::size_t, Work> works;
    struct StepBuild {
      Interval whole;
      std::map<std::size_t, Interval> spans;
    };
    std::map<std::int64_t, StepBuild> steps;
  };

  void read_description(const Json& json, TimelineFile& result) {
    const Json* const own = json.find("fourfold");
    if (own == nullptr) fail("is no trace of Fourfold");
    if (integer(*own, "version") != 1) fail("was written by another version of Fourfold");
    const std::string& program = text(*own, "program");
    const auto kind = op::parse_program_kind(program);
    if (!kind) fail_event(format("has the unknown program {}", program));
    result.timeline.program = *kind;
    read_ranks(list(*own, "ranks"), 0, result.timeline);
    if (own->find("predicted") == nullptr) return;
    result.predicted = Timeline{result.timeline.program, {}};
    read_ranks(list(*own, "predicted"), first_predicted_process, *result.predicted);
  }

  /// Ranks that were simulated may stand for others, which are not there.
  void read_ranks(const std::vector<Json>& items, std::size_t first_process, Timeline& timeline) {
    timeline.ranks.reserve(items.size());
    for (const Json& item : items) {
      RankTimeline& rank = timeline.ranks.emplace_back();
      rank.rank = index(item, "rank", first_predicted_process);
      if (timeline.ranks.size() > 1 && rank.rank <= timeline.ranks.end()[-2].rank)
        fail("does not list its ranks in their order");
      builds_[first_process + rank.rank].rank = &rank;
      rank.place = text(item, "place");
      rank.host = text(item, "host");
      for (const Json& stream : list(item, "streams")) {
        if (stream.kind() != Json::Kind::string) fail("has a stream that is no text");
        rank.streams.push_back(stream.as_string());
      }
    }
  }

  void read_slice(const Json& event) {
    const Json* const arguments = event.find("args");
    if (arguments == nullptr) fail_event("has no args");
    const std::int64_t process = integer(event, "pid");
    const auto found = builds_.find(static_cast<std::size_t>(process));
    if (found == builds_.end()) fail_event(format("has pid = {}", process));
    Build& build = found->second;
    const std::string category = text(event, "cat");
    if (category == "task") return;  // follows from the instructions
    Build::StepBuild& step = build.steps[integer(*arguments, "step")];
    const Interval when = interval(event);
    if (category == "step") {
      step.whole = when;
      return;
    }
    Work work = read_work(event, *arguments, build.rank->streams.size());
    const auto work_class = find_work_class(category);
    if (!work_class) fail_event(format("is of the unknown category {}", category));
    work.work_class = *work_class;
    step.spans[work.instruction] = when;
    build.works.try_emplace(work.instruction, std::move(work));
  }

  Work read_work(const Json& event, const Json& arguments, std::size_t num_streams) {
    Work work;
    work.instruction = static_cast<std::size_t>(integer(arguments, "instruction"));
    work.stream = index(event, "tid", num_streams + 1) - 1;  // thread 0 has steps only
    if (work.stream >= num_streams) fail_event("is on the thread of the steps");
    const auto optional_text = [&](const char* key) {
      return arguments.find(key) == nullptr ? std::string() : text(arguments, key);
    };
    const auto optional_number = [&](const char* key) {
      return arguments.find(key) == nullptr ? 0.0 : number(arguments, key);
    };
    // The name that is shown has the layer too.
    work.name =
        arguments.find("operation") == nullptr ? text(event, "name") : text(arguments, "operation");
    work.task = optional_text("task");
    work.text = optional_text("what");
    work.implementation = optional_text("by");
    work.axis = optional_text("axis");
    work.traffic = optional_text("traffic");
    work.awaited = optional_text("waits for");
    work.meeting = optional_text("meeting");
    work.flops = optional_number("flops");
    work.bytes = optional_number("bytes");
    return work;
  }

  static void finish(Build& build) {
    RankTimeline& rank = *build.rank;
    std::map<std::size_t, std::size_t> place;  // of an instruction in the works
    for (auto& [instruction, work] : build.works) {
      place[instruction] = rank.works.size();
      rank.works.push_back(std::move(work));
    }
    for (const auto& [number, step] : build.steps) {
      Step& made = rank.steps.emplace_back(Step{number, step.whole, {}});
      for (const auto& [instruction, when] : step.spans)
        made.spans.push_back({place.at(instruction), when});
    }
  }

  Interval interval(const Json& event) {
    const double begin_us = number(event, "ts"), duration_us = number(event, "dur");
    // Longer than any run, and far within 64 bits of nanoseconds.
    constexpr double longest_us = 1e15;
    if (!(std::abs(begin_us) < longest_us && duration_us >= 0 && duration_us < longest_us))
      fail_event("has a time out of range");
    const std::int64_t begin_ns = std::llround(1000 * begin_us);
    return {begin_ns, begin_ns + std::llround(1000 * duration_us)};
  }

  std::size_t index(const Json& object, const char* key, std::size_t size) {
    const std::int64_t value = integer(object, key);
    if (static_cast<std::size_t>(value) >= size) fail_event(format("has {} = {}", key, value));
    return static_cast<std::size_t>(value);
  }
  std::int64_t integer(const Json& object, const char* key) {
    const Json* const value = object.find(key);
    if (value == nullptr || value->kind() != Json::Kind::integer || value->as_integer() < 0)
      fail_event(format("has no whole number {}", key));
    return value->as_integer();
  }
  double number(const Json& object, const char* key) {
    const Json* const value = object.find(key);
    if (value == nullptr ||
        (value->kind() != Json::Kind::integer && value->kind() != Json::Kind::number))
      fail_event(format("has no number {}", key));
    return value->as_double();
  }
  const std::string& text(const Json& object, const char* key) {
    const Json* const value = object.find(key);
    if (value == nullptr || value->kind() != Json::Kind::string)
      fail_event(format("has no text {}", key));
    return value->as_string();
  }
  const std::vector<Json>& list(const Json& object, const char* key) {
    const Json* const value = object.find(key);
    if (value == nullptr || value->kind() != Json::Kind::array)
      fail_event(format("has no list {}", key));
    return value->items();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(
        ExitCode::bad_data,
        format("{} {}; give the file that `fourfold train --trace N` wrote", file_, what));
  }
  [[noreturn]] void fail_event(const std::string& what) const {
    fail(event_ == 0 ? format("describes a run that {}", what)
                     : format("is damaged: event {} {}", event_, what));
  }

  std::string_view file_;
  std::size_t event_ = 0;                // the number of the one being read, from 1
  std::map<std::size_t, Build> builds_;  // by process
};

}  // namespace

Timeline parse_chrome_json(std::string_view text, std::string_view file) {
  return parse_timeline_file(text, file).timeline;
}

TimelineFile parse_timeline_file(std::string_view text, std::string_view file) {
  return Reader(file).read(parse_json(text, file));
}

}  // namespace fourfold::trace
