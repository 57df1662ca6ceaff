// Dropout on CPU.
#include "kernels/cpu/keep_factors.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

template <class T>
void dropout(const T* x, const DropoutMask& mask, std::uint64_t first_element, std::int64_t count,
             double rate, int threads, T* y) {
  const auto kept_share = static_cast<T>(1 - rate);
  for_ranges(
      count, team_size(threads, count), element_grain, [&](std::int64_t first, std::int64_t last) {
        constexpr std::int64_t batch = 256;
        T kept[batch];
        for (std::int64_t begin = first; begin < last; begin += batch) {
          const std::int64_t size = std::min(batch, last - begin);
          keep_factors(mask, first_element + static_cast<std::uint64_t>(begin), size, T{1}, kept);
#pragma omp simd
          for (std::int64_t i = 0; i < size; ++i) {
            const T scaled = x[begin + i] / kept_share;
            y[begin + i] = kept[i] == T{0} ? T{0} : scaled;
          }
        }
      });
}

}  // namespace

Run prepare_row(const op::Dropout& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const std::int64_t sample_elements = problem.shapes[0].elements(1, problem.shapes[0].rank());
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, count, sample_elements, threads = problem.threads](Tensors operands, Workspace) {
      const DropoutMask mask(op.stream, op.rate, *operands[1].as<std::uint64_t>(),
                             *operands[2].as<std::int64_t>());
      dropout<T>(operands[0].as<T>(), mask,
                 global_sample(op.window, 0) * static_cast<std::uint64_t>(sample_elements), count,
                 op.rate, threads, operands[3].as<T>());
    };
  });
}

}  // namespace fourfold::kernels::cpu
