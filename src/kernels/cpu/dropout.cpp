// Dropout on CPU.
#include "kernels/cpu/keep_factors.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {

Run prepare_row(const op::Dropout& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const StepElements elements = step_elements(op.window, op.part, problem.shapes[0]);
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Run {
    return [op, count, elements, threads = problem.threads](Tensors operands, Workspace) {
      const DropoutMask mask(op.stream, op.rate, *operands[1].as<std::uint64_t>(),
                             *operands[2].as<std::int64_t>());
      const T* x = operands[0].as<T>();
      T* y = operands[3].as<T>();
      const auto kept_factor = static_cast<Sum<T>>(1 / (1 - op.rate));
      const auto visit = [&](std::int64_t local, std::uint64_t global, std::int64_t size) {
        drop(mask, elements.first_element + global, size, kept_factor, x + local, y + local);
      };
      for_ranges(count, team_size(threads, count), element_grain,
                 [&](std::int64_t first, std::int64_t last) {
                   elements.stretches.walk(first, last, visit, [](std::int64_t, std::int64_t) {});
                 });
    };
  });
}

}  // namespace fourfold::kernels::cpu
