// What was decided for a job, as tables for people: `fourfold plan` below the start-up table. Not
// the plan itself as text (plan::to_text).
#pragma once

#include <string>

#include "job/job.h"

namespace fourfold::show {

/// Shapes of every kind of parameter: whole, what a rank keeps between steps, what it computes
/// with. Blocks are equal: the first one stands for all.
std::string parameter_table(const job::Job& job);

/// Bytes of the first rank by class: persistent ones, and transient ones where most are alive.
std::string memory_table(const job::Job& job);

/// What one rank sends in a training step: by axis, collective and class of tensor
/// (program/traffic.h).
/// What a rank needs with each switch that costs memory off and on, where that differs: gathers
/// ahead, memory that is not used again while it is sent, gathered weights that stay, activations
/// that are computed again. All else is as configured, without a limit. Cost: compiling the
/// training step for each, in place of the job's own programs: two would be the peak of planning.
std::string switch_table(job::Job job);
std::string traffic_table(const job::Job& job);

/// Every program of the bundle: instructions, transient memory, flops.
std::string program_table(const job::Job& job);

}  // namespace fourfold::show
