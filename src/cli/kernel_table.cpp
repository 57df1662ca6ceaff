#include "cli/kernel_table.h"

#include "base/text.h"
#include "cli/host_facts.h"
#include "kernels/cpu/libraries.h"
#include "kernels/cpu/target.h"

namespace fourfold::cli {

std::string kernel_cpu() {
  return host_facts().cpu_model + "; " + join(kernels::cpu::instruction_sets(), " ");
}

std::vector<machine::Choice> measured_choices(const std::string& text, const std::string& path,
                                              int threads) {
  if (text.empty()) return {};
  const machine::KernelTable table =
      machine::read_kernel_table(text, path, kernels::cpu::matmul_implementations);
  return machine::choices_of(table, path, kernel_cpu(), threads);
}

}  // namespace fourfold::cli
