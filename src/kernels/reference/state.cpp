// Reference initial values and digests; op::InitNormal, op::Fill and op::Digest say what
// they compute.
#include <algorithm>

#include "base/digest_term.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"
#include "kernels/tensor_stretches.h"

namespace fourfold::kernels::reference {

namespace {

/// value(random numbers, index in the global tensor) in each element, 0 in padding.
template <class Init, class Value>
Run draw_values(const Init& op, const Problem& problem, Value value) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [stream = op.stream, value, count = problem.shapes[1].elements(),
            stretches = TensorStretches(op.part, problem.shapes[1])](Tensors operands, Workspace) {
      const Random random(*operands[0].as<std::uint64_t>(), stream);
      T* x = operands[1].as<T>();
      const auto draw = [&](std::int64_t local, std::uint64_t global, std::int64_t size) {
        for (std::int64_t i = 0; i < size; ++i)
          x[local + i] = static_cast<T>(
              static_cast<Sum<T>>(value(random, global + static_cast<std::uint64_t>(i))));
      };
      stretches.walk(0, count, draw, [&](std::int64_t local, std::int64_t size) {
        std::fill_n(x + local, size, static_cast<T>(Sum<T>{0}));
      });
    };
  });
}

}  // namespace

Run prepare_row(const op::InitNormal& op, const Problem& problem) {
  return draw_values(op, problem, [stddev = op.stddev](const Random& random, std::uint64_t i) {
    return stddev * random.normal(i, 0);
  });
}

Run prepare_row(const op::InitUniform& op, const Problem& problem) {
  return draw_values(op, problem, [bound = op.bound](const Random& random, std::uint64_t i) {
    return bound * (2 * random.uniform(i, 0) - 1);
  });
}

Run prepare_row(const op::Fill& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const double value = op.value;
  if (problem.dtype == DType::i64 || problem.dtype == DType::u64)
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
Run digest(std::uint64_t stream, std::int64_t count, const TensorStretches& stretches) {
  return [stream, count, stretches](Tensors operands, Workspace) {
    const T* x = operands[0].as<T>();
    std::uint64_t sum = 0;
    const auto add = [&](std::int64_t local, std::uint64_t global, std::int64_t size) {
      for (std::int64_t i = 0; i < size; ++i)
        sum +=
            digest_term(stream, global + static_cast<std::uint64_t>(i), element_bits(x[local + i]));
    };
    stretches.walk(0, count, add, [](std::int64_t, std::int64_t) {});
    *operands[1].as<std::uint64_t>() = sum;
  };
}

}  // namespace

Run prepare_row(const op::Digest& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const TensorStretches stretches(op.part, problem.shapes[0]);
  if (problem.dtype == DType::i64) return digest<std::int64_t>(op.stream.id, count, stretches);
  return for_storage(problem.dtype,
                     [&]<class T>(As<T>) { return digest<T>(op.stream.id, count, stretches); });
}

}  // namespace fourfold::kernels::reference
