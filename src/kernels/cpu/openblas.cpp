// Matrix products by OpenBLAS (openmp build: it takes its threads from the calling thread's OpenMP
// setting).
#include "kernels/cpu/openblas.h"

#include <cblas.h>
#include <omp.h>

#include <limits>

#include "base/format.h"
#include "base/text.h"
#include "kernels/contract_sizes.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu::openblas {
namespace {

/// Arguments of a row-major GEMM.
struct Gemm {
  CBLAS_TRANSPOSE transpose_a, transpose_b;
  int m, n, k, a_stride, b_stride;
};

int narrow(std::int64_t size) {
  require(size <= std::numeric_limits<int>::max(), "OpenBLAS's sizes are below 2^31");
  return static_cast<int>(size);
}

void multiply(const Gemm& g, const float* a, const float* b, float beta, float* out) {
  cblas_sgemm(CblasRowMajor, g.transpose_a, g.transpose_b, g.m, g.n, g.k, 1, a, g.a_stride, b,
              g.b_stride, beta, out, g.n);
}
void multiply(const Gemm& g, const double* a, const double* b, double beta, double* out) {
  cblas_dgemm(CblasRowMajor, g.transpose_a, g.transpose_b, g.m, g.n, g.k, 1, a, g.a_stride, b,
              g.b_stride, beta, out, g.n);
}

}  // namespace

Run prepare(const op::Contract& op, const Problem& problem) {
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  const Gemm gemm{op.transpose_a ? CblasTrans : CblasNoTrans,
                  op.transpose_b ? CblasTrans : CblasNoTrans,
                  narrow(sizes.m),
                  narrow(sizes.n),
                  narrow(sizes.k),
                  narrow(op.transpose_a ? sizes.a_inner_stride : sizes.a_row_stride),
                  narrow(op.transpose_b ? sizes.b_column_stride : sizes.b_inner_stride)};
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [gemm, sizes, beta = static_cast<T>(op.accumulate ? 1 : 0), threads = problem.threads](
               Tensors operands, Workspace) {
      if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
      sizes.for_each_product(
          operands[0].as<T>(), operands[1].as<T>(), operands[2].as<T>(),
          [&](const T* a, const T* b, T* out) { multiply(gemm, a, b, beta, out); });
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
