// From a settled configuration to what its job must compute: the serial program of the global
// batch. Not a program to be run fast, and nothing of the plan is in it.
#pragma once

#include "config/settled.h"
#include "job/graphs.h"
#include "program/job.h"

namespace fourfold::job {

/// The specification (specification/specify.h) of a run in float64: "train" for all samples of a
/// step at once, every other program for as many samples as one run of it takes on the ranks of the
/// job, so that what they leave and tell can be compared one by one. Errors: none of its own.
program::Job specify(const config::Settled& settled, Graphs which = Graphs::of_run);

}  // namespace fourfold::job
