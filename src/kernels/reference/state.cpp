// Reference initial values and digests; op::InitNormal, op::Fill and op::Digest state the
// contracts.
#include <algorithm>

#include "kernels/digest_term.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {

Run prepare_row(const op::InitNormal& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [stream = op.stream, stddev = op.stddev, count = problem.shapes[1].elements()](
               Tensors operands, Workspace) {
      const Random random(*operands[0].as<std::uint64_t>(), stream);
      T* x = operands[1].as<T>();
      for (std::int64_t i = 0; i < count; ++i)
        x[i] = static_cast<T>(
            static_cast<Sum<T>>(stddev * random.normal(static_cast<std::uint64_t>(i), 0)));
    };
  });
}

Run prepare_row(const op::Fill& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const double value = op.value;
  if (problem.dtype == DType::i64)
    return [count, value](Tensors operands, Workspace) {
      std::fill_n(operands[0].as<std::int64_t>(), count, static_cast<std::int64_t>(value));
    };
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [count, value](Tensors operands, Workspace) {
      std::fill_n(operands[0].as<T>(), count, static_cast<T>(static_cast<Sum<T>>(value)));
    };
  });
}

namespace {

template <class T>
Run digest(std::uint64_t stream, std::int64_t count) {
  return [stream, count](Tensors operands, Workspace) {
    const T* x = operands[0].as<T>();
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i)
      sum += digest_term(stream, static_cast<std::uint64_t>(i), element_bits(x[i]));
    *operands[1].as<std::uint64_t>() = sum;
  };
}

}  // namespace

Run prepare_row(const op::Digest& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  if (problem.dtype == DType::i64) return digest<std::int64_t>(op.stream.id, count);
  return for_storage(problem.dtype, [&]<class T>(As<T>) { return digest<T>(op.stream.id, count); });
}

}  // namespace fourfold::kernels::reference
