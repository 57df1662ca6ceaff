// What is said before a training run begins, beyond the job itself (summary.h): the machine beside
// the memory wanted, data, libraries, and the rate that utilisation is measured against.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "job/job.h"
#include "job/summary.h"
#include "rundir/run_record.h"

namespace fourfold::cli {

/// Best rate of the library's matrix product in the run's precision on as many threads as all ranks
/// of this process use together: what the user's cache knows of this machine or, until it knows
/// enough, the best of that and about half a second of measuring now. None where the run is too
/// short to be worth it, or the precision has no such product here.
std::optional<rundir::Peak> find_peak(const job::Job& job, const comm::Variable& variable);
/// The same for a job of processes, all ranks together: one rank of each host measures, the rates
/// of the hosts are added.
std::optional<rundir::Peak> find_peak(const job::Job& job, comm::World& world,
                                      const comm::Variable& variable);
/// For a run that computed faster than its peak: the next starts measure it again.
void doubt_peak(const rundir::Peak& peak, const comm::Variable& variable);

/// "4 ranks share 2 cores", where so many ranks on this host have fewer cores; else empty.
std::string shared_cores(const rundir::JobFacts& facts, std::size_t ranks_here);

/// The whole table: rows of the job and those of the machine.
Rows startup_rows(const job::Job& job, const data::Source& source, const rundir::JobFacts& facts,
                  std::size_t ranks_here);

}  // namespace fourfold::cli
