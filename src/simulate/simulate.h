// A program of a job priced on a described cluster, without running it: the same instructions on
// the same streams, with a clock (clock.h). Nothing is compiled, chosen or drawn here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "machine/cluster.h"
#include "program/job.h"
#include "program/meetings.h"
#include "simulate/clock.h"
#include "trace/timeline.h"

namespace fourfold::simulate {

/// Whose streams are followed.
enum class Follow : std::uint8_t {
  /// One rank of each class where all ranks of a class take the same time. Where their groups lie
  /// differently on the machine: all ranks, if that is cheap; else one of each class after all, for
  /// which the slowest group stands.
  automatic,
  one_of_each_class,
  all_ranks
};

struct SimulatedRank {
  std::uint32_t rank = 0, of_class = 0;
  std::int64_t stands_for = 1;  // so many ranks, itself among them
  std::vector<Times> times;     // by instruction; of records none
};

struct Simulation {
  op::ProgramKind program = op::ProgramKind::train;
  std::vector<SimulatedRank> ranks;  // by rank
  /// Groups of one class take different times, and the slowest stands for all of them.
  bool is_bound = false;
  double step_s = 0;                                 // the last stream of all ranks is done
  double flops = 0;                                  // that all ranks compute together
  std::int64_t num_ranks = 0, num_instructions = 0;  // of the job, over all ranks
};

/// The ranks of the job wait for each other for ever.
class NeverEnds : public UserError {
 public:
  explicit NeverEnds(const std::string& text) : UserError(ExitCode::bad_config, text) {}
};

/// Ranks lie on devices in their order. Requires a job that verify/ finds no fault in.
/// Cost: linear in the ranks and their groups, n log n in the instructions that are followed.
/// Errors: UserError(does_not_fit) where the machine has fewer ranks; UserError(bad_config) where
/// it has no rate for a product or where the job has no such program; UserError(numeric_stop)
/// where its rates give a time that is not finite; NeverEnds.
Simulation simulate(const program::Job& job, op::ProgramKind program,
                    const machine::Cluster& cluster, Follow follow = Follow::automatic);

/// The same where it is known who meets whom; of the program at this place of each bundle.
Simulation simulate(const program::Job& job, std::size_t program, const program::Meetings& meetings,
                    const machine::Cluster& cluster, Follow follow = Follow::automatic);

/// When the works of a rank's program (trace/describe_work.h) ran.
trace::Step to_step(const SimulatedRank& rank, const Simulation& simulation,
                    const std::vector<trace::Work>& works);

/// One step of the ranks that were followed, as a run records it. `place_of` and `host_of` name a
/// rank's place on the meshes and its host.
trace::Timeline to_timeline(const program::Job& job, const Simulation& simulation,
                            const std::function<std::string(const program::Program&)>& place_of,
                            const std::function<std::string(Rank)>& host_of);

}  // namespace fourfold::simulate
