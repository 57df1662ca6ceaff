// What runs on a GPU need beyond the facts of cuda_parts.h: kernels and a backend. Functions of
// both folders cuda/ and no_cuda/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/device_world.h"
#include "comm/world.h"
#include "kernels/kernel.h"
#include "machine/kernel_table.h"
#include "machine/target.h"
#include "run/backend.h"
#include "run/cuda/device.h"

namespace fourfold::measure {

/// The facts of the CUDA kernels, first of all those that were measured, or of our own ones alone;
/// needs neither driver nor device. None without CUDA in the build. Attention is cuDNN's where it
/// was built in and the first device has a kernel for it; without a device it is our own. Only the
/// `fastest` may give other bits in each run.
enum class CudaKernels : std::uint8_t { fastest, repeatable, own };
std::optional<machine::Target> cuda_target(CudaKernels kernels,
                                           std::vector<machine::Choice> measured = {});

/// Names of what computes a row in a type, as a measured table may have them; none without CUDA in
/// the build.
std::vector<std::string> cuda_implementations(const std::string& row, DType dtype);

/// Lines of a table for the products and convolutions among a run's problems: those that are known,
/// and those that are measured now, on the device of that number, within so many seconds, among the
/// kernels that the target may have. What would take more than half of its free memory has none.
/// Errors: UserError(environment) where the device does not answer.
std::vector<machine::KernelTable::Line> time_cuda_kernels(
    int device, const std::vector<machine::KernelTable::Line>& known,
    const std::vector<kernels::Problem>& problems, const machine::Target& target, double seconds);

/// How tensors pass between ranks that are processes.
enum class Between : std::uint8_t {
  nccl,
  host,  // by way of the host's memory
  mpi    // messages by MPI, as they lie on the device; collectives by way of the host
};

/// For the one rank of this process, on the device of that number; null `world`: it is alone. All
/// ranks call together. Errors: UserError(environment) where the device does not answer.
std::unique_ptr<run::Backend> make_cuda_backend(int device, comm::World* world, Between between);

/// The same device without a program, and what carries tensors from it to other ranks: to measure
/// that.
class DeviceOfRank {
 public:
  virtual ~DeviceOfRank() = default;
  virtual run::cuda::Device& device() = 0;
  virtual comm::DeviceWorld& carries() = 0;
};
/// All ranks call together. Errors: as make_cuda_backend, and those of NCCL.
std::unique_ptr<DeviceOfRank> open_device_of_rank(int device, comm::World& world, Between between);

/// The first device, for several ranks that are threads of this process; outlives their backends.
class CudaForThreads {
 public:
  virtual ~CudaForThreads() = default;
  /// For the rank whose thread calls.
  virtual std::unique_ptr<run::Backend> make_backend(comm::World& world) = 0;
};
/// Errors: as make_cuda_backend.
std::unique_ptr<CudaForThreads> open_cuda_for_threads();

}  // namespace fourfold::measure
