#include "kernels/cpu/libraries.h"

#include "base/format.h"
#include "kernels/cpu/blas_libraries.h"
#include "kernels/cpu/onednn.h"

namespace fourfold::kernels::cpu {

NamedVersions product_libraries() {
  NamedVersions result;
  for (const BlasLibrary& library : blas_libraries())
    result.emplace_back(library.name, library.version());
  result.emplace_back("oneDNN", onednn::version());
  return result;
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
