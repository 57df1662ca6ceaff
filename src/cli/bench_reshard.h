// fourfold bench reshard: how long a tensor takes from one mesh to another, beside the prediction.
#pragma once

#include "cli/commands.h"

namespace fourfold::cli {

/// Carries out the plans of the paper's cases, or of a pair of meshes, by each strategy: on ranks
/// that are threads of this process, a row of a mesh for a host, or with --job on the processes of
/// a launcher, a row of a mesh on each host in turn. Prints makespan and lower bound of the plan
/// beside the measured time, planned and counted bytes between hosts, and what every element says.
/// Errors: UserError(bad_config), and internal where an element is wrong.
void bench_reshard(const BenchArguments& arguments);

}  // namespace fourfold::cli
