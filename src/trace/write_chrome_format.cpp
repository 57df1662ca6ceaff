#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/json.h"
#include "program/program.h"
#include "trace/chrome_format.h"
#include "trace/chrome_processes.h"

namespace fourfold::trace {
namespace {

/// Thread 0 of a rank shows its steps.
std::size_t thread_of(std::size_t stream) {
  return stream + 1;
}

/// The number that follows those of the streams.
std::size_t thread_of_tasks(const RankTimeline& rank) {
  return thread_of(rank.streams.size());
}

std::string microseconds(std::int64_t ns) {
  return format("{}.{:03}", ns / 1000, ns % 1000);
}

/// Those of one step that meet in one collective or message.
struct Member {
  std::size_t rank = 0;
  const Work* work = nullptr;
  Interval when;
};

class Writer {
 public:
  std::string text(const Timeline& timeline, const Timeline* predicted) && {
    Json head = Json::object({{"version", 1},
                              {"program", std::string(op::to_string(timeline.program))},
                              {"ranks", description(timeline)}});
    if (predicted != nullptr) head.set("predicted", description(*predicted));
    text_ =
        format("{{\"displayTimeUnit\":\"ms\",\n\"fourfold\":{},\n\"traceEvents\":[\n", head.dump());
    add_timeline(timeline);
    if (predicted != nullptr) {
      first_process_ = first_predicted_process;
      add_timeline(*predicted);
    }
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  static Json description(const Timeline& timeline) {
    Json ranks = Json::array();
    for (const RankTimeline& rank : timeline.ranks) {
      Json streams = Json::array();
      for (const std::string& stream : rank.streams) streams.push(stream);
      ranks.push(Json::object({{"rank", rank.rank},
                               {"place", rank.place},
                               {"host", rank.host},
                               {"streams", std::move(streams)}}));
    }
    return ranks;
  }

  void add_timeline(const Timeline& timeline) {
    meetings_.clear();
    for (const RankTimeline& rank : timeline.ranks) {
      name_tracks(rank);
      for (const Step& step : rank.steps) add_step(rank, step);
    }
    for (const auto& [key, members] : meetings_) add_flow(members);
  }

  std::size_t process_of(std::size_t rank) const { return first_process_ + rank; }

  void name_tracks(const RankTimeline& rank) {
    const std::size_t process = process_of(rank.rank);
    name_track("process", process, 0,
               format("{}{} on {}", first_process_ > 0 ? "predicted: " : "", rank.place, rank.host),
               process);
    name_track("thread", process, 0, "step", 0);
    name_track("thread", process, thread_of_tasks(rank), "task", 1);
    for (std::size_t stream = 0; stream < rank.streams.size(); ++stream)
      name_track("thread", process, thread_of(stream), rank.streams[stream], thread_of(stream) + 1);
  }
  void name_track(std::string_view what, std::size_t process, std::size_t thread,
                  std::string_view name, std::size_t place) {
    const std::string who = format("\"ph\":\"M\",\"pid\":{},\"tid\":{}", process, thread);
    add(format("{},\"name\":\"{}_name\",\"args\":{{\"name\":{}}}", who, what, json_quoted(name)));
    add(format("{},\"name\":\"{}_sort_index\",\"args\":{{\"sort_index\":{}}}", who, what, place));
  }

  void add_step(const RankTimeline& rank, const Step& step) {
    add_slice(rank.rank, 0, step.whole, format("step {}", step.number), "step",
              Json::object({{"step", step.number}}));
    add_tasks(rank, step);
    for (const Span& span : step.spans) {
      const Work& work = rank.works[span.work];
      const std::string layer = layer_of(work.text);
      add_slice(rank.rank, thread_of(work.stream), span.when,
                layer.empty() ? work.name : work.name + " " + layer, to_string(work.work_class),
                arguments(step, work, span.when).set("operation", work.name));
      if (!work.meeting.empty())
        meetings_[{step.number, work.meeting}].push_back({rank.rank, &work, span.when});
    }
  }

  /// Forward, backward and update as slices above the instructions: what the stream of the
  /// mathematics did from the first to the last instruction of each.
  void add_tasks(const RankTimeline& rank, const Step& step) {
    const auto math = static_cast<std::size_t>(
        std::ranges::find(rank.streams, program::math_stream) - rank.streams.begin());
    std::string task;
    Interval when;
    const auto close = [&] {
      if (!task.empty())
        add_slice(rank.rank, thread_of_tasks(rank), when, task, "task",
                  Json::object({{"step", step.number}}));
    };
    for (const Span& span : step.spans) {
      const Work& work = rank.works[span.work];
      if (work.stream != math) continue;
      if (work.task != task) {
        close();
        task = work.task;
        when = span.when;
      }
      when.end_ns = span.when.end_ns;
    }
    close();
  }

  /// "blocks.3" of "contract blocks.3.ln2, w -> h1": the layer that an instruction works on. An
  /// instruction that works on more tensors than its text names belongs to no layer.
  static std::string layer_of(const std::string& text) {
    constexpr std::string_view name = "blocks.";
    if (text.find(" more") != text.npos) return {};
    const std::size_t begin = text.find(name);
    if (begin == text.npos) return {};
    const std::size_t end = text.find_first_not_of("0123456789", begin + name.size());
    return text.substr(begin, (end == text.npos ? text.size() : end) - begin);
  }

  static Json arguments(const Step& step, const Work& work, Interval when) {
    Json json = Json::object({{"step", step.number}, {"instruction", work.instruction}});
    const auto set_text = [&](const char* key, const std::string& value) {
      if (!value.empty()) json.set(key, value);
    };
    const auto set_rate = [&](const char* key, const char* rate, double amount) {
      if (amount == 0) return;
      json.set(key, amount);
      if (when.duration_ns() > 0) json.set(rate, amount / static_cast<double>(when.duration_ns()));
    };
    set_text("task", work.task);
    set_text("what", work.text);
    set_text("by", work.implementation);
    set_text("axis", work.axis);
    set_text("traffic", work.traffic);
    set_text("waits for", work.awaited);
    set_text("meeting", work.meeting);
    set_rate("flops", "GFLOP/s", work.flops);
    set_rate("bytes", "GB/s", work.bytes);
    return json;
  }

  void add_slice(std::size_t rank, std::size_t thread, Interval when, std::string_view name,
                 std::string_view category, const Json& arguments) {
    add(format(
        "\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":{},"
        "\"args\":{}",
        process_of(rank), thread, microseconds(when.begin_ns), microseconds(when.duration_ns()),
        json_quoted(name), json_quoted(category), arguments.dump()));
  }

  /// A chain of arrows in the order of time: viewers drop one that points back.
  void add_flow(std::vector<Member> members) {
    if (members.size() < 2) return;
    const auto receives = [](const Member& member) { return member.work->name == "recv"; };
    const auto moment = [&](const Member& member) {
      return receives(member) ? std::max(member.when.begin_ns, member.when.end_ns - 1)
                              : member.when.begin_ns;
    };
    std::ranges::stable_sort(members, {}, moment);
    const std::size_t id = ++num_flows_;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Member& member = members[i];
      const char* phase = i == 0 ? "s" : i + 1 < members.size() ? "t" : "f";
      add(
          format("\"ph\":\"{}\",\"bp\":\"e\",\"id\":{},\"pid\":{},\"tid\":{},\"ts\":{},"
                 "\"name\":{},\"cat\":\"communication\"",
                 phase, id, process_of(member.rank), thread_of(member.work->stream),
                 microseconds(moment(member)),
                 json_quoted(receives(members.back()) ? "message" : member.work->name)));
    }
  }

  void add(std::string_view members) {
    if (num_events_++ > 0) text_ += ",\n";
    text_ += '{';
    text_ += members;
    text_ += '}';
  }

  std::string text_;
  std::size_t first_process_ = 0;  // of the ranks
  std::size_t num_events_ = 0, num_flows_ = 0;
  std::map<std::pair<std::int64_t, std::string>, std::vector<Member>> meetings_;
};

}  // namespace

std::string to_chrome_json(const Timeline& timeline, const Timeline* predicted) {
  return Writer().text(timeline, predicted);
}

}  // namespace fourfold::trace
