// Reference dropout; op::Dropout says what it computes.
#include "kernels/dropout_mask.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {

Run prepare_row(const op::Dropout& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const StepElements elements = step_elements(op.window, op.part, problem.shapes[0]);
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Run {
    return [op, count, elements](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      const DropoutMask mask(op.stream, op.rate, *operands[1].as<std::uint64_t>(),
                             *operands[2].as<std::int64_t>());
      T* y = operands[3].as<T>();
      const auto kept_share = static_cast<Sum<T>>(1 - op.rate);
      const auto drop = [&](std::int64_t local, std::uint64_t global, std::int64_t size) {
        for (std::int64_t i = 0; i < size; ++i) {
          const bool dropped =
              mask.dropped(elements.first_element + global + static_cast<std::uint64_t>(i));
          y[local + i] =
              static_cast<T>(dropped ? 0 : static_cast<Sum<T>>(x[local + i]) / kept_share);
        }
      };
      elements.stretches.walk(0, count, drop, [](std::int64_t, std::int64_t) {});
    };
  });
}

}  // namespace fourfold::kernels::reference
