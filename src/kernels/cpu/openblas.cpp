// Matrix products by OpenBLAS (openmp build: it takes its threads from the calling thread's OpenMP
// setting).
#include "kernels/cpu/openblas.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <limits>

#include "base/format.h"
#include "base/text.h"
#include "kernels/contract_sizes.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu::openblas {
namespace {

int narrow(std::int64_t size) {
  return static_cast<int>(size);
}

/// How the operands of a row-major product are stored.
struct Layout {
  CBLAS_TRANSPOSE a, b;
};

void multiply(Layout of, const ContractSizes& s, const float* a, const float* b, float beta,
              float* out) {
  cblas_sgemm(CblasRowMajor, of.a, of.b, narrow(s.m), narrow(s.n), narrow(s.k), 1, a,
              narrow(s.a_stride()), b, narrow(s.b_stride()), beta, out, narrow(s.n));
}
void multiply(Layout of, const ContractSizes& s, const double* a, const double* b, double beta,
              double* out) {
  cblas_dgemm(CblasRowMajor, of.a, of.b, narrow(s.m), narrow(s.n), narrow(s.k), 1, a,
              narrow(s.a_stride()), b, narrow(s.b_stride()), beta, out, narrow(s.n));
}

}  // namespace

Run prepare(const op::Contract& op, const Problem& problem) {
  const Layout layout = {op.transpose_a ? CblasTrans : CblasNoTrans,
                         op.transpose_b ? CblasTrans : CblasNoTrans};
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  require(std::max({sizes.m, sizes.n, sizes.k}) <= std::numeric_limits<int>::max(),
          "OpenBLAS's sizes are below 2^31");
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [layout, sizes, beta = static_cast<T>(op.accumulate ? 1 : 0), threads = problem.threads](
               Tensors operands, Workspace) {
      if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
      sizes.for_each_product(
          operands[0].as<T>(), operands[1].as<T>(), operands[2].as<T>(),
          [&](const T* a, const T* b, T* out) { multiply(layout, sizes, a, b, beta, out); });
    };
  });
}

std::string version() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH USE_OPENMP SkylakeX MAX_THREADS=128"
  const std::vector<std::string> words = split(openblas_get_config(), ' ');
  const bool is_openmp = openblas_get_parallel() == OPENBLAS_OPENMP;
  return format("{}, {}, kernels for {}", words.size() > 1 ? words[1] : "?",
                is_openmp ? "OpenMP" : "its own threads", openblas_get_corename());
}

}  // namespace fourfold::kernels::cpu::openblas
