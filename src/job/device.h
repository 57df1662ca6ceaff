// On what a job computes: the CPU or a GPU. The one place of this room that knows both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/launch.h"
#include "comm/world.h"
#include "config/config.h"
#include "job/cuda_run.h"
#include "machine/target.h"
#include "program/program.h"
#include "run/backend.h"

namespace fourfold::job {

struct Job;
struct PlannedRun;
class Preparation;

enum class Device : std::uint8_t { cpu, cuda };

/// The GPU on which the ranks of this process compute.
struct GpuPlace {
  int index = 0;
  std::int64_t ranks = 1;  // that it serves, of all processes
  Between between = Between::host;
  std::string why_not_nccl = {};     // "rank 1: libnccl.so.2 ..."
  std::string what_nccl_lacks = {};  // "rank 1: NCCL 2.19.3 has no ncclCommRegister"
};

/// Settles run.device for a job of so many ranks. `auto` is a GPU where this build and this machine
/// have one, and the job has one rank, which it can compute. No context is made on it. Errors:
/// UserError(environment) where a GPU is asked for, and this build has no CUDA;
/// UserError(bad_config) for a precision that GPUs do not compute in here.
Device choose_device(const config::Config& config, std::int64_t ranks);

/// Before a job runs, which may be planned without: UserError(environment) unless a GPU on which it
/// computes answers.
void require_device(Device device);

/// Which GPU each of several processes takes, how many ranks take the same one, and how tensors
/// pass between ranks: by NCCL where each has a GPU to itself and all of them load it. None where
/// the process is alone, whose ranks are threads and share the first GPU, and on a CPU. All call
/// together. Errors: UserError(environment) where the host has several GPUs and fewer than ranks.
std::optional<GpuPlace> place_gpus(Device device, comm::Together& together);
/// The same for ranks that have no job: to measure what passes between them, or to look at them.
/// Errors: also where no GPU answers. All call together.
GpuPlace place_gpu(comm::World& world);

/// For the ranks of a job that are threads, before they start; null where they share no device.
/// Errors: UserError(environment) for more ranks than can share one.
std::unique_ptr<CudaForThreads> open_for_threads(const Job& job);

/// A rank makes so many communicators of NCCL beside the one of all ranks, where tensors pass by
/// NCCL.
struct Communicators {
  std::int64_t groups = 0, channels = 0;
};
Communicators communicators_of(const program::Bundle& bundle);
/// The most of any rank, before its programs have kernels.
Communicators communicators_of(const Preparation& run);
/// A bound of what NCCL takes of the GPU's memory for them; 0 for none.
std::int64_t nccl_bytes(const Communicators& communicators);

/// Gives the bytes that are left for both regions of each of so many ranks: on the GPU, or on this
/// host where `gpu` is null. Where tensors pass by NCCL, its `communicators` have their part first.
/// 0 where the device does not say what it has.
std::int64_t memory_share(const GpuPlace* gpu, std::int64_t ranks_here, std::int64_t beside_bytes,
                          const Communicators& communicators = {});

/// UserError(does_not_fit) when the persistent and the transient region of so many ranks, and what
/// each takes of the host beside them, exceed the memory that the device and this host have left.
/// Memory that libraries take of the device counts too, also that of NCCL's communicators.
void check_memory(const Job& job, std::int64_t ranks_here = 1, std::int64_t beside_bytes = 0);

/// For one rank. `data_name`: where feeders read, for whoever watches a run that stands still.
/// `shared`: what open_for_threads gave.
std::unique_ptr<run::Backend> make_backend(const Job& job, comm::World* world = nullptr,
                                           const std::string& data_name = {},
                                           CudaForThreads* shared = nullptr);

/// "cpu", or "NVIDIA H200" and what it is: the same on all ranks of a job.
std::string device_text(const Job& job);

}  // namespace fourfold::job
