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
#include "job/cuda_parts.h"
#include "job/cuda_run.h"
#include "job/job.h"
#include "run/cpu.h"
#include "run/program_groups.h"

namespace fourfold::job {
namespace {

using machine::CudaState;

/// As many as a reduction of ranks that share a GPU takes (kernels/cuda/reduce_members.h).
constexpr std::int64_t most_sharing = 64;

/// What libraries take of a GPU's memory after the regions of a run: code is loaded when a kernel
/// is first used, in the first step, and cuDNN and cuBLASLt hold memory of their own. A bound until
/// a GPU has shown less: libcublasLt 13.1 and the libraries of cuDNN 9.19 are 0.96 GiB together,
/// with code for every GPU.
constexpr std::int64_t late_library_bytes = std::int64_t{3} << 29;

/// Measured of NCCL 2.28.9 on an H200, two ranks over loopback (tests/bench/results/gpu.md): its
/// communicator of all ranks and a first group take 0.4 to 0.65 GiB of a rank's GPU, a further
/// group 18 MiB and a channel 33. Those two count twice here: their buffers go by the way between
/// ranks.
constexpr std::int64_t nccl_first_bytes = std::int64_t{666} << 20,
                       nccl_group_bytes = std::int64_t{36} << 20,
                       nccl_channel_bytes = std::int64_t{65} << 20;

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
std::int64_t nccl_bytes(const Job& job) {
  if (job.gpu.between != Between::nccl) return 0;
  std::int64_t most = 0;
  for (const program::Bundle& bundle : job.programs.classes)
    most = std::max(most, job::nccl_bytes(communicators_of(bundle)));
  return most;
}

/// Both regions lie on the device; what is beside them does not.
void check_gpu_memory(const Job& job, std::int64_t ranks_here, std::int64_t beside_bytes) {
  const std::int64_t persistent = job.bundle().persistent_bytes,
                     transient = job.bundle().transient_bytes;
  const std::optional<std::int64_t> left = cuda_free_memory_bytes(job.gpu.index);
  if (!left)
    throw UserError(ExitCode::environment,
                    format("{} does not say how much of its memory is free; look at nvidia-smi",
                           device_text(job)));
  const std::int64_t ranks = job.gpu.ranks, nccl = nccl_bytes(job),
                     needed = ranks * (persistent + transient) + late_library_bytes + nccl;
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
            format_bytes(transient), format_bytes(late_library_bytes),
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
    if (!cuda_target(CudaKernels::own))
      throw UserError(ExitCode::environment,
                      format("run.device = cuda: {}", trouble(cuda_facts())));
    if (!obstacle.empty()) throw UserError(ExitCode::bad_config, obstacle);
    return Device::cuda;
  }
  // Plain loops are asked for to check what a CPU computes. Ranks that share a GPU are slower than
  // one; they are asked for to check what several compute.
  const bool is_able = ranks == 1 && obstacle.empty() && config.kernels != "reference";
  return is_able && cuda_facts().state == CudaState::ready ? Device::cuda : Device::cpu;
}

void require_device(Device device) {
  if (device == Device::cpu) return;
  const machine::CudaFacts facts = cuda_facts();
  if (facts.state == CudaState::ready) return;
  throw UserError(ExitCode::environment,
                  format("run.device = cuda: {}; or set run.device = cpu", trouble(facts)));
}

namespace {

/// Which of the GPUs that this process sees it takes.
int own_gpu(const comm::World& world) {
  const std::vector<machine::CudaDevice> gpus = cuda_facts().devices;
  require(!gpus.empty(), "a GPU answers (require_device)");
  if (gpus.size() > 1 && gpus.size() < world.local_size())
    throw UserError(
        ExitCode::environment,
        format("this host has {} GPUs and {} ranks; start as many ranks on a host as it has GPUs, "
               "or set CUDA_VISIBLE_DEVICES to one GPU, which all of them share",
               gpus.size(), world.local_size()));
  // Where a launcher shows each rank its own GPU alone, that is the first one.
  return gpus.size() == 1 ? 0 : static_cast<int>(world.local_rank());
}

/// What a rank says of its NCCL; both empty where all is well.
struct NcclWords {
  std::string trouble;  // it does not load
  std::string lacks;    // it works without
};
NcclWords words_of_nccl() {
  try {
    const comm::NcclApi api = comm::load_nccl();
    if (api.can_register()) return {};
    return {"", format("NCCL {} has no ncclCommRegister and copies through its own buffers",
                       nccl_version(api))};
  } catch (const UserError& error) {
    return {error.what(), ""};
  }
}

/// "rank 1: what it says", of the first that says something; all call together.
std::string first_word(comm::World& world, const std::string& own) {
  const std::vector<std::string> words = world.all_gather(own);
  const auto first = std::ranges::find_if(words, [](const auto& word) { return !word.empty(); });
  return first == words.end() ? "" : format("rank {}: {}", first - words.begin(), *first);
}

void settle(GpuPlace& place, comm::World& world) {
  const machine::CudaFacts facts = cuda_facts();
  const machine::CudaDevice& gpu = facts.devices.at(static_cast<std::size_t>(place.index));
  const std::string host = comm::own_placement().host, own = format("{} {}", host, gpu.uuid);
  place.ranks = std::ranges::count(world.all_gather(own), own);
  // NCCL_HOSTID tells NCCL that processes of one host are on several. NCCL refuses two ranks of a
  // host that have one bus id ("Duplicate GPU detected"; NCCL 2.28.3, src/init.cc), and all slices
  // of a board (MIG) have the bus id of the board.
  const char* const host_of_nccl = std::getenv("NCCL_HOSTID");
  const std::string nccl_place =
      format("{} {}", host_of_nccl == nullptr ? host : host_of_nccl, gpu.bus_id);
  const bool shares = std::ranges::count(world.all_gather(nccl_place), nccl_place) > 1;
  const NcclWords words = shares ? NcclWords{} : words_of_nccl();
  place.why_not_nccl =
      first_word(world, shares && place.ranks == 1
                            ? "its GPU is a slice of one of which another rank has a slice too"
                        : shares ? "it shares its GPU with another rank"
                                 : words.trouble);
  place.what_nccl_lacks = first_word(world, words.lacks);
  const std::string why_not_mpi =
      first_word(world, comm::mpi_takes_device_memory() ? "" : "MPI takes no device memory");
  place.between = place.why_not_nccl.empty() ? Between::nccl
                  : why_not_mpi.empty()      ? Between::mpi
                                             : Between::host;
}

}  // namespace

std::optional<GpuPlace> place_gpus(Device device, comm::Together& together) {
  comm::World* const world = together.world();
  if (device != Device::cuda || world == nullptr) return std::nullopt;
  GpuPlace place;
  together.each([&] { place.index = own_gpu(*world); });
  settle(place, *world);
  return place;
}

GpuPlace place_gpu(comm::World& world) {
  if (const machine::CudaFacts facts = cuda_facts(); facts.state != CudaState::ready)
    throw UserError(ExitCode::environment, trouble(facts));
  GpuPlace place;
  place.index = own_gpu(world);
  settle(place, world);
  return place;
}

std::unique_ptr<CudaForThreads> open_for_threads(const Job& job) {
  if (job.device == Device::cpu || job.ranks() == 1) return nullptr;
  if (job.ranks() > most_sharing)
    throw UserError(ExitCode::environment,
                    format("{} ranks as threads would share one GPU, which {} can at most; start "
                           "them as processes, one for each GPU (mpirun, srun), or choose a "
                           "smaller grid",
                           job.ranks(), most_sharing));
  return open_cuda_for_threads();
}

Communicators communicators_of(const program::Bundle& bundle) {
  return {std::ssize(run::groups_of(bundle)), std::ssize(run::message_channels(bundle))};
}

Communicators communicators_of(const Preparation& run) {
  Communicators most;
  for (const auto& programs : run.programs_by_class()) {
    program::Bundle bundle;
    for (const program::Program* program : programs) bundle.programs.push_back(*program);
    const Communicators own = communicators_of(bundle);
    if (nccl_bytes(own) > nccl_bytes(most)) most = own;
  }
  return most;
}

std::int64_t nccl_bytes(const Communicators& communicators) {
  const auto [groups, channels] = communicators;
  if (groups == 0 && channels == 0) return 0;
  return nccl_first_bytes + std::max<std::int64_t>(groups - 1, 0) * nccl_group_bytes +
         channels * nccl_channel_bytes;
}

std::int64_t memory_share(const GpuPlace* gpu, std::int64_t ranks_here, std::int64_t beside_bytes,
                          const Communicators& communicators) {
  if (gpu == nullptr) return available_memory_bytes() / ranks_here - beside_bytes;
  const std::optional<std::int64_t> left = cuda_free_memory_bytes(gpu->index);
  if (!left) return 0;
  const std::int64_t nccl = gpu->between == Between::nccl ? nccl_bytes(communicators) : 0;
  return std::max<std::int64_t>(*left - late_library_bytes - nccl, 0) / gpu->ranks;
}

void check_memory(const Job& job, std::int64_t ranks_here, std::int64_t beside_bytes) {
  if (job.device == Device::cuda)
    check_gpu_memory(job, ranks_here, beside_bytes);
  else
    check_host_memory(job.bundle(), ranks_here, beside_bytes);
}

std::unique_ptr<run::Backend> make_backend(const Job& job, comm::World* world,
                                           const std::string& data_name, CudaForThreads* shared) {
  if (shared != nullptr) return shared->make_backend(*world);
  if (job.device == Device::cuda) return make_cuda_backend(job.gpu.index, world, job.gpu.between);
  return std::make_unique<run::CpuBackend>(
      run::CpuOptions{.threads = job.target.threads, .world = world, .data_name = data_name});
}

std::string device_text(const Job& job) {
  if (job.device == Device::cpu) return "cpu";
  const machine::CudaFacts facts = cuda_facts();
  return facts.devices.empty() ? "a GPU that does not answer"
                               : facts.devices[static_cast<std::size_t>(job.gpu.index)].name;
}

}  // namespace fourfold::job
