// The interface between those who run a program and those who know the mathematics of an op.
// Kernels see spans and shapes; they know nothing of ranks, programs or streams.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "op/table.h"

namespace fourfold::kernels {

/// An operand as a kernel sees it: dense, row-major.
struct Tensor {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  std::int64_t elements() const { return shape.elements(); }
};

/// Operands in the order of op::operands; scratch of the size that workspace_bytes gave.
using Tensors = std::span<const Tensor>;
using Workspace = std::span<std::byte>;

/// A kernel ready to run on operands of the shapes it was prepared for. A call does not allocate,
/// log or throw.
using Run = std::function<void(Tensors, Workspace)>;

/// What is known when a kernel is prepared, once, before the first step.
struct Problem {
  op::Op op;
  DType dtype = DType::f32;
  std::vector<Shape> shapes;  // of all operands
  int threads = 1;
};

namespace reference {
/// The plain loops that define what an op computes: f32, f64, and bf16 storage (sums in the type of
/// accumulation_type, in index order). One thread, no library. The oracle for every other backend.
Run prepare(const Problem& problem);
}  // namespace reference

namespace cpu {
/// The kernel that `implementation` names: "reference", "vector" (own loops), "openblas", ...
/// f32, f64, and bf16 storage with sums in f32. Throws InternalError when there is no such
/// implementation of the op.
Run prepare(std::string_view implementation, const Problem& problem);
}  // namespace cpu

}  // namespace fourfold::kernels
