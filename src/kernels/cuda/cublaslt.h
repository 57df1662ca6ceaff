// Products by cuBLASLt, also with what it can do before it stores an element. The library's own
// headers stay in cublaslt.cpp.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda::cublaslt {

enum class Precision : std::uint8_t { full, tf32 };

/// One of the library's ways to compute a product.
struct Method {
  Precision precision = Precision::full;
  /// Which of the algorithms that the library proposes, best first; the last where it proposes
  /// fewer. The same in every run with the same library on the same device.
  int candidate = 0;
};

/// Names of implementations: "cublaslt", "cublaslt_tf32" (f32 rounded to tf32 going in), either
/// with "/1" to "/9" added for another candidate than the first. Nothing for other names.
std::optional<Method> method_of(std::string_view implementation);
inline constexpr int max_candidates = 10;

/// Any row with a product (op::product_of), f32 or bf16, sums in f32. What stands after the
/// product is computed by the library where it can, else by own kernels (fused_product.h).
Enqueue prepare(const Problem& problem, const Method& method);

/// As much as any of its algorithms may want.
std::int64_t workspace_bytes(const Problem& problem);
/// What this one wants; asks the device.
std::int64_t needed_workspace_bytes(const Problem& problem, const Method& method);

/// How many different algorithms the library proposes for a row; asks the device.
int count_candidates(const Problem& problem, Precision precision);

/// The workspace of the library itself: what NVIDIA advises for Hopper,
/// https://docs.nvidia.com/cuda/cublas, "cublasSetWorkspace".
inline constexpr std::int64_t library_bytes = std::int64_t{32} << 20;

}  // namespace fourfold::kernels::cuda::cublaslt
