#include "job/kernel_table.h"

#include "base/format.h"
#include "base/host_facts.h"
#include "base/text.h"
#include "job/cuda_parts.h"
#include "job/cuda_run.h"
#include "kernels/cpu/libraries.h"
#include "kernels/cpu/target.h"

namespace fourfold::job {

std::string kernel_cpu() {
  return host_facts().cpu_model + "; " + join(kernels::cpu::instruction_sets(), " ");
}

std::vector<machine::Choice> measured_choices(const std::string& text, const std::string& path,
                                              int threads) {
  if (text.empty()) return {};
  const auto known = [](const std::string&, DType dtype) {
    return kernels::cpu::contract_implementations(dtype);
  };
  const machine::KernelTable table = machine::read_kernel_table(text, path, {.cpu = known});
  return machine::choices_of(table, path, kernel_cpu(), threads);
}

std::optional<std::string> kernel_device() {
  const machine::CudaFacts facts = cuda_facts();
  if (facts.devices.empty()) return std::nullopt;
  std::string text = facts.devices.front().name;
  for (const machine::CudaLibrary& library : cuda_libraries())
    if (!library.built.empty() && library.name != "NCCL")
      text += format("; {} {}", library.name, library.loaded);
  return text;
}

std::vector<machine::Choice> measured_device_choices(const std::string& text,
                                                     const std::string& path) {
  if (text.empty()) return {};
  const machine::KernelTable table =
      machine::read_kernel_table(text, path, {.device = cuda_implementations});
  return machine::device_choices_of(table, path, kernel_device());
}

}  // namespace fourfold::job
