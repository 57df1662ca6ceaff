#include "kernels/cpu/libraries.h"

#include "base/format.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/openblas.h"

namespace fourfold::kernels::cpu {

std::vector<std::pair<std::string, std::string>> library_versions() {
  // _OPENMP is the month of the specification.
  return {{"OpenBLAS", openblas::version()},
          {"oneDNN", onednn::version()},
          {"OpenMP", format("{}-{:02}", _OPENMP / 100, _OPENMP % 100)}};
}

std::vector<std::string> instruction_sets() {
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

}  // namespace fourfold::kernels::cpu
