#include "measure/memory_share.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/host_facts.h"
#include "measure/cuda_parts.h"
#include "run/program_groups.h"

namespace fourfold::measure {
namespace {

/// Measured of NCCL 2.28.9 on an H200, two ranks over loopback (tests/bench/results/gpu.md): its
/// communicator of all ranks and a first group take 0.4 to 0.65 GiB of a rank's GPU, a further
/// group 18 MiB and a channel 33. Those two count twice here: their buffers go by the way between
/// ranks.
constexpr std::int64_t nccl_first_bytes = std::int64_t{666} << 20,
                       nccl_group_bytes = std::int64_t{36} << 20,
                       nccl_channel_bytes = std::int64_t{65} << 20;

}  // namespace

Communicators communicators_of(const program::Bundle& bundle) {
  return {std::ssize(run::groups_of(bundle)), std::ssize(run::message_channels(bundle))};
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

}  // namespace fourfold::measure
