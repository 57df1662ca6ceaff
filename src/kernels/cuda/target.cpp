#include "kernels/cuda/target.h"

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda {
namespace {

machine::Choice by(const std::string& op, std::optional<DType> dtype,
                   const std::string& implementation) {
  machine::Choice choice;
  choice.op = op;
  choice.dtype = dtype;
  choice.implementation = implementation;
  return choice;
}

std::int64_t bytes_for(const std::string& implementation, const op::Op& op, op::Shapes all,
                       DType dtype) {
  if (implementation != "own") return cublaslt::workspace_bytes;
  return own_workspace_bytes({op, dtype, {all.begin(), all.end()}, 1});
}

machine::Target with_choices(std::vector<machine::Choice> choices) {
  return {.backend = "cuda",
          .threads = 1,
          .choices = std::move(choices),
          .workspace_bytes = bytes_for,
          .fusions = {"adamw_list", "bias_gelu", "add_layer_norm", "add_layer_norm_gradient",
                      "cross_entropy_both"}};
}

}  // namespace

machine::Target target(FloatProducts products) {
  const std::string of_floats = products == FloatProducts::tf32 ? "cublaslt_tf32" : "cublaslt";
  return with_choices({by("matmul", DType::f32, of_floats), by("matmul", DType::bf16, "cublaslt"),
                       by("*", std::nullopt, "own")});
}

machine::Target own_target() {
  return with_choices({by("*", std::nullopt, "own")});
}

}  // namespace fourfold::kernels::cuda
