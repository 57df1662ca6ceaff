#include "show/device_row.h"

#include <cstddef>
#include <string>

#include "base/format.h"
#include "base/units.h"
#include "job/device.h"
#include "measure/cuda_parts.h"

namespace fourfold::show {
namespace {

std::string gpu_words(const machine::CudaDevice& device) {
  return format("{}, compute capability {}.{}, {}", device.name, device.capability.major,
                device.capability.minor, format_bytes(device.memory_bytes));
}

/// Who shares the GPU, and how tensors pass between ranks.
std::string words_of_ranks(const job::Job& job) {
  const measure::GpuPlace& gpu = job.gpu;
  if (job.ranks() == 1) return {};
  const std::string shared =
      gpu.ranks == 1 ? "" : format(" by each of {} ranks that share it", gpu.ranks);
  if (gpu.between == measure::Between::nccl)
    return shared + "; between ranks by NCCL" +
           (gpu.what_nccl_lacks.empty() ? "" : format(" ({})", gpu.what_nccl_lacks));
  if (gpu.why_not_nccl.empty()) return shared;
  return format("{}; between ranks by way of the host{} ({})", shared,
                gpu.between == measure::Between::mpi ? ", messages from the device by MPI" : "",
                gpu.why_not_nccl);
}

}  // namespace

Row device_row(const job::Job& job) {
  const machine::CudaFacts facts = measure::cuda_facts();
  if (job.device == job::Device::cuda && !facts.devices.empty())
    return {
        "device",
        format("{}, {} wanted{}", gpu_words(facts.devices[static_cast<std::size_t>(job.gpu.index)]),
               format_bytes(job.bundle().persistent_bytes + job.bundle().transient_bytes),
               words_of_ranks(job))};
  if (job.settled.config().device == "cpu" || facts.state == machine::CudaState::not_built)
    return {"device", "cpu"};
  return {"device",
          facts.state == machine::CudaState::ready
              ? "cpu, though there is a GPU: `auto` takes it for jobs of one rank in fp32 "
                "or bf16, with kernels = auto"
              : format("cpu: {}", trouble(facts))};
}

}  // namespace fourfold::show
