// Who computes the convolutions of a job on a GPU, in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/rows.h"
#include "job/job.h"
#include "machine/cuda_facts.h"

namespace fourfold::show {

/// "convolutions  cuDNN 120, own kernels 4: cuDNN 9.1.0 has no kernel for their shapes": how many
/// calls of a training step each computes, in a row of summaries. Nothing on a CPU, and
/// where a step has no convolutions.
std::optional<Row> convolutions_row(const job::Job& job);

/// The same for the implementations of the calls, with the CUDA libraries of this process.
std::string convolutions_text(const std::vector<std::string>& implementations,
                              const std::vector<machine::CudaLibrary>& libraries);

}  // namespace fourfold::show
