// Compiled for every level.
#include "kernels/cpu/own_loops.h"

#include <variant>

#include "kernels/cpu/attention_products.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/widened.h"
#include "kernels/cpu/winograd.h"

namespace fourfold::kernels::cpu {
namespace {

std::vector<std::string> sets_of_compiler() {
  std::vector<std::string> sets;
#ifdef __AVX__
  sets.emplace_back("avx");
#endif
#ifdef __AVX2__
  sets.emplace_back("avx2");
#endif
#ifdef __FMA__
  sets.emplace_back("fma");
#endif
#ifdef __AVX512F__
  sets.emplace_back("avx512f");
#endif
#ifdef __AVX512BW__
  sets.emplace_back("avx512bw");
#endif
#ifdef __AVX512VL__
  sets.emplace_back("avx512vl");
#endif
#ifdef __AVX512VNNI__
  sets.emplace_back("avx512_vnni");
#endif
#ifdef __AVX512BF16__
  sets.emplace_back("avx512_bf16");
#endif
#ifdef __ARM_FEATURE_SVE
  sets.emplace_back("sve");
#endif
  return sets;
}

}  // namespace

Run prepare_vector(const Problem& problem) {
  return op::visit_row(
      [&]<class Row>(const Row& row) {
        if (!is_widened<Row> || problem.dtype != DType::bf16) return prepare_row(row, problem);
        const Problem wide = in_float(problem);
        return widened(problem, prepare_row(row, wide), workspace_bytes(row, wide));
      },
      problem.op);
}

std::int64_t vector_workspace_bytes(const Problem& problem) {
  return op::visit_row(
      [&]<class Row>(const Row& row) {
        if (!is_widened<Row> || problem.dtype != DType::bf16) return workspace_bytes(row, problem);
        return widened_bytes(problem, workspace_bytes(row, in_float(problem)));
      },
      problem.op);
}

const OwnLoops& loops_here() {
  static constexpr OwnLoops loops{sets_of_compiler,
                                  prepare_vector,
                                  vector_workspace_bytes,
                                  winograd::prepare,
                                  winograd::workspace_bytes,
                                  attention_products::prepare,
                                  attention_products::workspace_bytes};
  return loops;
}

}  // namespace fourfold::kernels::cpu
