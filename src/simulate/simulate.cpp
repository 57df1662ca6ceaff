#include "simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "program/text.h"
#include "simulate/links.h"
#include "simulate/routes.h"
#include "simulate/tracks.h"
#include "trace/describe_work.h"

namespace fourfold::simulate {
namespace {

/// So many instructions of all ranks are followed rather than those of one rank of each class.
constexpr std::int64_t most_instructions_of_all_ranks = 1'000'000;

std::size_t find_program(const program::Job& job, op::ProgramKind kind) {
  const std::vector<program::Program>& programs = job.classes.at(0).programs;
  const auto found = std::ranges::find(programs, kind, &program::Program::kind);
  if (found == programs.end())
    throw UserError(ExitCode::bad_config,
                    format("the job has no program '{}'", op::to_string(kind)));
  return static_cast<std::size_t>(found - programs.begin());
}

std::string stuck_text(const program::Job& job, std::size_t program, const Stuck& stuck) {
  const program::Program& of = job.classes[job.ranks[stuck.rank].of_class].programs[program];
  return format(
      "the job never comes to its end: rank {} stands in instruction {} ({}); `fourfold verify` "
      "says who waits for whom",
      stuck.rank, stuck.instruction, program::short_text(of, of.instructions[stuck.instruction]));
}

std::int64_t to_ns(double seconds) {
  return std::llround(seconds * 1e9);
}

class Simulator {
 public:
  Simulator(const program::Job& job, std::size_t program, const program::Meetings& meetings,
            const machine::Cluster& cluster)
      : job_(job),
        program_(program),
        meetings_(program::view_of(meetings, job)),
        machine_(cluster.name),
        links_(cluster) {
    for (std::size_t i = 0; i < job.classes.size(); ++i)
      tracks_.push_back(make_track(cluster, job.classes[i].programs[program], meetings.classes[i]));
    result_.program = job.classes.at(0).programs[program].kind;
    result_.num_ranks = static_cast<std::int64_t>(job.ranks.size());
    ranks_of_class_.resize(job.classes.size());
    for (const program::Binding& binding : job.ranks) {
      ++ranks_of_class_[binding.of_class];
      result_.flops += tracks_[binding.of_class].flops;
      result_.num_instructions += static_cast<std::int64_t>(
          job.classes[binding.of_class].programs[program].instructions.size());
    }
  }

  Simulation simulate(Follow follow) && {
    std::optional<program::Runners> few;
    if (follow != Follow::all_ranks) few = program::one_of_each_class(meetings_);
    if (few) {
      const Routes routes(links_, meetings_, *few, tracks_);
      const bool is_cheap = result_.num_instructions <= most_instructions_of_all_ranks;
      if (routes.are_alike() || follow == Follow::one_of_each_class || !is_cheap) {
        result_.is_bound = !routes.are_alike();
        run(*few, routes);
        return std::move(result_);
      }
    }
    const program::Runners all = program::all_runners(meetings_);
    run(all, Routes(links_, meetings_, all, tracks_));
    return std::move(result_);
  }

 private:
  void run(const program::Runners& runners, const Routes& routes) {
    Clocked clocked = run_clock(links_, meetings_, runners, tracks_, routes);
    if (clocked.stuck) throw NeverEnds(stuck_text(job_, program_, *clocked.stuck));
    for (std::size_t i = 0; i < runners.list.size(); ++i) {
      const std::uint32_t rank = runners.list[i].rank;
      const std::uint32_t of_class = job_.ranks[rank].of_class;
      for (const Times& times : clocked.times[i]) {
        if (!std::isfinite(times.end_s)) fail_not_finite(times.end_s);
        result_.step_s = std::max(result_.step_s, times.end_s);
      }
      result_.ranks.push_back({rank, of_class, runners.are_all ? 1 : ranks_of_class_[of_class],
                               std::move(clocked.times[i])});
    }
    std::ranges::sort(result_.ranks, {}, &SimulatedRank::rank);
  }

  [[noreturn]] void fail_not_finite(double seconds) const {
    throw UserError(ExitCode::numeric_stop,
                    format("a step takes {} s on machine {}, expected a finite time; rates of its "
                           "file are too low, or latencies too long, to be added up: correct them",
                           seconds, machine_));
  }

  const program::Job& job_;
  std::size_t program_;
  program::MeetingsView meetings_;
  std::string machine_;
  Links links_;
  std::vector<Track> tracks_;                 // by class
  std::vector<std::int64_t> ranks_of_class_;  // how many
  Simulation result_;
};

}  // namespace

Simulation simulate(const program::Job& job, op::ProgramKind program,
                    const machine::Cluster& cluster, Follow follow) {
  machine::require_ranks(cluster, static_cast<std::int64_t>(job.ranks.size()));
  const std::size_t place = find_program(job, program);
  return simulate(job, place, program::meetings(job, place), cluster, follow);
}

Simulation simulate(const program::Job& job, std::size_t program, const program::Meetings& meetings,
                    const machine::Cluster& cluster, Follow follow) {
  machine::require_ranks(cluster, static_cast<std::int64_t>(job.ranks.size()));
  return Simulator(job, program, meetings, cluster).simulate(follow);
}

trace::Step to_step(const SimulatedRank& rank, const Simulation& simulation,
                    const std::vector<trace::Work>& works) {
  trace::Step step{1, {0, to_ns(simulation.step_s)}, {}};
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Times& times = rank.times[works[i].instruction];
    step.spans.push_back({i, {to_ns(times.begin_s), to_ns(times.end_s)}});
  }
  return step;
}

trace::Timeline to_timeline(const program::Job& job, const Simulation& simulation,
                            const std::function<std::string(const program::Program&)>& place_of,
                            const std::function<std::string(Rank)>& host_of) {
  trace::Timeline timeline{simulation.program, {}};
  const std::size_t place = find_program(job, simulation.program);
  for (const SimulatedRank& rank : simulation.ranks) {
    // The first rank of a class has its bundle as it stands there.
    const program::Program& first = job.classes[rank.of_class].programs[place];
    std::optional<program::Bundle> bound;
    if (first.rank != Rank(rank.rank)) bound = program::bundle_of(job, Rank(rank.rank));
    const program::Program& own = bound ? bound->programs[place] : first;
    trace::RankTimeline made{
        rank.rank, place_of(own), host_of(Rank(rank.rank)), own.streams, trace::describe_work(own),
        {}};
    made.steps.push_back(to_step(rank, simulation, made.works));
    timeline.ranks.push_back(std::move(made));
  }
  return timeline;
}

}  // namespace fourfold::simulate
