// How long a step of a pipeline takes, in closed form: the period law of Zhuang et al. 2023
// (arXiv:2211.05322) as papers derive it for equal stages, here for any, and the time to fill and
// to drain. Not the times of single tasks: pipeline/timing.h.
#pragma once

#include <cstdint>

#include "pipeline/timing.h"

namespace fourfold::search {

/// How long a micro-batch takes once the pipeline is full. GPipe: the slowest forward task or
/// message, and then the slowest backward one. 1F1B and eager-1F1B: the slowest stage or message
/// or, where messages are slow, a circle over q + 1 stages in a row. A micro-batch goes there and
/// back, in all their tasks and the messages between them, while the first of these stages has
/// only so many more under way than the last one: q for 1F1B and 2 q for eager-1F1B, and one more
/// in its turn. Messages between stages that are no neighbours count alone.
double period_seconds(const pipeline::Costs& costs, pipeline::Schedule schedule);

/// The time of all micro-batches: one goes there and back alone, and each other one takes a period.
/// Exact for equal stages and free messages. Requires stages, each on a mesh of its own in their
/// order, and messages that are overlapped.
double pipeline_seconds(const pipeline::Costs& costs, pipeline::Schedule schedule,
                        std::int64_t micros);

}  // namespace fourfold::search
