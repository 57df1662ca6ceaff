#include "cli/bench.h"

#include "base/error.h"
#include "measure/cuda_parts.h"

namespace fourfold::cli {

void bench_cuda(const BenchArguments&) {
  throw UserError(ExitCode::environment, machine::trouble(measure::cuda_facts()));
}

}  // namespace fourfold::cli
