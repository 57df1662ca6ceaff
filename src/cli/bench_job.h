// The jobs whose kernels `bench` times: compiled, never run.
#pragma once

#include <string>

#include "cli/commands.h"
#include "config/config.h"
#include "job/job.h"

namespace fourfold::cli {

/// The configuration of a command on a device, "cpu" or "cuda", with the types and threads that the
/// command line asks for and the built-in choice of kernels.
config::Config bench_config(job::ConfigSource source, const BenchArguments& arguments,
                            const std::string& device);

/// Its job.
job::Job bench_job(job::ConfigSource source, const BenchArguments& arguments,
                   const std::string& device);

}  // namespace fourfold::cli
