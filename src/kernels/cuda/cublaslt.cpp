#include "kernels/cuda/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "kernels/contract_sizes.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/fused_product.h"

namespace fourfold::kernels::cuda::cublaslt {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  // Kernels are loaded when they are first used, which takes memory.
  if (status == CUBLAS_STATUS_ALLOC_FAILED) check_cuda(cudaErrorMemoryAllocation, call);
  check_cuda(cudaGetLastError(), call);  // a lost GPU, say, of which the library knows little
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

cublasLtEpilogue_t name_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  fail_internal("every epilogue has a name");
}

template <class Value>
void set(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(of, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

void set_memory(cublasLtMatmulDesc_t of, Epilogue epilogue, const EpilogueMemory& memory) {
  const bool has_bias = epilogue == Epilogue::bias || epilogue == Epilogue::bias_gelu,
             has_aux = epilogue == Epilogue::bias_gelu || epilogue == Epilogue::gelu_gradient;
  if (has_bias) set(of, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
  if (has_aux) set(of, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, memory.aux);
}

Owned<cublasLtMatmulDesc_t> describe(const op::Contract& op, cublasComputeType_t compute,
                                     Epilogue epilogue, std::int64_t columns) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  Owned<cublasLtMatmulDesc_t> owned(
      made, [](cublasLtMatmulDesc_t old) { cublasLtMatmulDescDestroy(old); });
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, op.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, op.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (epilogue == Epilogue::none) return owned;
  set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, name_of(epilogue));
  if (epilogue != Epilogue::bias) set(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, columns);
  // Nobody reads at these addresses before the call; their alignment is what counts.
  void* const aligned = reinterpret_cast<void*>(std::uintptr_t{operand_alignment});
  set_memory(made, epilogue, {aligned, aligned});
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

/// All that a call needs. Row-major out = a b is column-major out^T = b^T a^T: b goes first, and a
/// bias of our columns is one of its rows, as the library has it.
struct Product {
  Owned<cublasLtHandle_t> handle;
  Owned<cublasLtMatmulDesc_t> description;
  Owned<cublasLtMatrixLayout_t> a, b, out;
  cublasLtMatmulAlgo_t algorithm{};
  float beta = 0;
  Epilogue epilogue = Epilogue::none;

  void operator()(const void* a_data, const void* b_data, void* out_data,
                  const EpilogueMemory& memory, Workspace workspace, Stream stream) const {
    const float alpha = 1;
    set_memory(description.get(), epilogue, memory);
    check(cublasLtMatmul(
              handle.get(), description.get(), &alpha, b_data, b.get(), a_data, a.get(), &beta,
              out_data, out.get(), out_data, out.get(), &algorithm, workspace.data(),
              std::min(workspace.size(), static_cast<std::size_t>(library_bytes)), stream),
          "cublasLtMatmul");
  }
};

cudaDataType_t type_of(DType dtype) {
  require(dtype == DType::f32 || dtype == DType::bf16, "products on CUDA are of f32 or bf16");
  return dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

Product make_product(const Problem& problem, Precision precision, Epilogue epilogue) {
  const auto& op = problem.op.get<op::Contract>();
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  const cudaDataType_t type = type_of(problem.dtype);
  const DType out = op::element_dtype(op.operands()[2].element, problem.dtype);
  Product product;
  product.handle = library();
  product.description =
      describe(op, precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
               epilogue, sizes.n);
  product.a = op.transpose_a ? matrix(type, sizes.k, sizes.m) : matrix(type, sizes.m, sizes.k);
  product.b = op.transpose_b ? matrix(type, sizes.n, sizes.k) : matrix(type, sizes.k, sizes.n);
  product.out = matrix(type_of(out), sizes.m, sizes.n);
  product.beta = op.accumulate ? 1 : 0;
  product.epilogue = epilogue;
  return product;
}

/// How sums over stretches of k are put together: in f32, in the workspace. The other schemes round
/// them to the type of the output, bf16 for bf16.
constexpr std::uint32_t reductions =
    CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

/// True if the status of a query means that the library does not have it. A combination of epilogue
/// and types that it does not know is an impossible value to some of its versions.
bool is_refusal(cublasStatus_t status, Epilogue epilogue) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ||
         (status == CUBLAS_STATUS_INVALID_VALUE && epilogue != Epilogue::none);
}

/// What the library proposes, best first; empty where it has nothing.
std::vector<cublasLtMatmulHeuristicResult_t> algorithms(const Product& of, int most) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> preference(
      made, [](cublasLtMatmulPreference_t old) { cublasLtMatmulPreferenceDestroy(old); });
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(library_bytes));
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(alignment, operand_alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(of.handle.get(), of.description.get(), of.b.get(), of.a.get(),
                                     of.out.get(), of.out.get(), made, most, found.data(), &count);
  if (is_refusal(status, of.epilogue)) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

/// The one that a method names; the last where there are fewer.
std::optional<cublasLtMatmulHeuristicResult_t> candidate(const Product& of, const Method& method) {
  // Candidates are numbered in the whole list; the first one takes less time to find alone.
  const auto list = algorithms(of, method.candidate == 0 ? 1 : max_candidates);
  if (list.empty()) return std::nullopt;
  return list[std::min(static_cast<std::size_t>(method.candidate), list.size() - 1)];
}

std::optional<Multiply> prepare_multiply(const Problem& problem, const Method& method,
                                         Epilogue epilogue) {
  Product product = make_product(problem, method.precision, epilogue);
  const auto chosen = candidate(product, method);
  if (!chosen) return std::nullopt;
  product.algorithm = chosen->algo;
  return Multiply(std::move(product));
}

}  // namespace

Enqueue prepare(const Problem& problem, const Method& method) {
  return prepare_product(problem, [&](const Problem& product, Epilogue epilogue) {
    return prepare_multiply(product, method, epilogue);
  });
}

std::int64_t workspace_bytes(const Problem& problem) {
  return product_workspace_bytes(problem, library_bytes);
}

std::int64_t needed_workspace_bytes(const Problem& problem, const Method& method) {
  std::size_t needed = 0;
  prepare_product(problem, [&](const Problem& product, Epilogue epilogue) {
    const auto chosen = candidate(make_product(product, method.precision, epilogue), method);
    if (chosen) needed = chosen->workspaceSize;
    return prepare_multiply(product, method, epilogue);
  });
  return product_workspace_bytes(problem, static_cast<std::int64_t>(needed));
}

int count_candidates(const Problem& problem, Precision precision) {
  int count = 0;
  prepare_product(problem, [&](const Problem& product, Epilogue epilogue) {
    const Product one = make_product(product, precision, epilogue);
    count = static_cast<int>(algorithms(one, max_candidates).size());
    return prepare_multiply(product, {precision, 0}, epilogue);
  });
  return count;
}

}  // namespace fourfold::kernels::cuda::cublaslt
