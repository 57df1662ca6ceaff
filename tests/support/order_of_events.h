// Which of the orders that a job demands of its events do not hold in times that somebody gives for
// them: a run that recorded them, or a simulation. Written from the programs alone, without the
// walks that produce such times. Header only.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/format.h"
#include "program/text.h"

namespace fourfold::test {

/// When an instruction ran, in seconds on one clock.
struct When {
  double begin_s = 0, end_s = 0;
};
/// The program of a rank and when each of its instructions ran; records have no times.
struct TimedRank {
  program::Program program;
  std::vector<When> times;
};

/// At most some faults, in words; none where every order holds. `slack_s`: times that differ by no
/// more are equal.
///   - A stream ends an instruction before it begins the next.
///   - A wait ends after all that its event comes after.
///   - A collective ends after its last member has come, a message after both ends have.
inline std::vector<std::string> faults_of_order(const std::vector<TimedRank>& ranks,
                                                double slack_s = 0) {
  std::vector<std::string> faults;
  const auto check = [&](bool holds, std::size_t rank, std::size_t instruction, const char* what) {
    if (holds || faults.size() >= 10) return;
    const program::Program& of = ranks[rank].program;
    faults.push_back(format("rank {}: instruction {} ({}) {}", rank, instruction,
                            program::short_text(of, of.instructions[instruction]), what));
  };
  // The name of a meeting, its number; who is in it.
  using Meeting = std::pair<std::string, std::size_t>;
  std::map<Meeting, std::vector<std::pair<std::size_t, std::size_t>>> meetings;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& [program, times] = ranks[rank];
    std::vector<double> stream_end_s(program.streams.size(), 0);
    std::vector<double> recorded_s(program.num_events, 0);
    std::map<std::string, std::size_t> numbers;
    std::vector<std::string> group_names;
    for (const program::Group& group : program.groups) {
      std::string& name = group_names.emplace_back(group.name);
      for (const Rank member : group.members) name += format(" {}", member.index());
    }
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      double& end_s = stream_end_s[program.instructions[i].stream.index()];
      const program::What& what = program.instructions[i].what;
      if (const auto* record = std::get_if<program::Record>(&what)) {
        recorded_s[record->event.index()] = end_s;
        continue;
      }
      check(times[i].begin_s >= end_s - slack_s, rank, i, "begins before the one before it ends");
      check(times[i].end_s >= times[i].begin_s, rank, i, "ends before it begins");
      end_s = times[i].end_s;
      if (const auto* wait = std::get_if<program::Wait>(&what))
        check(end_s >= recorded_s[wait->event.index()] - slack_s, rank, i,
              "ends before what it waits for");
      std::string meets;
      std::visit(
          [&]<class Kind>(const Kind& kind) {
            if constexpr (program::AnyCollective<Kind>) {
              if (program.groups[kind.group.index()].members.size() > 1)
                meets = group_names[kind.group.index()];
            } else if constexpr (std::is_same_v<Kind, program::Send>) {
              meets = format("{} to {} tag {}", rank, kind.peer.index(), kind.tag);
            } else if constexpr (std::is_same_v<Kind, program::Recv>) {
              meets = format("{} to {} tag {}", kind.peer.index(), rank, kind.tag);
            }
          },
          static_cast<const program::AnyKind&>(what));
      if (!meets.empty()) meetings[{meets, numbers[meets]++}].emplace_back(rank, i);
    }
  }
  for (const auto& [meeting, members] : meetings) {
    double last_s = 0;
    for (const auto& [rank, i] : members) last_s = std::max(last_s, ranks[rank].times[i].begin_s);
    for (const auto& [rank, i] : members)
      check(ranks[rank].times[i].end_s >= last_s - slack_s, rank, i,
            "ends before all who meet have come");
  }
  return faults;
}

/// The instructions of each stream in the order in which they began, records left out.
inline std::vector<std::vector<std::size_t>> order_of_streams(const TimedRank& rank) {
  std::vector<std::vector<std::size_t>> streams(rank.program.streams.size());
  for (std::size_t i = 0; i < rank.program.instructions.size(); ++i)
    if (!std::holds_alternative<program::Record>(rank.program.instructions[i].what))
      streams[rank.program.instructions[i].stream.index()].push_back(i);
  for (std::vector<std::size_t>& stream : streams)
    std::ranges::stable_sort(stream, {}, [&](std::size_t i) {
      return std::pair(rank.times[i].begin_s, rank.times[i].end_s);
    });
  return streams;
}

}  // namespace fourfold::test
