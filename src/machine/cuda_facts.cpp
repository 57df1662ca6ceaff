#include "machine/cuda_facts.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace fourfold::machine {
namespace {

/// The number at the front of `text`, which loses it; 0 where there is none.
int take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool one_runs_on(std::string_view architecture, ComputeCapability device) {
  if (architecture == "all" || architecture == "all-major" || architecture == "native") return true;
  const int number = take_number(architecture);
  if (number == 0) return false;
  const ComputeCapability built{number / 10, number % 10};
  const bool has_suffix = !architecture.empty() && architecture.front() != '-';
  if (has_suffix) return built == device;  // 90a, 100f
  const bool has_code = !architecture.ends_with("-virtual"),
             has_ptx = !architecture.ends_with("-real");
  const bool is_near = built.major == device.major && built.minor <= device.minor;
  const bool is_later =
      device.major > built.major || (device.major == built.major && device.minor >= built.minor);
  return (has_code && is_near) || (has_ptx && is_later);
}

/// The driver's branch that a runtime wants at least.
/// https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1
const char* driver_branch(int runtime) {
  return runtime >= 13000 ? "580" : "525";
}

std::vector<int> version_numbers(const std::string& version) {
  std::vector<int> numbers;
  for (const std::string& word : split(version, '.')) {
    std::string_view text = word;
    numbers.push_back(take_number(text));
  }
  return numbers;
}

std::string wrong_architecture(const CudaFacts& facts) {
  const CudaDevice& device = facts.devices.front();
  const std::string wanted = format("{}{}", device.capability.major, device.capability.minor);
  return format(
      "{} has compute capability {}.{}, and this build has code for {}; configure with "
      "-DFOURFOLD_CUDA_ARCHITECTURES={} and build again",
      device.name, device.capability.major, device.capability.minor, facts.architectures, wanted);
}

}  // namespace

bool runs_on(std::string_view architectures, ComputeCapability capability) {
  const std::vector<std::string> all = split(std::string(architectures), ',');
  return std::any_of(all.begin(), all.end(), [&](const std::string& architecture) {
    return one_runs_on(architecture, capability);
  });
}

void judge(CudaFacts& facts, CudaAnswer answer) {
  for (CudaDevice& device : facts.devices)
    device.is_built = runs_on(facts.architectures, device.capability);
  if (facts.driver == 0)
    facts.state = CudaState::no_driver;
  else if (answer == CudaAnswer::driver_insufficient)
    facts.state = CudaState::driver_too_old;
  else if (answer == CudaAnswer::failed)
    facts.state = CudaState::failed;
  else if (answer == CudaAnswer::none || facts.devices.empty())
    facts.state = CudaState::no_device;
  else
    facts.state = facts.devices.front().is_built ? CudaState::ready : CudaState::wrong_architecture;
}

std::string_view short_name(GpuWay way) {
  switch (way) {
    case GpuWay::unknown:
      return "?";
    case GpuWay::nvlink:
      return "NVL";
    case GpuWay::board:
    case GpuWay::one_switch:
      return "PIX";
    case GpuWay::switches:
      return "PXB";
    case GpuWay::host_bridge:
      return "PHB";
    case GpuWay::numa_node:
      return "NODE";
    case GpuWay::system:
      return "SYS";
  }
  fail_internal("every way between GPUs has a name");
}

std::string trouble(const CudaFacts& facts) {
  switch (facts.state) {
    case CudaState::not_built:
      return "this fourfold was built without CUDA; build it where the CUDA toolkit is, with "
             "scripts/build -DFOURFOLD_CUDA=ON";
    case CudaState::no_driver:
      return format(
          "no NVIDIA driver answers; on a machine with an NVIDIA GPU install the driver, branch {} "
          "or later (in a container: start it with its GPUs, as docker run --gpus all)",
          driver_branch(facts.runtime));
    case CudaState::driver_too_old:
      return format(
          "the NVIDIA driver knows CUDA {}, and this build's runtime is {}; install a driver of "
          "branch {} or later, or build with the toolkit of CUDA {}",
          cuda_version(facts.driver), cuda_version(facts.runtime), driver_branch(facts.runtime),
          cuda_version(facts.driver));
    case CudaState::no_device:
      return "the NVIDIA driver offers this process no GPU; look at nvidia-smi, "
             "CUDA_VISIBLE_DEVICES and the GPUs that the job asked for (srun --gpus)";
    case CudaState::wrong_architecture:
      return wrong_architecture(facts);
    case CudaState::failed:
      return format(
          "CUDA fails with \"{}\"; look at nvidia-smi and the system's log (after a new driver: "
          "restart the machine; on one with NVSwitch: start nvidia-fabricmanager)",
          facts.error);
    case CudaState::ready:
      return "";
  }
  return "";
}

std::string cuda_version(int number) {
  return format("{}.{}", number / 1000, number % 1000 / 10);
}

std::optional<std::string> trouble(const CudaLibrary& library) {
  if (library.built.empty()) return std::nullopt;
  if (library.loaded.empty())
    return format(
        "{} cannot be loaded; this was built with {}: put its folder into LD_LIBRARY_PATH",
        library.name, library.built);
  const std::vector<int> built = version_numbers(library.built),
                         loaded = version_numbers(library.loaded);
  if (built.front() == loaded.front() && loaded >= built) return std::nullopt;
  return format(
      "{} {} is loaded, and this was built with {}; put the folder of that one first into "
      "LD_LIBRARY_PATH, or build again",
      library.name, library.loaded, library.built);
}

}  // namespace fourfold::machine
