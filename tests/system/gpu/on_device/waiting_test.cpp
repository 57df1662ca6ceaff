// How the host waits for a GPU. Only a real one can show it: on a device that is made up, the work
// is the waiting thread's own.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <thread>

#include "support/gpu.h"

namespace fourfold::test {
namespace {

using run::cuda::Device;

/// Seconds that this thread has computed.
double thread_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(WaitingForGpu, a_thread_that_waits_for_a_stream_or_an_event_sleeps) {
  const std::string reason = why_no_gpu();
  if (!reason.empty()) GTEST_SKIP() << "no CUDA device: " << reason;
  const std::unique_ptr<Gpu> gpu = open_gpu();
  Device& device = gpu->device();
  const run::cuda::OwnedStream stream = run::cuda::make_stream(device);
  const auto computed_s = [&](const std::function<void()>& wait) {
    cudaLaunchHostFunc(
        stream.get(), [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(300)); },
        nullptr);
    const double before_s = thread_s();
    wait();
    return thread_s() - before_s;
  };
  // A thread that spins computes for all of the 0.3 s.
  constexpr double most_s = 0.1;
  EXPECT_LT(computed_s([&] { device.synchronize(stream.get()); }), most_s);
  for (const Device::Timing timing : {Device::Timing::off, Device::Timing::on}) {
    const run::cuda::OwnedEvent event = run::cuda::make_event(device, timing);
    EXPECT_LT(computed_s([&] {
                device.record(event.get(), stream.get());
                device.synchronize(event.get());
              }),
              most_s);
  }
}

}  // namespace
}  // namespace fourfold::test
