#include "cli/bench_job.h"

#include <utility>

#include "cli/config_source.h"
#include "cli/settle_grid.h"

namespace fourfold::cli {

job::Job bench_job(ConfigSource source, const BenchArguments& arguments,
                   const std::string& device) {
  const bool is_bf16 =
      arguments.dtype == "bf16" || (arguments.dtype.empty() && source.files.empty());
  // A key, so that what follows from it follows here too.
  std::string compute;
  if (device == "cuda" && is_bf16)
    compute = "bf16";
  else if (!arguments.dtype.empty())
    compute = arguments.dtype == "fp64" ? "fp64" : "fp32";
  if (!compute.empty()) source.sets.push_back("precision.compute=" + compute);
  config::Config config = load_config(source);
  refuse_open_grid(config);
  config.device = device;
  config.kernel_table = config::KernelTable::builtin;  // another one is about to be measured
  if (arguments.threads > 0) config.threads = arguments.threads;
  if (config.device == "cpu") job::check_trainable(config);
  job::resolve_model(config);
  return job::make_job(std::move(config));
}

}  // namespace fourfold::cli
