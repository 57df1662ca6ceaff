#include "cli/bench_cuda.h"

#include "base/error.h"
#include "job/cuda_parts.h"

namespace fourfold::cli {

void bench_cuda(const BenchArguments&) {
  throw UserError(ExitCode::environment, machine::trouble(job::cuda_facts()));
}

}  // namespace fourfold::cli
