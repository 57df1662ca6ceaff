#include "measure/cuda_run.h"

#include "base/error.h"
#include "measure/cuda_parts.h"

namespace fourfold::measure {

std::optional<machine::Target> cuda_target(CudaKernels, std::vector<machine::Choice>) {
  return std::nullopt;
}

std::vector<std::string> cuda_implementations(const std::string&, DType) {
  return {};
}

std::vector<machine::KernelTable::Line> time_cuda_kernels(
    int, const std::vector<machine::KernelTable::Line>&, const std::vector<kernels::Problem>&,
    const machine::Target&, double) {
  throw UserError(ExitCode::environment, machine::trouble(cuda_facts()));
}

std::unique_ptr<run::Backend> make_cuda_backend(int, comm::World*, Between) {
  throw UserError(ExitCode::environment, machine::trouble(cuda_facts()));
}

std::unique_ptr<DeviceOfRank> open_device_of_rank(int, comm::World&, Between) {
  throw UserError(ExitCode::environment, machine::trouble(cuda_facts()));
}

std::unique_ptr<CudaForThreads> open_cuda_for_threads() {
  throw UserError(ExitCode::environment, machine::trouble(cuda_facts()));
}

}  // namespace fourfold::measure
