// Where the time of the steps in a timeline went. Times are means over the steps, in seconds a
// step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "trace/timeline.h"

namespace fourfold::trace {

/// An amount of work and the time it took.
struct Amount {
  double seconds = 0;
  double calls = 0;
  double flops = 0, bytes = 0;

  double gflop_per_s() const { return seconds > 0 ? flops / seconds * 1e-9 : 0; }
  double gb_per_s() const { return seconds > 0 ? bytes / seconds * 1e-9 : 0; }
};

/// One kind of work on one stream: "gemm", "all_reduce x", "wait for x", "idle". All of a stream's
/// make up the step.
struct Part {
  std::string stream;
  std::string what;
  Amount amount;
};

/// One class of what ranks exchange (Work::traffic), "z.weights". Time that is neither hidden nor
/// exposed is time in which the math stream waited for something else.
struct Traffic {
  std::string name;
  Amount amount;        // bytes are the payload
  double hidden_s = 0;  // the class was exchanged while this rank computed
  /// The math stream waited for the class, or had finished while it was still exchanged. The sum
  /// over classes is StepMetrics::exposed_communication_s.
  double exposed_s = 0;
};

struct RankSummary {
  std::size_t rank = 0;
  std::string place, host;
  double step_s = 0;
  std::vector<Part> parts;       // by stream, then by class, idle last
  double compute_s = 0;          // the math stream works, or that of gradients
  double gradients_s = 0;        // ... the latter alone, while no exchange is waited for either
  double wait_s = 0;             // the math stream stands in waits
  double idle_s = 0;             // it neither works nor waits
  double communication_s = 0;    // any stream exchanges with other ranks, ...
  double overlapped_s = 0;       // ... while the rank computes
  double early_s = 0;            // it was there and not all others
  std::vector<Traffic> traffic;  // by name
};

/// A kind of work over all ranks.
struct PartOverRanks {
  std::string stream, what;
  Amount mean;
  double least_s = 0, most_s = 0;
  std::size_t least_rank = 0, most_rank = 0;
};

/// Instructions that do the same: of one name and implementation, or all repetitions of one
/// instruction in the tasks of a step. Mean over ranks; calls are those of a step.
struct Operation {
  std::string what;
  std::string by;
  std::string stream;
  Amount amount;
};

struct Summary {
  op::ProgramKind program = op::ProgramKind::train;
  std::int64_t first_step = 0, last_step = 0, num_steps = 0;
  double step_s = 0, shortest_step_s = 0, longest_step_s = 0;  // over ranks and steps
  std::vector<PartOverRanks> parts;
  std::vector<Traffic> traffic;  // by name; mean over ranks
  std::vector<RankSummary> ranks;
  std::vector<Operation> operations;  // longest first, waits apart
  std::vector<Operation> longest;     // instructions, longest first, waits apart; at most 10

  /// Mean over ranks.
  double mean(double RankSummary::* seconds) const;
};

/// Requires at least one step on each rank. Errors: UserError(bad_data) that begins with `file`
/// otherwise.
Summary summarize(const Timeline& timeline, const std::string& file);

/// The same of one rank that has a step. Nothing is known of other ranks: it is early nowhere.
/// Cost: n log n in its works.
RankSummary summarize_alone(const RankTimeline& rank);

/// Tables for people, at most 100 columns wide.
std::string to_text(const Summary& summary);
/// All numbers; times in seconds.
Json to_json(const Summary& summary);

}  // namespace fourfold::trace
