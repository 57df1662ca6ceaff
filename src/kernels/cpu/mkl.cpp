// Matrix products by MKL on GNU's OpenMP, of which it takes as many threads as the calling thread's
// setting says. The names that end in _64 are those that no other BLAS has.
#include "kernels/cpu/mkl.h"

#include <mkl_cblas.h>
#include <mkl_service.h>
#include <omp.h>

#include "base/format.h"
#include "kernels/contract_sizes.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu::mkl {
namespace {

/// How the operands of a row-major product are stored.
struct Layout {
  CBLAS_TRANSPOSE a, b;
};

void multiply(Layout of, const ContractSizes& s, const float* a, const float* b, float beta,
              float* out) {
  cblas_sgemm_64(CblasRowMajor, of.a, of.b, s.m, s.n, s.k, 1, a, s.a_stride(), b, s.b_stride(),
                 beta, out, s.n);
}
void multiply(Layout of, const ContractSizes& s, const double* a, const double* b, double beta,
              double* out) {
  cblas_dgemm_64(CblasRowMajor, of.a, of.b, s.m, s.n, s.k, 1, a, s.a_stride(), b, s.b_stride(),
                 beta, out, s.n);
}

}  // namespace

Run prepare(const op::Contract& op, const Problem& problem) {
  mkl_set_dynamic(0);  // else it takes fewer threads than it is given, and bits depend on it
  const Layout layout = {op.transpose_a ? CblasTrans : CblasNoTrans,
                         op.transpose_b ? CblasTrans : CblasNoTrans};
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [layout, sizes = contract_sizes(op, problem.shapes),
            beta = static_cast<T>(op.accumulate ? 1 : 0),
            threads = problem.threads](Tensors operands, Workspace) {
      if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
      sizes.for_each_product(
          operands[0].as<T>(), operands[1].as<T>(), operands[2].as<T>(),
          [&](const T* a, const T* b, T* out) { multiply(layout, sizes, a, b, beta, out); });
    };
  });
}

std::string version() {
  MKLVersion version;
  mkl_get_version(&version);
  return format("{}.{}.{}", version.MajorVersion, version.MinorVersion, version.UpdateVersion);
}

}  // namespace fourfold::kernels::cpu::mkl
