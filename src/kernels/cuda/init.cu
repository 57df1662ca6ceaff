// Initial values on the device; op::InitNormal says what they are. Drawn on all cores of the
// host, whose libm gives every backend the same bits, then copied: once, before the first step.
#include <algorithm>
#include <vector>

#include "base/host_facts.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

int host_threads() {
  static const int threads = std::max(1, static_cast<int>(host_facts().cores.size()));
  return threads;
}

Run draw_on_host(Problem problem) {
  problem.threads = host_threads();
  return cpu::prepare("vector", problem);
}

Enqueue draw_then_copy(const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [draw = draw_on_host(problem)](Tensors operands, Workspace, Stream stream) {
      std::uint64_t seed = 0;
      copy_to_host(operands[0].data, sizeof(seed), &seed, stream);
      const auto count = static_cast<std::size_t>(operands[1].elements());
      std::vector<T> values(count);
      const Tensor on_host[] = {{&seed, operands[0].shape, operands[0].dtype},
                                {values.data(), operands[1].shape, operands[1].dtype}};
      draw(on_host, {});
      copy_to_device(values.data(), count * sizeof(T), operands[1].data, stream);
    };
  });
}

}  // namespace

Enqueue prepare_row(const op::InitNormal&, const Problem& problem) {
  return draw_then_copy(problem);
}

Enqueue prepare_row(const op::InitUniform&, const Problem& problem) {
  return draw_then_copy(problem);
}

}  // namespace fourfold::kernels::cuda
