// What data sheets promise of GPUs, beside which measured rates stand as a share. Not measured;
// a GPU that is not in this table has no share.
#pragma once

#include <optional>
#include <string_view>

namespace fourfold::machine {

/// Without sparsity, with sums in float32.
struct PeakRates {
  double bf16_flops_per_s = 0, tf32_flops_per_s = 0;  // tensor cores
  double f32_flops_per_s = 0;                         // without them
  double bytes_per_s = 0;                             // of device memory
  std::string_view source;
};

/// The rates of the device that CUDA calls by this name ("NVIDIA H200"); none for one that is not
/// known.
std::optional<PeakRates> peak_rates(std::string_view device_name);

}  // namespace fourfold::machine
