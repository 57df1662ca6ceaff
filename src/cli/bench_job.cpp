#include "cli/bench_job.h"

#include <utility>

#include "cli/prepare_to_look.h"
#include "config/uses.h"
#include "job/config_source.h"
#include "job/settle.h"

namespace fourfold::cli {
namespace {

/// The types are a key, so that what follows from it follows here too.
job::ConfigSource with_types(job::ConfigSource source, const BenchArguments& arguments,
                             const std::string& device) {
  std::string compute = arguments.dtype == "tf32" ? "fp32" : arguments.dtype;
  if (compute.empty() && device == "cuda" && source.files.empty()) compute = "bf16";
  if (!compute.empty()) source.sets.push_back("precision.compute=" + compute);
  return source;
}

}  // namespace

job::Job bench_job(const job::ConfigSource& source, const BenchArguments& arguments,
                   const std::string& device) {
  const config::Config config = job::load_config(with_types(source, arguments, device));
  refuse_open_grid(config);
  return job::prepare(job::settle(config::for_measuring(config, device, arguments.threads), {}));
}

std::vector<job::Job> bench_steps(const job::ConfigSource& source, const BenchArguments& arguments,
                                  std::int64_t ranks, int threads) {
  if (source.files.empty()) return {};
  const config::Config config = job::load_config(with_types(source, arguments, "cpu"));
  refuse_open_grid(config);
  const config::Config measured = config::for_measuring(config, "cpu", threads);
  const plan::PlanSpec spec = measured.plan_spec();
  const std::int64_t samples = spec.micro_batch_size,
                     micros = spec.global_batch_size >= 2 * samples ? 2 : 1;
  std::vector<job::Job> jobs;
  for (std::int64_t divisor = 1; divisor <= 2 * ranks && samples % divisor == 0; divisor *= 2)
    jobs.push_back(
        job::prepare(job::settle(config::for_one_rank(measured, samples / divisor, micros), {})));
  return jobs;
}

}  // namespace fourfold::cli
