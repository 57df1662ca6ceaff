// What is said before a training run begins, beyond the job itself (summary.h): the machine beside
// the memory wanted, data, libraries, where the choice of
// kernels comes from, and the rate that utilisation is measured against
// (measure/peak.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "data/source.h"
#include "job/find_kernels.h"
#include "job/job.h"
#include "measure/peak.h"
#include "rundir/run_record.h"
#include "show/summary.h"

namespace fourfold::training_run {

/// "4 ranks share 2 cores", where so many ranks on this host have fewer cores; else empty.
std::string shared_cores(const rundir::JobFacts& facts, std::size_t ranks_here);

/// The whole table: rows of the job and those of the machine.
Rows startup_rows(const job::Job& job, const data::Source& source, const rundir::JobFacts& facts,
                  const std::optional<measure::MeasuredPeak>& peak,
                  const job::FoundKernels& kernels, std::size_t ranks_here);

}  // namespace fourfold::training_run
