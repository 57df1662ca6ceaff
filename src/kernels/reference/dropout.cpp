// Reference dropout; op::Dropout states the contract.
#include "kernels/dropout_mask.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {

Run prepare_row(const op::Dropout& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const std::int64_t sample_elements = problem.shapes[0].elements(1, problem.shapes[0].rank());
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, count, sample_elements](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      const DropoutMask mask(op.stream, op.rate, *operands[1].as<std::uint64_t>(),
                             *operands[2].as<std::int64_t>());
      T* y = operands[3].as<T>();
      const std::uint64_t first =
          global_sample(op.window, 0) * static_cast<std::uint64_t>(sample_elements);
      const auto kept_share = static_cast<Sum<T>>(1 - op.rate);
      for (std::int64_t i = 0; i < count; ++i) {
        const bool dropped = mask.dropped(first + static_cast<std::uint64_t>(i));
        y[i] = static_cast<T>(dropped ? 0 : static_cast<Sum<T>>(x[i]) / kept_share);
      }
    };
  });
}

}  // namespace fourfold::kernels::reference
