#include "job/device.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/units.h"
#include "comm/launcher.h"
#include "comm/mpi.h"
#include "comm/nccl_api.h"
#include "job/job.h"
#include "measure/cuda_parts.h"
#include "measure/cuda_run.h"
#include "run/cpu.h"
#include "run/program_groups.h"

namespace fourfold::job {
namespace {

using machine::CudaState;

/// As many as a reduction of ranks that share a GPU takes (kernels/cuda/reduce_members.h).
constexpr std::int64_t most_sharing = 64;

/// Why a GPU cannot do a job; empty where it can. What `auto` passes over in silence.
std::string why_not_cuda(const config::Config& config) {
  if (config.plan.compute == DType::f64)
    return "precision.compute = fp64 is not computed on a GPU; set precision.compute = fp32 or "
           "bf16, or run.device = cpu";
  return {};
}

/// Pinned memory of this host in which a rank holds what passes between ranks by way of it.
std::int64_t staged_bytes(const Job& job) {
  return job.gpu.why_not_nccl.empty() ? 0 : run::staged_bytes(job.bundle());
}

/// NCCL takes so many bytes of the GPU of the rank that has most communicators; none where tensors
/// pass by another way.
std::int64_t nccl_bytes_of(const Job& job) {
  if (job.gpu.between != measure::Between::nccl) return 0;
  std::int64_t most = 0;
  for (const program::Bundle& bundle : job.programs.classes)
    most = std::max(most, measure::nccl_bytes(measure::communicators_of(bundle)));
  return most;
}

/// Both regions lie on the device; what is beside them does not.
void check_gpu_memory(const Job& job, std::int64_t ranks_here, std::int64_t beside_bytes) {
  const std::int64_t persistent = job.bundle().persistent_bytes,
                     transient = job.bundle().transient_bytes;
  const std::optional<std::int64_t> left = measure::cuda_free_memory_bytes(job.gpu.index);
  if (!left)
    throw UserError(ExitCode::environment,
                    format("{} does not say how much of its memory is free; look at nvidia-smi",
                           device_text(job)));
  const std::int64_t ranks = job.gpu.ranks, nccl = nccl_bytes_of(job),
                     needed = ranks * (persistent + transient) + measure::late_library_bytes + nccl;
  if (needed > *left)
    throw UserError(
        ExitCode::does_not_fit,
        format(
            "the run needs {} of the memory of {} ({}{} persistent, {} transient, {} for "
            "libraries that load late{}) and {} are free there; reduce train.micro_batch_size, set "
            "memory.activation_checkpointing = "
            "full, choose a smaller model, or end what else runs on the GPU (nvidia-smi shows "
            "it)",
            format_bytes(needed), device_text(job),
            ranks == 1 ? "" : format("for each of {} ranks ", ranks), format_bytes(persistent),
            format_bytes(transient), format_bytes(measure::late_library_bytes),
            nccl == 0 ? "" : format(", {} for communicators of NCCL", format_bytes(nccl)),
            format_bytes(*left)));
  const std::int64_t staged = staged_bytes(job), available = available_memory_bytes();
  if (ranks_here * (beside_bytes + staged) > available)
    throw UserError(
        ExitCode::does_not_fit,
        format("{} rank{} of this host need{} {} of its memory each for checkpoints and {} for "
               "what passes between ranks, and {} are available; set checkpoint.interval_steps = "
               "0, start fewer ranks on a host, or free memory",
               ranks_here, ranks_here == 1 ? "" : "s", ranks_here == 1 ? "s" : "",
               format_bytes(beside_bytes), format_bytes(staged), format_bytes(available)));
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
  const std::string obstacle = why_not_cuda(config);
  if (config.device == "cuda") {
    if (!measure::cuda_target(measure::CudaKernels::own))
      throw UserError(ExitCode::environment,
                      format("run.device = cuda: {}", trouble(measure::cuda_facts())));
    if (!obstacle.empty()) throw UserError(ExitCode::bad_config, obstacle);
    return Device::cuda;
  }
  // Plain loops are asked for to check what a CPU computes. Ranks that share a GPU are slower than
  // one; they are asked for to check what several compute.
  const bool is_able = ranks == 1 && obstacle.empty() && config.kernels != "reference";
  return is_able && measure::cuda_facts().state == CudaState::ready ? Device::cuda : Device::cpu;
}

void require_device(Device device) {
  if (device == Device::cpu) return;
  const machine::CudaFacts facts = measure::cuda_facts();
  if (facts.state == CudaState::ready) return;
  throw UserError(ExitCode::environment,
                  format("run.device = cuda: {}; or set run.device = cpu", trouble(facts)));
}

std::optional<measure::GpuPlace> place_gpus(Device device, comm::Together& together) {
  return device == Device::cuda ? measure::place_gpus(together) : std::nullopt;
}

std::unique_ptr<measure::CudaForThreads> open_for_threads(const Job& job) {
  if (job.device == Device::cpu || job.ranks() == 1) return nullptr;
  if (job.ranks() > most_sharing)
    throw UserError(ExitCode::environment,
                    format("{} ranks as threads would share one GPU, which {} can at most; start "
                           "them as processes, one for each GPU (mpirun, srun), or choose a "
                           "smaller grid",
                           job.ranks(), most_sharing));
  return measure::open_cuda_for_threads();
}

measure::Communicators communicators_of(const Preparation& run) {
  measure::Communicators most;
  for (const auto& programs : run.programs_by_class()) {
    program::Bundle bundle;
    for (const program::Program* program : programs) bundle.programs.push_back(*program);
    const measure::Communicators own = measure::communicators_of(bundle);
    if (measure::nccl_bytes(own) > measure::nccl_bytes(most)) most = own;
  }
  return most;
}

void check_memory(const Job& job, std::int64_t ranks_here, std::int64_t beside_bytes) {
  if (job.device == Device::cuda)
    check_gpu_memory(job, ranks_here, beside_bytes);
  else
    check_host_memory(job.bundle(), ranks_here, beside_bytes);
}

std::unique_ptr<run::Backend> make_backend(const Job& job, comm::World* world,
                                           const std::string& data_name,
                                           measure::CudaForThreads* shared) {
  if (shared != nullptr) return shared->make_backend(*world);
  if (job.device == Device::cuda)
    return measure::make_cuda_backend(job.gpu.index, world, job.gpu.between);
  return std::make_unique<run::CpuBackend>(
      run::CpuOptions{.threads = job.target.threads, .world = world, .data_name = data_name});
}

std::string device_text(const Job& job) {
  if (job.device == Device::cpu) return "cpu";
  const machine::CudaFacts facts = measure::cuda_facts();
  return facts.devices.empty() ? "a GPU that does not answer"
                               : facts.devices[static_cast<std::size_t>(job.gpu.index)].name;
}

}  // namespace fourfold::job
