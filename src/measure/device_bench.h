// Times work that is enqueued on a device: between two events, warm, on operands that no cache
// holds from the call before. Not the CUDA API (measure/cuda/device.h has it), so that tests run
// all of this on a device with a clock of their own. Not a check of results (tests/numerics).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cuda/kernels.h"

namespace fourfold::measure {

/// What a measurement needs of a device. One stream; nothing else runs there.
class BenchDevice {
 public:
  virtual ~BenchDevice() = default;

  /// So much memory, zeroed; what an earlier call gave is given back. Throws
  /// UserError(out_of_memory) where there is not so much.
  virtual std::byte* reserve(std::int64_t bytes) = 0;
  /// Enqueues random numbers between `least` and 1, of f32 or bf16: a GPU takes less power, and is
  /// faster, on zeros.
  virtual void fill(std::byte* at, std::int64_t elements, DType dtype, float least) = 0;
  /// Brings bytes of the host there, and waits for it.
  virtual void write(std::byte* at, std::span<const std::byte> bytes) = 0;
  /// Seconds that the device took for what `work` enqueued. Waits for it.
  virtual double time_s(const std::function<void(kernels::cuda::Stream)>& work) = 0;
  /// The size of the last-level cache.
  virtual std::int64_t cache_bytes() const = 0;
};

/// A call on one of several sets of operands, `turn` counting up.
using TimedCall = std::function<void(std::int64_t turn, kernels::cuda::Stream)>;

/// Long beside what an event's time is rounded to (half a microsecond, CUDA's documentation of
/// cudaEventElapsedTime), short beside a change of clocks.
inline constexpr double sample_s = 1e-3;
/// Clocks of an idle GPU rise within some milliseconds of work; least calls, whatever they take.
inline constexpr double warm_up_s = 0.05;
inline constexpr int least_calls = 3;
inline constexpr int least_samples = 5;

/// Median of the time of a call, over samples for about `seconds` after a warm-up. A sample is as
/// many calls as take `sample_s`.
double median_call_s(BenchDevice& device, double seconds, const TimedCall& call,
                     double warm_s = warm_up_s);

/// How many sets of operands of so many bytes a bench goes through, so that twice what the cache
/// holds has been touched before a set is used again; at most 256.
std::int64_t sets_of_operands(std::int64_t bytes, std::int64_t cache_bytes);

/// A kernel with its operands, in as many sets as it takes, and its workspace. It has the device's
/// memory to itself: the one before must not be measured any more.
class DeviceKernelBench {
 public:
  /// `run` is the prepared kernel of `problem`. Tensors of f32 and bf16 are filled with random
  /// numbers, those that are updated with positive ones, as second moments are; tokens and labels
  /// are spread over their table, other integers of 32 bits and bytes are zero. Doubles and
  /// integers of 64 bits are scalars of a step, such as whether an update is applied: they are one.
  DeviceKernelBench(BenchDevice& device, const kernels::Problem& problem,
                    kernels::cuda::Enqueue run, std::int64_t workspace_bytes);

  /// As median_call_s.
  double measure_s(double seconds, double warm_s = warm_up_s);

 private:
  BenchDevice& device_;
  kernels::cuda::Enqueue run_;
  std::vector<std::vector<kernels::Tensor>> sets_;
  kernels::Workspace workspace_;
};

}  // namespace fourfold::measure
