// What activation checkpointing adds to the arithmetic of a step.
#pragma once

#include <optional>

#include "job/job.h"

namespace fourfold::job {

/// Floating-point operations that a step of all ranks repeats: those of the products and of
/// attention that the backward pass computes again. They are counted on logical shapes, as
/// model_flops_per_step counts; of causal attention the lower triangle counts, which is what is
/// computed. None where memory.activation_checkpointing is `none`.
std::optional<double> recomputed_flops_per_step(const Job& job);

}  // namespace fourfold::job
