#include "measure/ceilings.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/target.h"
#include "kernels/kernel.h"
#include "measure/best_rate.h"
#include "measure/kernel_bench.h"
#include "measure/memory.h"

namespace fourfold::measure {
namespace {

/// Twice the largest third-level cache that two of our cores are likely to share; large enough to
/// be memory's rate, small enough to be touched in a tenth of a second.
constexpr std::int64_t stream_elements = std::int64_t{64 << 20} / std::int64_t{sizeof(double)};

/// Large enough for the library's best rate, 0.02 s a call on one core.
constexpr std::int64_t gemm_size = 1024;

/// Small integers around 0: no subnormal, no infinity whatever is summed.
void fill_arrays(double* data, std::int64_t count, int threads) {
  kernels::cpu::for_ranges(count, threads, kernels::cpu::element_grain,
                           [=](std::int64_t first, std::int64_t last) {
                             for (std::int64_t i = first; i < last; ++i)
                               data[i] = static_cast<double>(i % 7 - 3);
                           });
}

/// Calls body(a, b, c, first, last) on each thread's range of three arrays.
template <class Body>
double stream_rate(int threads, double seconds, double bytes_per_element, Body body) {
  Memory memory(3 * stream_elements * std::int64_t{sizeof(double)});
  double* a = memory.as<double>();
  double* b = a + stream_elements;
  double* c = b + stream_elements;
  fill_arrays(a, 3 * stream_elements, threads);
  return best_rate(seconds, bytes_per_element * static_cast<double>(stream_elements), [&] {
    kernels::cpu::for_ranges(
        stream_elements, threads, kernels::cpu::element_grain,
        [&](std::int64_t first, std::int64_t last) { body(a, b, c, first, last); });
  });
}

}  // namespace

kernels::Problem square_product(std::int64_t size, DType dtype, int threads) {
  const Shape square{size, size};
  return {op::Contract{}, dtype, {square, square, square}, threads};
}

double measure_gemm_flops_per_s(DType dtype, int threads, double seconds) {
  require(dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16,
          "products are measured in f32, f64 or bf16");
  const kernels::Problem problem = square_product(gemm_size, dtype, threads);
  const machine::Target target = kernels::cpu::target(threads);
  const std::vector<std::string> libraries = kernels::cpu::contract_libraries(dtype);
  const double share_s = seconds / static_cast<double>(libraries.size());
  double best_s = std::numeric_limits<double>::infinity();
  for (const std::string& library : libraries) {
    KernelBench product(library, problem,
                        target.workspace_bytes(library, problem.op, problem.shapes, dtype));
    best_s = std::min(best_s, product.measure_s(share_s));
  }
  return op::flops(problem.op, problem.shapes) / best_s;
}

double measure_triad_bytes_per_s(int threads, double seconds) {
  return stream_rate(
      threads, seconds, 24,
      [](double* a, const double* b, const double* c, std::int64_t first, std::int64_t last) {
#pragma omp simd
        for (std::int64_t i = first; i < last; ++i) a[i] = b[i] + 3. * c[i];
      });
}

double measure_copy_bytes_per_s(int threads, double seconds) {
  return stream_rate(
      threads, seconds, 16,
      [](double* a, const double* b, const double*, std::int64_t first, std::int64_t last) {
#pragma omp simd
        for (std::int64_t i = first; i < last; ++i) a[i] = b[i];
      });
}

}  // namespace fourfold::measure
