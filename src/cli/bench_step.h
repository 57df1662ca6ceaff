// fourfold bench step: how long a training step of a configuration takes, without a run.
#pragma once

#include "cli/commands.h"

namespace fourfold::cli {

/// Trains ten batches and prints the mean time of the last five, as the papers do, beside median
/// and spread. Ranks are threads of this process, or with --job the processes of a launcher.
/// Nothing is written. Errors: those of training.
void bench_step(const BenchArguments& arguments);

}  // namespace fourfold::cli
