#include "kernels/cpu/libraries.h"

#include "base/format.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/openblas.h"

namespace fourfold::kernels::cpu {

std::vector<std::pair<std::string, std::string>> library_versions() {
  // _OPENMP is the month of the specification.
  return {{"OpenBLAS", openblas::version()},
          {"oneDNN", onednn::version()},
          {"OpenMP", format("{}-{:02}", _OPENMP / 100, _OPENMP % 100)}};
}

bool has_bf16_products() {
  return onednn::has_bf16();
}

}  // namespace fourfold::kernels::cpu
