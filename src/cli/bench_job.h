// The jobs whose kernels `bench` times: compiled, never run.
#pragma once

#include <string>

#include "cli/commands.h"
#include "job/job.h"

namespace fourfold::cli {

/// The job of a configuration on a device, "cpu" or "cuda", with the types and threads that the
/// command line asks for and the built-in choice of kernels.
job::Job bench_job(ConfigSource source, const BenchArguments& arguments, const std::string& device);

}  // namespace fourfold::cli
