#include "kernels/cpu/target.h"

#include <variant>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"

namespace fourfold::kernels::cpu {
namespace {

std::int64_t scratch_bytes(const std::string& implementation, const Problem& problem) {
  if (implementation == "vector")
    return std::visit([&](const auto& row) { return workspace_bytes(row, problem); }, problem.op);
  if (implementation == "onednn")
    return onednn::workspace_bytes(std::get<op::Matmul>(problem.op), problem);
  return 0;
}

/// A line for products of one layout whose n and k are small.
machine::Choice small_product(DType dtype, const std::string& layout, std::int64_t largest,
                              const std::string& implementation) {
  machine::Choice choice;
  choice.op = "matmul";
  choice.dtype = dtype;
  choice.layout = layout;
  choice.max_n = choice.max_k = largest;
  choice.implementation = implementation;
  return choice;
}

machine::Choice every(const std::string& op, const std::string& implementation) {
  machine::Choice choice;
  choice.op = op;
  choice.implementation = implementation;
  return choice;
}

}  // namespace

/// GFLOP/s on two Zen 3 cores, m = 768, n and k from {65, 128, 384, 512}; best of several runs on a
/// busy machine:
///   f32 nn: oneDNN 115-178, own loops 109-169, OpenBLAS 65-152;   nt: oneDNN 125-188, 136-165,
///   128-170 f32 tn (k = 768): OpenBLAS 157-175 where n >= 128, oneDNN 137-165, own loops 110-130
///   f64 nn, nt: own loops 66-87, OpenBLAS 29-56;                  tn: OpenBLAS 53-73, own loops
///   31-47
/// Beyond 512 OpenBLAS is as good as any (within 5 %, mean over GPT-2 124M's shapes).
machine::Target target(int threads) {
  return {.backend = "cpu",
          .threads = threads,
          .choices = {small_product(DType::f32, "nn", 512, "onednn"),
                      small_product(DType::f32, "nt", 512, "onednn"),
                      small_product(DType::f64, "nn", 512, "vector"),
                      small_product(DType::f64, "nt", 512, "vector"), every("matmul", "openblas"),
                      every("*", "vector")},
          .workspace_bytes = [threads](const std::string& implementation, const op::Op& op,
                                       op::Shapes all, DType dtype) {
            return scratch_bytes(implementation, {op, dtype, {all.begin(), all.end()}, threads});
          }};
}

machine::Target reference_target() {
  return {.backend = "cpu",
          .threads = 1,
          .choices = {every("*", "reference")},
          .workspace_bytes = [](const std::string&, const op::Op&, op::Shapes,
                                DType) -> std::int64_t { return 0; }};
}

}  // namespace fourfold::kernels::cpu
