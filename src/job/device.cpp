#include "job/device.h"

#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/units.h"
#include "job/cuda_parts.h"
#include "job/cuda_run.h"
#include "job/job.h"
#include "run/cpu.h"

namespace fourfold::job {
namespace {

using machine::CudaState;

constexpr int first_gpu = 0;

/// What libraries take of a GPU's memory after the regions of a run: code is loaded when a kernel
/// is first used, in the first step, and cuDNN and cuBLASLt hold memory of their own. A bound until
/// a GPU has shown less: libcublasLt 13.1 and the libraries of cuDNN 9.19 are 0.96 GiB together,
/// with code for every GPU.
constexpr std::int64_t late_library_bytes = std::int64_t{3} << 29;

/// Why a GPU cannot do a job; empty where it can. What `auto` passes over in silence.
std::string why_not_cuda(const config::Config& config, std::int64_t ranks) {
  if (ranks > 1)
    return format(
        "run.device = cuda computes with one GPU, and the job has {} ranks; set all of "
        "parallel to 1, or run.device = cpu",
        ranks);
  if (config.plan.compute == DType::f64)
    return "precision.compute = fp64 is not computed on a GPU; set precision.compute = fp32 or "
           "bf16, or run.device = cpu";
  return {};
}

std::string gpu_words(const machine::CudaDevice& device) {
  return format("{}, compute capability {}.{}, {}", device.name, device.capability.major,
                device.capability.minor, format_bytes(device.memory_bytes));
}

/// Both regions lie on the device; what is beside them does not.
void check_gpu_memory(const Job& job, std::int64_t beside_bytes) {
  const std::int64_t persistent = job.bundle().persistent_bytes,
                     transient = job.bundle().transient_bytes;
  const std::optional<std::int64_t> left = cuda_free_memory_bytes(first_gpu);
  if (!left)
    throw UserError(ExitCode::environment,
                    format("{} does not say how much of its memory is free; look at nvidia-smi",
                           device_text(job)));
  const std::int64_t needed = persistent + transient + late_library_bytes;
  if (needed > *left)
    throw UserError(
        ExitCode::does_not_fit,
        format(
            "the run needs {} of the memory of {} ({} persistent, {} transient, {} for libraries "
            "that load late) and {} are free there; reduce train.micro_batch_size, set "
            "memory.activation_checkpointing = "
            "full, choose a smaller model, or end what else runs on the GPU (nvidia-smi shows "
            "it)",
            format_bytes(needed), device_text(job), format_bytes(persistent),
            format_bytes(transient), format_bytes(late_library_bytes), format_bytes(*left)));
  if (beside_bytes > available_memory_bytes())
    throw UserError(ExitCode::does_not_fit,
                    format("checkpoints need {} of this host's memory and {} are available; set "
                           "checkpoint.interval_steps = 0, or free memory",
                           format_bytes(beside_bytes), format_bytes(available_memory_bytes())));
}

void check_host_memory(const program::Bundle& bundle, std::int64_t ranks_here,
                       std::int64_t beside_bytes) {
  const std::int64_t needed = ranks_here *
                              (bundle.persistent_bytes + bundle.transient_bytes + beside_bytes),
                     available = available_memory_bytes();
  if (needed <= available) return;
  throw UserError(
      ExitCode::does_not_fit,
      format(
          "the run needs {} of memory (for {} rank{} of {} persistent, {} transient{} each) and {} "
          "are available; reduce "
          "train.micro_batch_size, set memory.activation_checkpointing = full, or choose a smaller "
          "model",
          format_bytes(needed), ranks_here, ranks_here == 1 ? "" : "s",
          format_bytes(bundle.persistent_bytes), format_bytes(bundle.transient_bytes),
          beside_bytes == 0 ? "" : format(", {} for checkpoints", format_bytes(beside_bytes)),
          format_bytes(available)));
}

}  // namespace

Device choose_device(const config::Config& config, std::int64_t ranks) {
  if (config.device == "cpu") return Device::cpu;
  const std::string obstacle = why_not_cuda(config, ranks);
  if (config.device == "cuda") {
    if (!cuda_target(CudaKernels::own))
      throw UserError(ExitCode::environment,
                      format("run.device = cuda: {}", trouble(cuda_facts())));
    if (!obstacle.empty())
      throw UserError(ranks > 1 ? ExitCode::environment : ExitCode::bad_config, obstacle);
    return Device::cuda;
  }
  // Plain loops are asked for to check what a CPU computes.
  const bool is_able = obstacle.empty() && config.kernels != "reference";
  return is_able && cuda_facts().state == CudaState::ready ? Device::cuda : Device::cpu;
}

void require_device(const Job& job) {
  if (job.device == Device::cpu) return;
  const machine::CudaFacts facts = cuda_facts();
  if (facts.state == CudaState::ready) return;
  throw UserError(ExitCode::environment,
                  format("run.device = cuda: {}; or set run.device = cpu", trouble(facts)));
}

std::int64_t memory_share(const Job& job, std::int64_t ranks_here, std::int64_t beside_bytes) {
  if (job.device == Device::cpu) return available_memory_bytes() / ranks_here - beside_bytes;
  return cuda_free_memory_bytes(first_gpu).value_or(late_library_bytes) - late_library_bytes;
}

void check_memory(const Job& job, std::int64_t ranks_here, std::int64_t beside_bytes) {
  if (job.device == Device::cuda)
    check_gpu_memory(job, beside_bytes);
  else
    check_host_memory(job.bundle(), ranks_here, beside_bytes);
}

std::unique_ptr<run::Backend> make_backend(const Job& job, comm::World* world,
                                           const std::string& data_name) {
  if (job.device == Device::cuda) return make_cuda_backend(world);
  return std::make_unique<run::CpuBackend>(
      run::CpuOptions{.threads = job.target.threads, .world = world, .data_name = data_name});
}

std::string device_text(const Job& job) {
  if (job.device == Device::cpu) return "cpu";
  const machine::CudaFacts facts = cuda_facts();
  return facts.devices.empty() ? "a GPU that does not answer" : facts.devices[first_gpu].name;
}

Row device_row(const Job& job) {
  const machine::CudaFacts facts = cuda_facts();
  if (job.device == Device::cuda && !facts.devices.empty())
    return {"device",
            format("{}, {} wanted", gpu_words(facts.devices[first_gpu]),
                   format_bytes(job.bundle().persistent_bytes + job.bundle().transient_bytes))};
  if (job.config.device == "cpu" || facts.state == CudaState::not_built) return {"device", "cpu"};
  return {"device", facts.state == CudaState::ready
                        ? "cpu, though there is a GPU: one GPU takes jobs of one rank in fp32 or "
                          "bf16, with kernels = auto"
                        : format("cpu: {}", trouble(facts))};
}

}  // namespace fourfold::job
