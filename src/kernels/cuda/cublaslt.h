// Products by cuBLASLt, also with what it can do before it stores an element. The library's own
// headers stay in cublaslt.cpp.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda::cublaslt {

enum class Precision : std::uint8_t { full, tf32 };

/// An algorithm as the library's own numbers say it: what cublasLt.h calls ID, TILE_ID, STAGES_ID,
/// SPLITK_NUM, REDUCTION_SCHEME, CTA_SWIZZLING, CUSTOM_OPTION, INNER_SHAPE_ID and CLUSTER_SHAPE_ID
/// of CUBLASLT_ALGO_CONFIG. They mean the same to the same version of the library alone.
using AlgorithmNumbers = std::array<std::uint32_t, 9>;

/// One of the library's ways to compute a product.
struct Method {
  Precision precision = Precision::full;
  /// Which of the algorithms that the library proposes, best first; the last where it proposes
  /// fewer. The same in every run with the same library on the same device.
  int candidate = 0;
  /// One that the library accepts, whether it proposes it or not; then `candidate` says nothing.
  std::optional<AlgorithmNumbers> numbers = {};
  bool operator==(const Method&) const = default;
};

/// Names of implementations: "cublaslt", "cublaslt_tf32" (f32 rounded to tf32 going in), either
/// with "/1" to "/9" added for another candidate than the first, or with the numbers of an
/// algorithm, "/66.393.35.1.0.0.5.0.8". Nothing for other names.
std::optional<Method> method_of(std::string_view implementation);
std::string name_of(const Method& method);
inline constexpr int max_candidates = 10;

/// Any row with a product (op::product_of), f32 or bf16, sums in f32. What stands after the
/// product is computed by the library where it can, else by own kernels (fused_product.h). Errors:
/// UserError(bad_config) where the library refuses the numbers of an algorithm.
Enqueue prepare(const Problem& problem, const Method& method);

/// As much as any of its algorithms may want.
std::int64_t workspace_bytes(const Problem& problem);
/// What this one wants; asks the device.
std::int64_t needed_workspace_bytes(const Problem& problem, const Method& method);

/// How many different algorithms the library proposes for a row; asks the device.
int count_candidates(const Problem& problem, Precision precision);

/// Algorithms that the library accepts for a row beside those that it proposes: each differs from a
/// proposal in tile and cluster, in stages and option, or in the split of k; some hundred, in an
/// order of chance that is the same each time. Sums over stretches of k stay in f32, in a fixed
/// order. Asks the device; takes some tenths of a second.
std::vector<Method> neighbours(const Problem& problem, Precision precision);

/// The workspace of the library itself: what NVIDIA advises for Hopper,
/// https://docs.nvidia.com/cuda/cublas, "cublasSetWorkspace".
inline constexpr std::int64_t library_bytes = std::int64_t{32} << 20;

}  // namespace fourfold::kernels::cuda::cublaslt
