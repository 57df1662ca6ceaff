#include "kernels/cpu/blas_libraries.h"

#include <algorithm>

#include "kernels/cpu/openblas.h"
#ifdef FOURFOLD_BLIS
#include "kernels/cpu/blis.h"
#endif
#ifdef FOURFOLD_MKL
#include "kernels/cpu/mkl.h"
#endif

namespace fourfold::kernels::cpu {

std::span<const BlasLibrary> blas_libraries() {
  static constexpr BlasLibrary libraries[] = {
      {"openblas", "OpenBLAS", openblas::version, openblas::prepare},
#ifdef FOURFOLD_BLIS
      {"blis", "BLIS", blis::version, blis::prepare},
#endif
#ifdef FOURFOLD_MKL
      {"mkl", "MKL", mkl::version, mkl::prepare},
#endif
  };
  return libraries;
}

const BlasLibrary* find_blas_library(std::string_view implementation) {
  const auto libraries = blas_libraries();
  const auto found = std::ranges::find(libraries, implementation, &BlasLibrary::implementation);
  return found == libraries.end() ? nullptr : &*found;
}

}  // namespace fourfold::kernels::cpu
