#include "comm/watch.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"

namespace fourfold::comm {
namespace {

/// A rank that told nothing for this part of the watchdog's time is taken for stopped: it would
/// tell several times a second.
constexpr double silent_part = 0.5;

bool works(const RankState& state) {
  return state.in_program && std::ranges::any_of(state.workers, [](const WorkerState& worker) {
           return !worker.doing.empty() && !worker.waits;
         });
}

std::uint64_t done(const RankState& state) {
  std::uint64_t sum = 0;
  for (const WorkerState& worker : state.workers) sum += worker.begun;
  return sum;
}

/// The rank with the largest value among those that pass, the first of equals.
template <class Pass, class Value>
const RankState* largest(std::span<const RankState> ranks, Pass&& pass, Value&& value) {
  const RankState* best = nullptr;
  for (const RankState& state : ranks)
    if (pass(state) && (best == nullptr || value(state) > value(*best))) best = &state;
  return best;
}

const RankState& late_one(std::span<const RankState> ranks, double watchdog_s) {
  const auto silence = [](const RankState& state) { return state.silent_s; };
  const auto least_done = [](const RankState& state) { return -static_cast<double>(done(state)); };
  const auto silent = [&](const RankState& state) {
    return state.silent_s >= silent_part * watchdog_s;
  };
  const auto outside = [](const RankState& state) { return !state.in_program; };
  const auto any = [](const RankState&) { return true; };
  if (const RankState* state = largest(ranks, silent, silence)) return *state;
  if (const RankState* state = largest(ranks, works, least_done)) return *state;
  if (const RankState* state = largest(ranks, outside, least_done)) return *state;
  return *largest(ranks, any, least_done);
}

std::optional<WorkerState> parse_worker(const Json& json) {
  const Json *stream = json.find("stream"), *doing = json.find("doing"),
             *waits = json.find("waits"), *begun = json.find("begun");
  if (stream == nullptr || doing == nullptr || waits == nullptr || begun == nullptr)
    return std::nullopt;
  return WorkerState{stream->as_string(), doing->as_string(), waits->as_bool(),
                     static_cast<std::uint32_t>(begun->as_integer())};
}

}  // namespace

RankState state_of(Rank rank, const Progress& progress) {
  RankState state;
  state.rank = rank;
  state.step = progress.step();
  state.in_program = progress.in_program();
  state.ticks = progress.ticks();
  state.workers = progress.workers();
  return state;
}

std::string to_line(const RankState& state) {
  Json workers = Json::array();
  for (const WorkerState& worker : state.workers)
    workers.push(Json::object({{"stream", worker.stream},
                               {"doing", worker.doing},
                               {"waits", worker.waits},
                               {"begun", std::int64_t{worker.begun}}}));
  return Json::object({{"rank", state.rank.index()},
                       {"step", state.step},
                       {"in_program", state.in_program},
                       {"ticks", std::to_string(state.ticks)},
                       {"workers", std::move(workers)}})
      .dump();
}

std::optional<RankState> parse_state(const std::string& line) {
  try {
    const Json json = parse_json(line, "a rank's state");
    const Json *rank = json.find("rank"), *step = json.find("step"),
               *in_program = json.find("in_program"), *ticks = json.find("ticks"),
               *workers = json.find("workers");
    if (rank == nullptr || step == nullptr || in_program == nullptr || ticks == nullptr ||
        workers == nullptr)
      return std::nullopt;
    RankState state;
    state.rank = Rank(static_cast<std::size_t>(rank->as_integer()));
    state.step = step->as_integer();
    state.in_program = in_program->as_bool();
    state.ticks = std::stoull(ticks->as_string());
    for (const Json& item : workers->items()) {
      const auto worker = parse_worker(item);
      if (!worker) return std::nullopt;
      state.workers.push_back(*worker);
    }
    return state;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string name_of(const RankState& state) {
  if (state.host.empty()) return format("rank {}", state.rank.index());
  return format("rank {} ({}, pid {})", state.rank.index(), state.host, state.pid);
}

std::string whereabouts(const RankState& state) {
  std::string text = format("after step {}", state.step);
  if (!state.in_program) return text + ", outside of programs";
  std::vector<std::string> streams;
  for (const WorkerState& worker : state.workers)
    if (!worker.doing.empty()) streams.push_back(format("{}: {}", worker.stream, worker.doing));
  if (streams.empty()) return text + ", between instructions";
  return text + ", " + join(streams, "; ");
}

std::optional<Verdict> judge(std::span<const RankState> ranks, double watchdog_s) {
  const auto silent = [&](const RankState& state) { return state.silent_s >= watchdog_s; };
  const auto still = [&](const RankState& state) {
    return state.unchanged_s >= watchdog_s * (state.in_program ? 1 : host_patience);
  };
  const auto busy = [](const RankState& state) { return state.in_program; };
  const bool all_still = std::ranges::all_of(ranks, still) && std::ranges::any_of(ranks, busy);
  if (!std::ranges::any_of(ranks, silent) && !all_still) return std::nullopt;
  const RankState& late = late_one(ranks, watchdog_s);
  Verdict verdict{late.rank, {}, {}};
  verdict.message =
      late.silent_s >= silent_part * watchdog_s
          ? format(
                "{} has not answered for {}: it is stopped, or its machine is; it was last "
                "seen {}",
                name_of(late), format_duration(late.silent_s), whereabouts(late))
          : format("no rank has made progress for {}; {} is late: {}",
                   format_duration(late.unchanged_s), name_of(late), whereabouts(late));
  for (const RankState& state : ranks)
    verdict.dump.push_back(format("{}: {}", name_of(state), whereabouts(state)));
  return verdict;
}

Verdict late_to_end(const RankState& late, double waited_s) {
  return {late.rank,
          format("{} has not ended for {} after all ranks were done: it is stopped, or its machine "
                 "is; it was last seen {}",
                 name_of(late), format_duration(waited_s), whereabouts(late)),
          {}};
}

std::string death_notice(const RankState& dead, const RankState& self) {
  return format("{} died; it was last seen {}. This is {}, {}", name_of(dead), whereabouts(dead),
                name_of(self), whereabouts(self));
}

}  // namespace fourfold::comm
