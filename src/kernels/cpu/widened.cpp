#include "kernels/cpu/widened.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// An operand that is stored in bf16.
struct Copy {
  std::size_t operand;
  std::int64_t count;
  op::Role role;
};

std::vector<Copy> copies_of(const Problem& problem) {
  std::vector<Copy> copies;
  const op::Operands operands = op::operands(problem.op);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (op::element_dtype(operands[i].element, DType::bf16) == DType::bf16)
      copies.push_back({i, problem.shapes[i].elements(), operands[i].role});
  return copies;
}

void widen(const BFloat16* from, std::int64_t count, int threads, float* to) {
  for_ranges(count, team_size(threads, count), element_grain,
             [=](std::int64_t first, std::int64_t last) {
#pragma omp simd
               for (std::int64_t i = first; i < last; ++i) to[i] = static_cast<float>(from[i]);
             });
}

void round(const float* from, std::int64_t count, int threads, BFloat16* to) {
  for_ranges(count, team_size(threads, count), element_grain,
             [=](std::int64_t first, std::int64_t last) {
#pragma omp simd
               for (std::int64_t i = first; i < last; ++i) store(to[i], from[i]);
             });
}

class Widened {
 public:
  Widened(const Problem& problem, Run kernel, std::int64_t workspace_bytes)
      : kernel_(std::move(kernel)),
        workspace_bytes_(workspace_bytes),
        threads_(problem.threads),
        copies_(copies_of(problem)),
        tensors_(problem.shapes.size()) {}

  void run(Tensors operands, Workspace workspace) {
    Scratch scratch(workspace.data());
    std::byte* const own = scratch.take<std::byte>(workspace_bytes_);
    std::copy(operands.begin(), operands.end(), tensors_.begin());
    for (const Copy& copy : copies_) {
      Tensor& tensor = tensors_[copy.operand];
      float* const values = scratch.take<float>(copy.count);
      if (copy.role != op::Role::write) widen(tensor.as<BFloat16>(), copy.count, threads_, values);
      tensor = {values, tensor.shape, DType::f32};
    }
    kernel_(tensors_, {own, static_cast<std::size_t>(workspace_bytes_)});
    for (const Copy& copy : copies_)
      if (copy.role != op::Role::read)
        round(tensors_[copy.operand].as<float>(), copy.count, threads_,
              operands[copy.operand].as<BFloat16>());
  }

 private:
  Run kernel_;
  std::int64_t workspace_bytes_;
  int threads_;
  std::vector<Copy> copies_;
  std::vector<Tensor> tensors_;  // of a call, kept so that it does not allocate
};

}  // namespace

Problem in_float(const Problem& problem) {
  Problem same = problem;
  same.dtype = DType::f32;
  return same;
}

Run widened(const Problem& problem, Run kernel, std::int64_t workspace_bytes) {
  auto made = std::make_shared<Widened>(problem, std::move(kernel), workspace_bytes);
  return [made](Tensors operands, Workspace workspace) { made->run(operands, workspace); };
}

std::int64_t widened_bytes(const Problem& problem, std::int64_t workspace_bytes) {
  Scratch count(nullptr);
  count.take<std::byte>(workspace_bytes);
  for (const Copy& copy : copies_of(problem)) count.take<float>(copy.count);
  return count.used_bytes();
}

}  // namespace fourfold::kernels::cpu
