// What a GPU does at best, a line for each kernel and size: products, attention, memory. Rates
// stand beside those of a data sheet; 0 there: not known.
#pragma once

#include "machine/peak_rates.h"
#include "measure/cuda/device.h"
#include "measure/device_bench.h"
#include "measure/device_step.h"

namespace fourfold::measure::cuda {

/// Products of squares and of GPT-2 124M and 1.5B, in each type. Each kernel is timed for so many
/// seconds.
void measure_products(BenchDevice& device, double seconds, const machine::PeakRates& peak,
                      const Print& print);
/// Attention, forward and backward, by our own kernel and by cuDNN's where it has one.
void measure_attention(BenchDevice& device, double seconds, const machine::PeakRates& peak,
                       const Print& print);
/// Copies and triads of arrays that no cache holds.
void measure_streams(BenchDevice& device, double seconds, double peak_bytes_per_s,
                     const Print& print);

}  // namespace fourfold::measure::cuda
