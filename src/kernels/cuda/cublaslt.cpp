#include "kernels/cuda/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
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

using Algorithm = cublasLtMatmulAlgo_t;

/// All that a call needs. Row-major out = a b is column-major out^T = b^T a^T: b goes first, and a
/// bias of our columns is one of its rows, as the library has it.
struct Product {
  Owned<cublasLtHandle_t> handle;
  Owned<cublasLtMatmulDesc_t> description;
  Owned<cublasLtMatrixLayout_t> a, b, out;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t type = CUDA_R_32F, out_type = CUDA_R_32F;
  Algorithm algorithm{};
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
  const auto& op = std::get<op::Contract>(problem.op);
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  const cudaDataType_t type = type_of(problem.dtype);
  const DType out = op::element_dtype(op.operands()[2].element, problem.dtype);
  Product product;
  product.handle = library();
  product.compute =
      precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  product.type = type;
  product.out_type = type_of(out);
  product.description = describe(op, product.compute, epilogue, sizes.n);
  product.a = op.transpose_a ? matrix(type, sizes.k, sizes.m) : matrix(type, sizes.m, sizes.k);
  product.b = op.transpose_b ? matrix(type, sizes.n, sizes.k) : matrix(type, sizes.k, sizes.n);
  product.out = matrix(product.out_type, sizes.m, sizes.n);
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

// --- algorithms by their numbers

/// A number of an algorithm, in the order of AlgorithmNumbers, and its type in the library.
struct Setting {
  cublasLtMatmulAlgoConfigAttributes_t attribute;
  bool is_short = false;  // 16 bits, else 32
};
constexpr std::array<Setting, std::tuple_size_v<AlgorithmNumbers>> settings = {
    {{CUBLASLT_ALGO_CONFIG_ID},
     {CUBLASLT_ALGO_CONFIG_TILE_ID},
     {CUBLASLT_ALGO_CONFIG_STAGES_ID},
     {CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
     {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME},
     {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING},
     {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION},
     {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, true},
     {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, true}}};
constexpr std::size_t id = 0, tile = 1, stages = 2, split = 3, reduction = 4, option = 6,
                      cluster = 8;

AlgorithmNumbers numbers_of(const Algorithm& algorithm) {
  AlgorithmNumbers numbers{};
  for (std::size_t i = 0; i < settings.size(); ++i) {
    std::size_t written = 0;
    check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, settings[i].attribute, &numbers[i],
                                               settings[i].is_short ? 2 : 4, &written),
          "cublasLtMatmulAlgoConfigGetAttribute");
  }
  return numbers;
}

/// Nothing where the library has none with these numbers.
std::optional<Algorithm> algorithm_of(const Product& of, const AlgorithmNumbers& numbers) {
  Algorithm algorithm{};
  if (cublasLtMatmulAlgoInit(of.handle.get(), of.compute, CUDA_R_32F, of.type, of.type, of.out_type,
                             of.out_type, static_cast<int>(numbers[id]),
                             &algorithm) != CUBLAS_STATUS_SUCCESS)
    return std::nullopt;
  for (std::size_t i = 1; i < settings.size(); ++i) {
    const auto small = static_cast<std::uint16_t>(numbers[i]);
    const void* const value = settings[i].is_short ? static_cast<const void*>(&small) : &numbers[i];
    if (cublasLtMatmulAlgoConfigSetAttribute(&algorithm, settings[i].attribute, value,
                                             settings[i].is_short ? 2 : 4) != CUBLAS_STATUS_SUCCESS)
      return std::nullopt;
  }
  return algorithm;
}

/// Nothing where the library refuses it for this product, or would round sums before they are
/// whole.
std::optional<cublasLtMatmulHeuristicResult_t> accepted(const Product& of,
                                                        const AlgorithmNumbers& numbers) {
  if ((numbers[reduction] & ~reductions) != 0) return std::nullopt;
  const std::optional<Algorithm> algorithm = algorithm_of(of, numbers);
  if (!algorithm) return std::nullopt;
  cublasLtMatmulHeuristicResult_t result{};
  const bool is_accepted =
      cublasLtMatmulAlgoCheck(of.handle.get(), of.description.get(), of.b.get(), of.a.get(),
                              of.out.get(), of.out.get(), &*algorithm,
                              &result) == CUBLAS_STATUS_SUCCESS &&
      result.state == CUBLAS_STATUS_SUCCESS &&
      result.workspaceSize <= static_cast<std::size_t>(library_bytes);
  if (!is_accepted) return std::nullopt;
  result.algo = *algorithm;
  return result;
}

