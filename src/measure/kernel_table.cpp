#include "measure/kernel_table.h"

#include "base/format.h"
#include "base/host_facts.h"
#include "base/text.h"
#include "kernels/cpu/libraries.h"
#include "kernels/cpu/target.h"
#include "measure/cuda_parts.h"
#include "measure/cuda_run.h"

namespace fourfold::measure {

std::string kernel_cpu() {
  return host_facts().cpu_model + "; " + join(kernels::cpu::instruction_sets(), " ");
}

machine::KernelTable parse_cpu_table(const std::string& text, const std::string& path) {
  const auto known = [](const std::string& row, DType dtype) {
    return kernels::cpu::implementations(row, dtype);
  };
  return machine::read_kernel_table(text, path, {.cpu = known});
}

std::vector<machine::Choice> measured_choices(const std::string& text, const std::string& path,
                                              int threads) {
  if (text.empty()) return {};
  return machine::choices_of(parse_cpu_table(text, path), path, kernel_cpu(), threads);
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

machine::KernelTable parse_device_table(const std::string& text, const std::string& path) {
  return machine::read_kernel_table(text, path, {.device = cuda_implementations});
}

std::vector<machine::Choice> measured_device_choices(const std::string& text,
                                                     const std::string& path) {
  if (text.empty()) return {};
  return machine::device_choices_of(parse_device_table(text, path), path, kernel_device());
}

}  // namespace fourfold::measure
