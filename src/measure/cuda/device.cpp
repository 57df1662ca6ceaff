#include "measure/cuda/device.h"

#include "kernels/cuda/check.h"
#include "measure/cuda/streams.h"

namespace fourfold::measure::cuda {
namespace {

using kernels::cuda::check_cuda;

class CudaBenchDevice : public BenchDevice {
 public:
  explicit CudaBenchDevice(int number) {
    check_cuda(cudaSetDevice(number), "cudaSetDevice");
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    check_cuda(cudaEventCreate(&before_), "cudaEventCreate");
    check_cuda(cudaEventCreate(&after_), "cudaEventCreate");
    int bytes = 0;
    check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, number),
               "cudaDeviceGetAttribute");
    cache_bytes_ = bytes;
  }
  ~CudaBenchDevice() override {
    cudaFree(memory_);
    cudaEventDestroy(before_);
    cudaEventDestroy(after_);
    cudaStreamDestroy(stream_);
  }
  CudaBenchDevice(const CudaBenchDevice&) = delete;
  CudaBenchDevice& operator=(const CudaBenchDevice&) = delete;

  std::byte* reserve(std::int64_t bytes) override {
    check_cuda(cudaFree(memory_), "cudaFree");
    memory_ = nullptr;
    const auto size = static_cast<std::size_t>(bytes);
    check_cuda(cudaMalloc(&memory_, size), "cudaMalloc");
    check_cuda(cudaMemsetAsync(memory_, 0, size, stream_), "cudaMemsetAsync");
    return static_cast<std::byte*>(memory_);
  }

  void fill(std::byte* at, std::int64_t elements, DType dtype, float least) override {
    fill_random(at, elements, dtype, least, stream_);
  }

  void write(std::byte* at, std::span<const std::byte> bytes) override {
    check_cuda(cudaMemcpyAsync(at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_),
               "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  double time_s(const std::function<void(kernels::cuda::Stream)>& work) override {
    check_cuda(cudaEventRecord(before_, stream_), "cudaEventRecord");
    work(stream_);
    check_cuda(cudaEventRecord(after_, stream_), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(after_), "cudaEventSynchronize");
    float elapsed_ms = 0;
    check_cuda(cudaEventElapsedTime(&elapsed_ms, before_, after_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(elapsed_ms);
  }

  std::int64_t cache_bytes() const override { return cache_bytes_; }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t before_ = nullptr, after_ = nullptr;
  void* memory_ = nullptr;
  std::int64_t cache_bytes_ = 0;
};

}  // namespace

std::unique_ptr<BenchDevice> open_device(int number) {
  return std::make_unique<CudaBenchDevice>(number);
}

void copy_by_cuda(const std::byte* from, std::int64_t bytes, std::byte* to,
                  kernels::cuda::Stream stream) {
  check_cuda(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
      "cudaMemcpyAsync");
}

}  // namespace fourfold::measure::cuda
