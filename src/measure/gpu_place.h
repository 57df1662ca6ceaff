// Which GPU each process of a job computes on, and how tensors pass between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/launch.h"
#include "comm/world.h"
#include "measure/cuda_run.h"

namespace fourfold::measure {

/// The GPU on which the ranks of this process compute.
struct GpuPlace {
  int index = 0;
  std::int64_t ranks = 1;  // that it serves, of all processes
  Between between = Between::host;
  std::string why_not_nccl = {};     // "rank 1: libnccl.so.2 ..."
  std::string what_nccl_lacks = {};  // "rank 1: NCCL 2.19.3 has no ncclCommRegister"
};

/// Which GPU each of several processes takes, how many ranks take the same one, and how tensors
/// pass between ranks: by NCCL where each has a GPU to itself and all of them load it. None where
/// the process is alone, whose ranks are threads and share the first GPU. All call together.
/// Errors: UserError(environment) where the host has several GPUs and fewer than ranks.
std::optional<GpuPlace> place_gpus(comm::Together& together);
/// The same for ranks that have no job: to measure what passes between them, or to look at them.
/// Errors: also where no GPU answers. All call together.
GpuPlace place_gpu(comm::World& world);

}  // namespace fourfold::measure
