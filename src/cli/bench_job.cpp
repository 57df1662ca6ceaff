#include "cli/bench_job.h"

#include <utility>

#include "cli/settle_grid.h"
#include "job/config_source.h"

namespace fourfold::cli {

config::Config bench_config(job::ConfigSource source, const BenchArguments& arguments,
                            const std::string& device) {
  // A key, so that what follows from it follows here too.
  std::string compute = arguments.dtype == "tf32" ? "fp32" : arguments.dtype;
  if (compute.empty() && device == "cuda" && source.files.empty()) compute = "bf16";
  if (!compute.empty()) source.sets.push_back("precision.compute=" + compute);
  config::Config config = job::load_config(source);
  refuse_open_grid(config);
  config.device = device;
  config.kernel_table = config::KernelTable::builtin;  // another one is about to be measured
  if (arguments.threads > 0) config.threads = arguments.threads;
  job::resolve_model(config);
  return config;
}

job::Job bench_job(job::ConfigSource source, const BenchArguments& arguments,
                   const std::string& device) {
  return job::make_job(bench_config(std::move(source), arguments, device));
}

}  // namespace fourfold::cli
