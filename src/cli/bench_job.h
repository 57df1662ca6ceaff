// The jobs whose kernels `bench` times: compiled, never run.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"
#include "job/job.h"

namespace fourfold::cli {

/// Prepares the job of a command on a device, "cpu" or "cuda", with the types and threads that the
/// command line asks for and the built-in kernel table. Errors: what job::load_config and
/// job::prepare throw; UserError(bad_config) where the grid is open.
job::Job bench_job(const job::ConfigSource& source, const BenchArguments& arguments,
                   const std::string& device);

/// Steps of one rank on a CPU: with all samples of the configuration, and with half as many again
/// and again, down to half of what each rank has where all share them out, for the kernels of other
/// grids: in some of them a rank has all of what others share. With two micro-batches where there
/// are more. Without a configuration there are none. Errors: as bench_job.
std::vector<job::Job> bench_steps(const job::ConfigSource& source, const BenchArguments& arguments,
                                  std::int64_t ranks, int threads);

}  // namespace fourfold::cli
