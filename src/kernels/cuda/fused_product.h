// How a product with what follows it runs where a library can do some of it before it stores an
// element (its epilogue): what the library is asked for, and what own kernels do after it. Not the
// library: a caller hands that in, so that tests can put a model of it in its place.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda {

/// Where operands of a library's product begin: programs place tensors at multiples of 64 bytes.
inline constexpr std::uint32_t operand_alignment = 16;

/// What is done to the elements of a product of (rows, columns) before they are stored:
///   bias            out = product + bias[column]
///   bias_gelu       aux = product + bias[column], which is stored too; out = gelu(aux)
///   gelu_gradient   out = product * dGelu(aux)
/// GELU is that of op::Gelu. aux lies as out does, and is read and written in its type.
enum class Epilogue : std::uint8_t { none, bias, bias_gelu, gelu_gradient };

/// Operands of the epilogue, null where it has none.
struct EpilogueMemory {
  void *bias = nullptr, *aux = nullptr;
};

/// A product ready to be enqueued.
using Multiply = std::function<void(const void* a, const void* b, void* out, const EpilogueMemory&,
                                    Workspace, Stream)>;
/// Gives that of a problem whose op is the product; nothing where the library has no algorithm with
/// the epilogue. It has one without for every product.
using PrepareMultiply = std::function<std::optional<Multiply>(const Problem&, Epilogue)>;

/// What becomes of a row: numbers are those of its operands.
struct ProductPlan {
  Epilogue epilogue = Epilogue::none;
  std::size_t out = 2;
  std::optional<std::size_t> bias = {}, aux = {};
  /// By own kernels, after the product.
  std::vector<op::Piece> rest = {};
};

/// As much as possible in the epilogue. Conditions are those of the header cublasLt.h: rows of aux
/// have a multiple of 8 elements, and bias and aux the type of out. GELU in bf16 alone: NVIDIA does
/// not say how exact the epilogue's tanh is, and bf16 rounds to 2^-9, which hides the error of a
/// GPU's fastest one (2^-11); float32 hides nothing. No gradient of a GELU where a bias wants its
/// sums: an own kernel that sums reads the product faster than the epilogue computes.
ProductPlan plan_with_epilogue(const Problem& problem);
/// Nothing in the epilogue.
ProductPlan plan_without_epilogue(const Problem& problem);

/// Products of a batch run one after another, by own kernels where some begin elsewhere than at
/// operand_alignment. Requires op::product_of(problem.op). Throws InternalError where `prepare` has
/// not even the product alone.
Enqueue prepare_product(const Problem& problem, const PrepareMultiply& prepare);
/// Bytes of its workspace, for a library that may want so many.
std::int64_t product_workspace_bytes(const Problem& problem, std::int64_t library_bytes);

}  // namespace fourfold::kernels::cuda
