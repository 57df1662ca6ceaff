// fourfold bench machine: measures this machine, or the hosts of a job, as a cluster.
#pragma once

#include "cli/commands.h"

namespace fourfold::cli {

/// Measures with ranks as threads of this process, or the processes of a launcher; the first rank
/// prints what it measures and writes the file. Errors: UserError(bad_config) where the ranks do
/// not share the cores evenly.
void bench_machine(const BenchArguments& arguments);

}  // namespace fourfold::cli
