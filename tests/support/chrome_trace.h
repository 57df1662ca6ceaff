// What a viewer needs of a file in the trace-event format, checked event by event: Chromium's
// "Trace Event Format", and what Perfetto's importer drops or reports.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/json.h"

namespace fourfold {

class ChromeTraceCheck {
 public:
  explicit ChromeTraceCheck(const Json& trace) {
    const Json* const events = trace.find("traceEvents");
    if (events == nullptr || events->kind() != Json::Kind::array) {
      faults.emplace_back("no list traceEvents");
      return;
    }
    for (const Json& event : events->items()) add(event);
    check_names();
    check_slices();
    check_flows();
  }

  std::vector<std::string> faults;
  std::size_t num_slices = 0, num_flows = 0;

 private:
  using Track = std::pair<std::int64_t, std::int64_t>;  // process and thread
  struct Slice {
    std::int64_t begin_ns, end_ns;
  };
  struct Point {
    char phase;
    Track track;
    std::int64_t at_ns;
  };

  static std::int64_t ns(const Json* value) {
    return value == nullptr ? -1 : std::llround(1000 * value->as_double());
  }

  void add(const Json& event) {
    const Json *phase = event.find("ph"), *process = event.find("pid"), *thread = event.find("tid"),
               *name = event.find("name");
    if (phase == nullptr || process == nullptr || thread == nullptr || name == nullptr) {
      faults.push_back("an event without ph, pid, tid or name: " + event.dump());
      return;
    }
    const Track track{process->as_integer(), thread->as_integer()};
    if (*phase == Json("M")) {
      if (*name == Json("process_name")) named_processes_.insert(track.first);
      if (*name == Json("thread_name")) named_.insert(track);
    } else if (*phase == Json("X")) {
      const std::int64_t begin_ns = ns(event.find("ts")), duration_ns = ns(event.find("dur"));
      if (begin_ns < 0 || duration_ns < 0 || event.find("cat") == nullptr)
        faults.push_back("a slice without ts, dur or cat: " + event.dump());
      slices_[track].push_back({begin_ns, begin_ns + duration_ns});
      ++num_slices;
    } else if (*phase == Json("s") || *phase == Json("t") || *phase == Json("f")) {
      const Json* const id = event.find("id");
      if (id == nullptr || event.find("cat") == nullptr || event.find("ts") == nullptr)
        faults.push_back("a flow without id, cat or ts: " + event.dump());
      else
        flows_[id->as_integer()].push_back({phase->as_string()[0], track, ns(event.find("ts"))});
    } else {
      faults.push_back("an event of another phase: " + event.dump());
    }
  }

  void check_names() {
    for (const auto& [track, slices] : slices_)
      if (!named_.contains(track) || !named_processes_.contains(track.first))
        faults.push_back(format("thread {} of process {} has no name", track.second, track.first));
  }

  /// On one thread, slices stand side by side.
  void check_slices() {
    for (auto& [track, slices] : slices_) {
      // A slice of no length stands before one that begins where it is.
      std::ranges::sort(slices, {},
                        [](const Slice& slice) { return std::pair(slice.begin_ns, slice.end_ns); });
      for (std::size_t i = 1; i < slices.size(); ++i)
        if (slices[i].begin_ns < slices[i - 1].end_ns)
          faults.push_back(format("slices of thread {} of process {} overlap at {} ns",
                                  track.second, track.first, slices[i].begin_ns));
    }
  }

  /// A start, steps and an end in the order of time, each within a slice of its thread.
  void check_flows() {
    num_flows = flows_.size();
    for (const auto& [id, points] : flows_) {
      std::string phases;
      for (const Point& point : points) phases += point.phase;
      if (phases.size() < 2 || phases != "s" + std::string(phases.size() - 2, 't') + "f")
        faults.push_back(format("flow {} goes {}", id, phases));
      if (!std::ranges::is_sorted(points, {}, &Point::at_ns))
        faults.push_back(format("flow {} points back in time", id));
      for (const Point& point : points) {
        const auto holds = [&](const Slice& slice) {
          return slice.begin_ns <= point.at_ns && point.at_ns <= slice.end_ns;
        };
        if (!std::ranges::any_of(slices_[point.track], holds))
          faults.push_back(format("flow {} hangs outside of slices", id));
      }
    }
  }

  std::set<std::int64_t> named_processes_;
  std::set<Track> named_;
  std::map<Track, std::vector<Slice>> slices_;
  std::map<std::int64_t, std::vector<Point>> flows_;
};

}  // namespace fourfold
