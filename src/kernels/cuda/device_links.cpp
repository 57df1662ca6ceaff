// How GPUs of a host lie to each other. NVML is the driver's own library and is loaded when asked:
// no header of it is needed, which toolkits may lack.
// Source: docs.nvidia.com/deploy/nvml-api, "Device Queries": nvmlDeviceGetTopologyCommonAncestor,
// nvmlDeviceGetP2PStatus; the numbers below are those of its enumerations.
#include <dlfcn.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/devices.h"

namespace fourfold::kernels::cuda {
namespace {

using machine::GpuLink;
using machine::GpuWay;

using NvmlDevice = struct nvmlDevice_st*;
constexpr int nvml_success = 0;
constexpr int capability_read = 0, capability_write = 1, capability_nvlink = 2;

/// nvmlGpuTopologyLevel_t.
GpuWay way_of_level(int level) {
  switch (level) {
    case 0:
      return GpuWay::board;
    case 10:
      return GpuWay::one_switch;
    case 20:
      return GpuWay::switches;
    case 30:
      return GpuWay::host_bridge;
    case 40:
      return GpuWay::numa_node;
    case 50:
      return GpuWay::system;
    default:
      return GpuWay::unknown;
  }
}

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    int (*init)() = nullptr;
    find("nvmlInit_v2", init);
    find("nvmlShutdown", shutdown_);
    find("nvmlDeviceGetHandleByPciBusId_v2", by_bus_id_);
    find("nvmlDeviceGetTopologyCommonAncestor", ancestor_);
    find("nvmlDeviceGetP2PStatus", p2p_status_);
    is_open_ = init != nullptr && shutdown_ != nullptr && by_bus_id_ != nullptr &&
               ancestor_ != nullptr && p2p_status_ != nullptr && init() == nvml_success;
  }
  ~Nvml() {
    if (is_open_) shutdown_();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool is_open() const { return is_open_; }

  /// Null where there is no such GPU.
  NvmlDevice device(const std::string& bus_id) const {
    NvmlDevice found = nullptr;
    return by_bus_id_((bus_id + ".0").c_str(), &found) == nvml_success ? found : nullptr;
  }

  GpuLink link(NvmlDevice from, NvmlDevice to) const {
    GpuLink link;
    int level = -1;
    if (ancestor_(from, to, &level) == nvml_success) link.way = way_of_level(level);
    if (has(from, to, capability_nvlink)) link.way = GpuWay::nvlink;
    link.reaches = has(from, to, capability_read) && has(from, to, capability_write);
    return link;
  }

 private:
  template <class Function>
  void find(const char* name, Function*& found) const {
    found = reinterpret_cast<Function*>(dlsym(library_, name));
  }
  bool has(NvmlDevice from, NvmlDevice to, int capability) const {
    int status = -1;  // 0: NVML_P2P_STATUS_OK
    return p2p_status_(from, to, capability, &status) == nvml_success && status == 0;
  }

  void* library_;
  int (*shutdown_)() = nullptr;
  int (*by_bus_id_)(const char*, NvmlDevice*) = nullptr;
  int (*ancestor_)(NvmlDevice, NvmlDevice, int*) = nullptr;
  int (*p2p_status_)(NvmlDevice, NvmlDevice, int, int*) = nullptr;
  bool is_open_ = false;
};

GpuLink link_by_cuda(const std::string& from, const std::string& to) {
  int own = 0, other = 0, reaches = 0;
  const bool is_known = cudaDeviceGetByPCIBusId(&own, (from + ".0").c_str()) == cudaSuccess &&
                        cudaDeviceGetByPCIBusId(&other, (to + ".0").c_str()) == cudaSuccess &&
                        cudaDeviceCanAccessPeer(&reaches, own, other) == cudaSuccess;
  cudaGetLastError();  // what is not known is no error
  return {GpuWay::unknown, is_known && reaches == 1};
}

}  // namespace

std::vector<GpuLink> links(const std::string& bus_id, const std::vector<std::string>& others) {
  const Nvml nvml;
  NvmlDevice const own = nvml.is_open() ? nvml.device(bus_id) : nullptr;
  std::vector<GpuLink> links;
  for (const std::string& other : others) {
    NvmlDevice const there = own != nullptr ? nvml.device(other) : nullptr;
    links.push_back(there != nullptr ? nvml.link(own, there) : link_by_cuda(bus_id, other));
  }
  return links;
}

}  // namespace fourfold::kernels::cuda
