// On what a job computes: the CPU or a GPU. The one place of this room that knows both.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/launch.h"
#include "comm/world.h"
#include "config/config.h"
#include "machine/target.h"
#include "measure/cuda_run.h"
#include "measure/gpu_place.h"
#include "measure/memory_share.h"
#include "program/program.h"
#include "run/backend.h"

namespace fourfold::job {

struct Job;
struct PlannedRun;
class Preparation;

enum class Device : std::uint8_t { cpu, cuda };

/// Settles run.device for a job of so many ranks. `auto` is a GPU where this build and this machine
/// have one, and the job has one rank, which it can compute. No context is made on it. Errors:
/// UserError(environment) where a GPU is asked for, and this build has no CUDA;
/// UserError(bad_config) for a precision that GPUs do not compute in here.
Device choose_device(const config::Config& config, std::int64_t ranks);

/// Before a job runs, which may be planned without: UserError(environment) unless a GPU on which it
/// computes answers.
void require_device(Device device);

/// The GPUs of processes that compute on this device; none on a CPU. All call together.
std::optional<measure::GpuPlace> place_gpus(Device device, comm::Together& together);

/// For the ranks of a job that are threads, before they start; null where they share no device.
/// Errors: UserError(environment) for more ranks than can share one.
std::unique_ptr<measure::CudaForThreads> open_for_threads(const Job& job);

/// The most of any rank, before its programs have kernels.
measure::Communicators communicators_of(const Preparation& run);

/// UserError(does_not_fit) when the persistent and the transient region of so many ranks, and what
/// each takes of the host beside them, exceed the memory that the device and this host have left.
/// Memory that libraries take of the device counts too, also that of NCCL's communicators.
void check_memory(const Job& job, std::int64_t ranks_here = 1, std::int64_t beside_bytes = 0);

/// For one rank. `data_name`: where feeders read, for whoever watches a run that stands still.
/// `shared`: what open_for_threads gave.
std::unique_ptr<run::Backend> make_backend(const Job& job, comm::World* world = nullptr,
                                           const std::string& data_name = {},
                                           measure::CudaForThreads* shared = nullptr);

/// "cpu", or "NVIDIA H200" and what it is: the same on all ranks of a job.
std::string device_text(const Job& job);

}  // namespace fourfold::job
