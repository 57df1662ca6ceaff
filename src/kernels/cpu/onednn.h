// Matrix products and convolutions by oneDNN; onednn.cpp alone sees its header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu::onednn {

/// True if oneDNN is used for an op in a type: contract, and convolution with its gradients, in f32
/// and, where has_bf16(), in bf16 with sums in float32.
bool computes(const op::Op& op, DType dtype);

/// True if this CPU has instructions for products in bf16 (AVX512-BF16 or AMX) that oneDNN uses.
/// Elsewhere oneDNN computes them slower than in f32, or by plain loops.
bool has_bf16();

/// A product in f32 through oneDNN's interface of a BLAS, whose kernels are others than those of
/// its primitive: which is faster, differs from shape to shape. The library has scratch of its own.
Run prepare_sgemm(const op::Contract& op, const Problem& problem);

/// The kernel of a problem that oneDNN computes. Primitive and memory objects are made here; a call
/// sets their pointers.
Run prepare(const Problem& problem);
/// Bytes of the primitives' scratchpad and of weights in the format that a convolution wants.
std::int64_t workspace_bytes(const Problem& problem);

/// A matrix as it lies in memory; strides count elements.
struct MatrixForm {
  std::int64_t rows, columns, row_stride, column_stride;
  DType dtype;
  MatrixForm transposed() const { return {columns, rows, column_stride, row_stride, dtype}; }
};

/// out = a b, or out += a b, on the thread that calls, within kernels that share other work among
/// threads. Sums are in float32.
class ThreadProduct {
 public:
  /// None.
  ThreadProduct() = default;
  ThreadProduct(const MatrixForm& a, const MatrixForm& b, const MatrixForm& out, bool accumulate);

  /// From the first elements of the matrices. One call at a time.
  void operator()(const void* a, const void* b, void* out, std::byte* scratch) const {
    multiply_(a, b, out, scratch);
  }
  /// The scratch of a call; not 0 where there is a product.
  std::int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  std::function<void(const void*, const void*, void*, std::byte*)> multiply_;
  std::int64_t scratch_bytes_ = 0;
};

/// "2.6.0".
std::string version();

}  // namespace fourfold::kernels::cpu::onednn
