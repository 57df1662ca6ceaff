// What the kernels are built from and for, for people who look at a machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fourfold::kernels::cpu {

/// Names and versions of the libraries under the kernels, as they are loaded.
std::vector<std::pair<std::string, std::string>> library_versions();

/// True if this CPU has instructions for products in bf16 that the kernels use. Elsewhere bf16 is
/// computed in float32 and saves memory alone.
bool has_bf16_products();

/// Instruction sets that the kernels were compiled for, under the names of /proc/cpuinfo: a machine
/// without any of them cannot run them.
std::vector<std::string> instruction_sets();

}  // namespace fourfold::kernels::cpu
