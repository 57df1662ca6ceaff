// What the kernel calls of a training step take within that step: after the calls that come before
// them there, on the same memory. A call that is repeated on its own is faster, because it finds in
// the caches of its own core what another one has written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/world.h"
#include "measure/step_calls.h"
#include "program/program.h"

namespace fourfold::measure {

struct CallTime {
  Call call;
  double seconds = 0;
};

/// The step of a rank that is alone.
struct TimedStep {
  const program::Bundle* bundle = nullptr;  // with programs `init` and `train`
  std::int64_t num_labels = 2;              // tokens, or classes: what is fed in integers is below
};

struct StepTimesOptions {
  int threads = 1;     // of the kernels
  double seconds = 1;  // to run each step for, at least ten times
  /// So many ranks share a device, which has but one thread of each.
  std::int64_t ranks_per_device = 1;
  double instruction_s = 0;  // what an instruction takes beside its work
};

/// Runs the steps one after another with made-up samples and a learning rate of zero, on one rank
/// of each device at the same time. A call has the median of its times, the mean over devices.
/// Where ranks share a device, all of them then run the step at once: all its calls are longer by
/// what it takes more then, because the others have used the caches in between. All ranks call
/// together and get the same figures, one for each computation of the steps. Takes the memory of
/// the largest bundle on each rank.
std::vector<CallTime> time_steps(comm::World& world, std::span<const TimedStep> steps,
                                 const StepTimesOptions& options);

}  // namespace fourfold::measure
