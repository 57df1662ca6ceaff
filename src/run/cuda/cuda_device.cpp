#include "run/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>

#include "base/format.h"
#include "kernels/cuda/check.h"

namespace fourfold::run::cuda {
namespace {

using kernels::cuda::check_cuda;

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {
    enter();
    // A thread that waits sleeps: where cores are few, the others of the run need its core.
    check_cuda(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "cudaSetDeviceFlags");
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    name_ = format("{} (device {})", properties.name, index);
    // Makes the context: a device that is lost or taken shows here.
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  std::string name() const override { return name_; }
  void enter() override { check_cuda(cudaSetDevice(index_), "cudaSetDevice"); }

  std::byte* allocate(std::int64_t bytes) override {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc");
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) noexcept override { cudaFree(memory); }
  std::byte* allocate_pinned(std::int64_t bytes) override {
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocDefault),
               "cudaHostAlloc");
    std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{0});
    return static_cast<std::byte*>(memory);
  }
  void release_pinned(std::byte* memory) noexcept override { cudaFreeHost(memory); }

  Stream create_stream(Priority priority) override {
    cudaStream_t stream = nullptr;
    int least = 0, greatest = 0;  // smaller numbers go first
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
               "cudaDeviceGetStreamPriorityRange");
    // Not ordered with the default stream, which nobody uses. What is captured keeps the priority.
    check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                            priority == Priority::urgent ? greatest : least),
               "cudaStreamCreateWithPriority");
    return stream;
  }
  void release(Stream stream) noexcept override { cudaStreamDestroy(stream); }
  void synchronize(Stream stream) override {
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  bool is_done(Stream stream) override {
    return is_done(cudaStreamQuery(stream), "cudaStreamQuery");
  }

  Event create_event(Timing timing) override {
    cudaEvent_t event = nullptr;
    // Who waits for an event spins, whatever the device's flags say, unless the event says sleep.
    const unsigned timed = timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming;
    check_cuda(cudaEventCreateWithFlags(&event, timed | cudaEventBlockingSync),
               "cudaEventCreateWithFlags");
    return event;
  }
  void release(Event event) noexcept override { cudaEventDestroy(event); }
  void record(Event event, Stream stream) override {
    check_cuda(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  void wait(Stream stream, Event event) override {
    check_cuda(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
  void synchronize(Event event) override {
    check_cuda(cudaEventSynchronize(event), "cudaEventSynchronize");
  }
  bool is_done(Event event) override { return is_done(cudaEventQuery(event), "cudaEventQuery"); }
  double elapsed_s(Event begin, Event end) override {
    constexpr double s_per_ms = 1e-3;
    float elapsed_ms = 0;
    check_cuda(cudaEventElapsedTime(&elapsed_ms, begin, end), "cudaEventElapsedTime");
    return s_per_ms * static_cast<double>(elapsed_ms);
  }

  void copy(const RowCopy& copy, Stream stream) override {
    const auto row_bytes = static_cast<std::size_t>(copy.row_bytes);
    if (copy.rows == 1)
      return check_cuda(cudaMemcpyAsync(copy.to, copy.from, row_bytes, cudaMemcpyDefault, stream),
                        "cudaMemcpyAsync");
    check_cuda(cudaMemcpy2DAsync(copy.to, static_cast<std::size_t>(copy.to_pitch), copy.from,
                                 static_cast<std::size_t>(copy.from_pitch), row_bytes,
                                 static_cast<std::size_t>(copy.rows), cudaMemcpyDefault, stream),
               "cudaMemcpy2DAsync");
  }
  void clear(std::byte* memory, std::int64_t pitch, std::int64_t row_bytes, std::int64_t rows,
             Stream stream) override {
    if (rows == 1)
      return check_cuda(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(row_bytes), stream),
                        "cudaMemsetAsync");
    check_cuda(cudaMemset2DAsync(memory, static_cast<std::size_t>(pitch), 0,
                                 static_cast<std::size_t>(row_bytes),
                                 static_cast<std::size_t>(rows), stream),
               "cudaMemset2DAsync");
  }

  void begin_capture(Stream stream) override {
    // The capture is of this thread alone: others may talk to the device meanwhile.
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
  }
  Graph end_capture(Stream stream) override {
    cudaGraph_t captured = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
    cudaGraphExec_t graph = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&graph, captured, 0);
    cudaGraphDestroy(captured);
    check_cuda(status, "cudaGraphInstantiate");
    return graph;
  }
  void abandon_capture(Stream stream) noexcept override {
    cudaGraph_t captured = nullptr;
    if (cudaStreamEndCapture(stream, &captured) == cudaSuccess) cudaGraphDestroy(captured);
    cudaGetLastError();  // the fault that ended the capture is told already
  }
  void release(Graph graph) noexcept override { cudaGraphExecDestroy(graph); }
  void launch(Graph graph, Stream stream) override {
    check_cuda(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  }

  void push_range(const char* name) override { nvtxRangePushA(name); }
  void pop_range() override { nvtxRangePop(); }

 private:
  static bool is_done(cudaError_t status, const char* call) {
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // not an error; libraries that look must not take it for theirs
      return false;
    }
    check_cuda(status, call);
    return true;
  }

  int index_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Device> open_device(int index) {
  return std::make_unique<CudaDevice>(index);
}

}  // namespace fourfold::run::cuda
