#include "measure/gpu_place.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "comm/launcher.h"
#include "comm/mpi.h"
#include "comm/nccl_api.h"
#include "measure/cuda_parts.h"

namespace fourfold::measure {
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

std::optional<GpuPlace> place_gpus(comm::Together& together) {
  comm::World* const world = together.world();
  if (world == nullptr) return std::nullopt;
  GpuPlace place;
  together.each([&] { place.index = own_gpu(*world); });
  settle(place, *world);
  return place;
}

GpuPlace place_gpu(comm::World& world) {
  if (const machine::CudaFacts facts = cuda_facts(); facts.state != machine::CudaState::ready)
    throw UserError(ExitCode::environment, trouble(facts));
  GpuPlace place;
  place.index = own_gpu(world);
  settle(place, world);
  return place;
}

}  // namespace fourfold::measure
