// Matrix products by BLIS (openmp build) through its own interface: it says with each call how many
// threads there are and where elements lie, and has no name in common with another BLAS.
#include "kernels/cpu/blis.h"

#include <blis.h>

#include "base/format.h"
#include "kernels/contract_sizes.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu::blis {
namespace {

// BLIS before 1.0 reads its operands through pointers that could write them.
void multiply(const ContractSizes& s, float* a, float* b, float beta, float* out, rntm_t* threads) {
  float alpha = 1;
  bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, s.m, s.n, s.k, &alpha, a, s.a_row_stride,
               s.a_inner_stride, b, s.b_inner_stride, s.b_column_stride, &beta, out, s.n, 1,
               nullptr, threads);
}
void multiply(const ContractSizes& s, double* a, double* b, double beta, double* out,
              rntm_t* threads) {
  double alpha = 1;
  bli_dgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, s.m, s.n, s.k, &alpha, a, s.a_row_stride,
               s.a_inner_stride, b, s.b_inner_stride, s.b_column_stride, &beta, out, s.n, 1,
               nullptr, threads);
}

}  // namespace

Run prepare(const op::Contract& op, const Problem& problem) {
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return
        [sizes = contract_sizes(op, problem.shapes), beta = static_cast<T>(op.accumulate ? 1 : 0),
         threads = problem.threads](Tensors operands, Workspace) {
          rntm_t of_call = BLIS_RNTM_INITIALIZER;
          bli_rntm_set_num_threads(threads, &of_call);
          sizes.for_each_product(
              operands[0].as<T>(), operands[1].as<T>(), operands[2].as<T>(),
              [&](T* a, T* b, T* out) { multiply(sizes, a, b, beta, out, &of_call); });
        };
  });
}

std::string version() {
  return format("{}, kernels for {}", bli_info_get_version_str(),
                bli_arch_string(bli_arch_query_id()));
}

}  // namespace fourfold::kernels::cpu::blis