std::vector<std::uint32_t> choices(const Algorithm& algorithm,
                                   cublasLtMatmulAlgoCapAttributes_t attribute) {
  std::size_t bytes = 0;
  cublasLtMatmulAlgoCapGetAttribute(&algorithm, attribute, nullptr, 0, &bytes);
  std::vector<std::uint32_t> list(bytes / sizeof(std::uint32_t));
  if (!list.empty())
    cublasLtMatmulAlgoCapGetAttribute(&algorithm, attribute, list.data(), bytes, &bytes);
  return list;
}

/// Those of one proposal, whether they are accepted or not.
std::vector<AlgorithmNumbers> numbers_near(const Algorithm& proposal) {
  // Beyond all shapes of clusters that the header names, and all options and splits worth a try.
  constexpr std::uint32_t clusters = 60, options = 32, parts = 8;
  const AlgorithmNumbers base = numbers_of(proposal);
  std::vector<AlgorithmNumbers> list;
  const auto add = [&](std::initializer_list<std::pair<std::size_t, std::uint32_t>> changes) {
    AlgorithmNumbers& numbers = list.emplace_back(base);
    for (const auto& [place, number] : changes) numbers[place] = number;
  };
  for (const std::uint32_t one : choices(proposal, CUBLASLT_ALGO_CAP_TILE_IDS))
    for (std::uint32_t shape = 0; shape < clusters; ++shape) add({{tile, one}, {cluster, shape}});
  for (const std::uint32_t one : choices(proposal, CUBLASLT_ALGO_CAP_STAGES_IDS))
    for (std::uint32_t number = 0; number < options; ++number)
      add({{stages, one}, {option, number}});
  add({{split, 1}, {reduction, CUBLASLT_REDUCTION_SCHEME_NONE}});
  for (std::uint32_t number = 2; number <= parts; ++number)
    add({{split, number}, {reduction, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}});
  return list;
}

std::vector<AlgorithmNumbers> neighbours_of(const Product& product) {
  std::set<AlgorithmNumbers> seen;
  const auto proposals = algorithms(product, max_candidates);
  for (const auto& proposal : proposals) seen.insert(numbers_of(proposal.algo));
  std::vector<AlgorithmNumbers> list;
  for (const auto& proposal : proposals)
    for (const AlgorithmNumbers& numbers : numbers_near(proposal.algo))
      if (seen.insert(numbers).second && accepted(product, numbers)) list.push_back(numbers);
  std::shuffle(list.begin(), list.end(), std::mt19937(1));
  return list;
}

/// The one that a method names; the last where there are fewer.
std::optional<cublasLtMatmulHeuristicResult_t> candidate(const Product& of, const Method& method) {
  if (method.numbers) return accepted(of, *method.numbers);
  // Candidates are numbered in the whole list; the first one takes less time to find alone.
  const auto list = algorithms(of, method.candidate == 0 ? 1 : max_candidates);
  if (list.empty()) return std::nullopt;
  return list[std::min(static_cast<std::size_t>(method.candidate), list.size() - 1)];
}

std::optional<Multiply> prepare_multiply(const Problem& problem, const Method& method,
                                         Epilogue epilogue) {
  Product product = make_product(problem, method.precision, epilogue);
  const auto chosen = candidate(product, method);
  if (!chosen && method.numbers && epilogue == Epilogue::none)
    throw UserError(ExitCode::bad_config,
                    format("cuBLASLt {} refuses the algorithm '{}' of the table of kernels for a "
                           "product of {} and {}; write a new table with `fourfold bench kernels "
                           "CONFIG --device cuda -o FILE`",
                           cublasLtGetVersion(), name_of(method), to_string(problem.shapes[0]),
                           to_string(problem.shapes[1])));
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
    return prepare_multiply(product, {precision, 0, {}}, epilogue);
  });
  return count;
}

std::vector<Method> neighbours(const Problem& problem, Precision precision) {
  std::vector<Method> methods;
  prepare_product(problem, [&](const Problem& product, Epilogue epilogue) {
    methods.clear();
    for (const AlgorithmNumbers& numbers :
         neighbours_of(make_product(product, precision, epilogue)))
      methods.push_back({precision, 0, numbers});
    return prepare_multiply(product, {precision, 0, {}}, epilogue);
  });
  return methods;
}

}  // namespace fourfold::kernels::cuda::cublaslt
