// What CUDA says of this machine, as values, and the judgement whether this build can work on its
// GPUs. Not the CUDA API: kernels/cuda/devices.h asks it and fills these in, so that every
// judgement here is tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::machine {

/// Compute capability: 9.0 is an H100 or H200, 8.0 an A100.
struct ComputeCapability {
  int major = 0, minor = 0;
  bool operator==(const ComputeCapability&) const = default;
};

struct CudaDevice {
  std::string name;         // "NVIDIA H200"
  std::string bus_id = {};  // "0000:17:00", the board's: its slices (MIG) have one
  std::string uuid = {};    // a slice's own: by it processes of one host know the same device
  ComputeCapability capability;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  int multiprocessors = 0;
  double clock_hz = 0;   // largest of the multiprocessors; 0: CUDA does not say
  bool is_built = true;  // whether this build has code for it
};

/// How two GPUs of a host lie to each other, the nearest first; the words are those of `nvidia-smi
/// topo`.
enum class GpuWay : std::uint8_t {
  unknown,
  nvlink,       // "NVL"
  board,        // one board: "PIX" as well
  one_switch,   // at most one PCIe switch: "PIX"
  switches,     // several PCIe switches: "PXB"
  host_bridge,  // by way of the CPU's PCIe host bridge: "PHB"
  numa_node,    // between host bridges of one NUMA node: "NODE"
  system        // between NUMA nodes: "SYS"
};
std::string_view short_name(GpuWay way);

/// What one GPU finds of another one.
struct GpuLink {
  GpuWay way = GpuWay::unknown;
  bool reaches = false;  // reads and writes its memory itself
  bool operator==(const GpuLink&) const = default;
};

/// A library that goes with CUDA: as its headers were when this was built, and as it is loaded now;
/// empty where the build does not use it, or it cannot be loaded.
struct CudaLibrary {
  std::string name, built, loaded;
};

enum class CudaState : std::uint8_t {
  not_built,           // this program has no CUDA in it
  no_driver,           // no NVIDIA driver is loaded
  driver_too_old,      // for the runtime of this build
  no_device,           // the driver has no GPU for this process
  wrong_architecture,  // there are GPUs, but this build has no code for the first of them
  failed,              // CUDA gives another error
  ready,
};

struct CudaFacts {
  CudaState state = CudaState::not_built;
  int driver = 0;   // newest CUDA that the driver knows, 1000 major + 10 minor; 0: no driver
  int runtime = 0;  // CUDA of this build, written the same way
  std::string architectures;  // that were built for, by CMake's names: "80-real,90"
  std::vector<CudaDevice> devices;
  std::vector<CudaLibrary> libraries;
  std::string error;  // CUDA's own words where it gave an error
};

/// What asking for devices gave: `failed` is an error that is neither of the others.
enum class CudaAnswer : std::uint8_t { devices, none, driver_insufficient, failed };

/// Settles `state`, and `is_built` of each device, from all else.
void judge(CudaFacts& facts, CudaAnswer answer);

/// True if code for `architectures` runs on a device: machine code on the same major and no smaller
/// minor capability, PTX on every later one, code for one architecture alone ("90a") on that one.
/// https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc, "GPU Compilation"
bool runs_on(std::string_view architectures, ComputeCapability capability);

/// One line of what is wrong and what to do; empty where the state is `ready`.
std::string trouble(const CudaFacts& facts);

/// "13.0" of 13000.
std::string cuda_version(int number);

/// "cuDNN 9.1.0 is loaded, but 9.5.1 was built with: ..." where the major versions differ or the
/// loaded one is older; none where all is well.
std::optional<std::string> trouble(const CudaLibrary& library);

}  // namespace fourfold::machine
