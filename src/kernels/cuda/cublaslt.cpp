#include "kernels/cuda/cublaslt.h"

#include <cublasLt.h>

#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "kernels/matmul_sizes.h"

namespace fourfold::kernels::cuda::cublaslt {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail_internal(format("{} succeeds; cuBLASLt says: {}", call, cublasLtGetStatusString(status)));
}

/// Owns what a create call of the library made.
template <class T>
using Owned = std::shared_ptr<std::remove_pointer_t<T>>;

Owned<cublasLtHandle_t> library() {
  // One for each thread that prepares kernels, as long as one of them lives.
  thread_local std::weak_ptr<std::remove_pointer_t<cublasLtHandle_t>> held;
  if (auto handle = held.lock()) return handle;
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  Owned<cublasLtHandle_t> owned(handle, [](cublasLtHandle_t old) { cublasLtDestroy(old); });
  held = owned;
  return owned;
}

Owned<cublasLtMatmulDesc_t> product(const op::Matmul& op, cublasComputeType_t compute) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  Owned<cublasLtMatmulDesc_t> owned(
      made, [](cublasLtMatmulDesc_t old) { cublasLtMatmulDescDestroy(old); });
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transpose) {
    const cublasOperation_t operation = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(made, attribute, &operation, sizeof(operation)),
          "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, op.transpose_b);
  set(CUBLASLT_MATMUL_DESC_TRANSB, op.transpose_a);
  return owned;
}

/// A row-major matrix as the library sees it: column-major, its columns being our rows.
Owned<cublasLtMatrixLayout_t> matrix(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  return {made, [](cublasLtMatrixLayout_t old) { cublasLtMatrixLayoutDestroy(old); }};
}

/// All that a call needs. Row-major out = a b is column-major out^T = b^T a^T: b goes first.
struct Product {
  Owned<cublasLtHandle_t> handle;
  Owned<cublasLtMatmulDesc_t> description;
  Owned<cublasLtMatrixLayout_t> a, b, out;
  cublasLtMatmulAlgo_t algorithm{};
  float beta = 0;
};

void choose_algorithm(Product& of, const MatmulSizes& sizes) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> preference(
      made, [](cublasLtMatmulPreference_t old) { cublasLtMatmulPreferenceDestroy(old); });
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(alignment, std::uint32_t{16});
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  check(
      cublasLtMatmulAlgoGetHeuristic(of.handle.get(), of.description.get(), of.b.get(), of.a.get(),
                                     of.out.get(), of.out.get(), made, 1, &found, &count),
      "cublasLtMatmulAlgoGetHeuristic");
  require(count == 1,
          format("cuBLASLt has an algorithm for m {}, n {}, k {}", sizes.m, sizes.n, sizes.k));
  of.algorithm = found.algo;
}

}  // namespace

Enqueue prepare(const op::Matmul& op, const Problem& problem, Precision precision) {
  require(problem.dtype == DType::f32 || problem.dtype == DType::bf16,
          "products on CUDA are of f32 or bf16");
  const MatmulSizes sizes = matmul_sizes(op, problem.shapes);
  const cudaDataType_t type = problem.dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
  const cudaDataType_t type_of_out = op.unrounded ? CUDA_R_32F : type;
  auto of = std::make_shared<Product>();
  of->handle = library();
  of->description =
      product(op, precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
  of->a = op.transpose_a ? matrix(type, sizes.k, sizes.m) : matrix(type, sizes.m, sizes.k);
  of->b = op.transpose_b ? matrix(type, sizes.n, sizes.k) : matrix(type, sizes.k, sizes.n);
  of->out = matrix(type_of_out, sizes.m, sizes.n);
  of->beta = op.accumulate ? 1 : 0;
  choose_algorithm(*of, sizes);
  return [of](Tensors operands, Workspace workspace, Stream stream) {
    const float alpha = 1;
    check(cublasLtMatmul(of->handle.get(), of->description.get(), &alpha, operands[1].data,
                         of->b.get(), operands[0].data, of->a.get(), &of->beta, operands[2].data,
                         of->out.get(), operands[2].data, of->out.get(), &of->algorithm,
                         workspace.data(), workspace.size(), stream),
          "cublasLtMatmul");
  };
}

}  // namespace fourfold::kernels::cuda::cublaslt
