// What the kernels are built from and for, for people who look at a machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fourfold::kernels::cpu {

using NamedVersions = std::vector<std::pair<std::string, std::string>>;
/// Names and versions, as they are loaded, of the libraries that kernels take products from.
NamedVersions product_libraries();
/// The same of all libraries under the kernels.
NamedVersions library_versions();

/// True if this CPU has instructions for products in bf16 that the kernels use. Elsewhere bf16 is
/// computed in float32 and saves memory alone.
bool has_bf16_products();

/// Instruction sets that the kernels were compiled for, under the names of /proc/cpuinfo: a machine
/// without any of them cannot run them.
std::vector<std::string> instruction_sets();

}  // namespace fourfold::kernels::cpu
