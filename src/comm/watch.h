// Who is late, who died, and how that is said. Pure functions of what a watcher has heard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "comm/progress.h"

namespace fourfold::comm {

/// What a watcher knows of one rank.
struct RankState {
  Rank rank;
  std::string host;
  std::int64_t pid = 0;

  // As the rank last told.
  std::int64_t step = 0;    // steps done
  bool in_program = false;  // if not, the host works: it loads, saves, compiles
  std::uint64_t ticks = 0;  // differs from before when anything was done
  std::vector<WorkerState> workers;

  // By the watcher's clock.
  double silent_s = 0;     // since it last told anything
  double unchanged_s = 0;  // since `ticks` last changed

  bool operator==(const RankState&) const = default;
};

/// What a rank tells of itself, now.
RankState state_of(Rank rank, const Progress& progress);

/// The states as one line, and back (host, pid and times are the watcher's own). Nothing for text
/// that is no state.
std::string to_line(const RankState& state);
std::optional<RankState> parse_state(const std::string& line);

/// "rank 3 (n1, pid 1234)"
std::string name_of(const RankState& state);
/// "at step 12, x: instruction 17 (...) of train; math: idle": what each busy worker does.
std::string whereabouts(const RankState& state);

/// A rank outside of its programs may take this many times longer: it may be saving or loading.
constexpr double host_patience = 10;

struct Verdict {
  Rank late;
  std::string message;            // one line: who, where, for how long
  std::vector<std::string> dump;  // a line for each rank
};

/// True if the job hangs: one rank has told nothing for `watchdog_s`, or no rank has done anything
/// for so long though a program is under way. The late one is, first of all, one that is silent;
/// then one that works while others wait for it; then one outside of its programs; then the one
/// that has done least.
std::optional<Verdict> judge(std::span<const RankState> ranks, double watchdog_s);

/// For a rank whose process has not ended so long after all were done.
Verdict late_to_end(const RankState& late, double waited_s);

/// "rank 3 (n1, pid 1234) died; it was last seen ...; this is rank 0 ..., ..."
std::string death_notice(const RankState& dead, const RankState& self);

}  // namespace fourfold::comm
