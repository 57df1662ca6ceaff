#include "kernels/cpu/libraries.h"

#include "base/format.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/openblas.h"

namespace fourfold::kernels::cpu {

NamedVersions product_libraries() {
  return {{"OpenBLAS", openblas::version()}, {"oneDNN", onednn::version()}};
}

NamedVersions library_versions() {
  NamedVersions result = product_libraries();
  // _OPENMP is the month of the specification.
  result.emplace_back("OpenMP", format("{}-{:02}", _OPENMP / 100, _OPENMP % 100));
  return result;
}

bool has_bf16_products() {
  return onednn::has_bf16();
}

}  // namespace fourfold::kernels::cpu
