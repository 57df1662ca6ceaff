// Runs all programs of a job on threads, from state that is nothing special, and keeps all that
// they leave on every rank: what two jobs that compute the same function have in common.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/job.h"
#include "support/small_run.h"

namespace fourfold::test {

/// Numbers by the rank, the program that left them, and the name of a buffer or of a field of the
/// result block.
struct WholeRun {
  std::map<std::string, std::vector<double>> numbers;
  std::string fault;  // why the run did not end; empty where it did
};

/// Init; then, from other weights, moments and averages, three steps of training, one that is not
/// applied, one that finds an element of each moment not finite, and one more; and every other
/// program that there is. Digests are those of both starts: they are of bits, which sums in another
/// order change. The hosts of ranks vote differently. A job that hangs is ended.
WholeRun run_whole_job(const RunSetup& setup, const program::Job& job);

/// The first numbers that differ by more than `tolerance` of the norm of theirs; empty where none
/// do. What has no gradient but rounding (the bias of keys) is left out.
std::string difference(const WholeRun& got, const WholeRun& wanted, double tolerance);

}  // namespace fourfold::test
