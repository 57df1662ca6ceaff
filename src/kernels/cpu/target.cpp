#include "kernels/cpu/target.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "kernels/cpu/attention_products.h"
#include "kernels/cpu/libraries.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/openblas.h"
#include "kernels/cpu/winograd.h"
#include "kernels/fused_rows.h"

namespace fourfold::kernels::cpu {
namespace {

/// A line for products of one layout with m, n and k up to these.
machine::Choice product(DType dtype, const std::string& layout, std::int64_t largest_m,
                        std::int64_t largest_n, std::int64_t largest_k,
                        const std::string& implementation) {
  machine::Choice choice;
  choice.op = "contract";
  choice.dtype = dtype;
  choice.layout = layout;
  choice.max_m = largest_m;
  choice.max_n = largest_n;
  choice.max_k = largest_k;
  choice.implementation = implementation;
  return choice;
}

machine::Choice every(const std::string& op, const std::string& implementation) {
  machine::Choice choice;
  choice.op = op;
  choice.implementation = implementation;
  return choice;
}

/// Convolutions in f32; those in f64 are own loops. GFLOP/s of y, x_grad and weight_grad on two Zen
/// 4 cores with AVX-512, counted as those of the direct sum, 8 pictures, kernel 3 x 3, best of 12:
///   32 x 32, 64 to 64:     Winograd 333, 375, 452, oneDNN 218 at best
///   16 x 16, 128 to 128:   Winograd 539, 530, 560, oneDNN 244, 248, 240
///   8 x 8, 256 to 128:     Winograd 379, 358, 485, oneDNN 260, 269, 242
///   4 x 4, 256 to 256:     Winograd 218, 198, 239, oneDNN 255, 288, 187: too few tiles
///   32 x 32, 16 to 16:     Winograd 229, 229, 193, oneDNN 225, 238, 233: too few channels
/// And of the others, with 32 pictures, best of several runs on a busy machine:
///   32 x 32, 3 to 64:      oneDNN 242, 50, 118, own loops 39, 8, 33
///   32 x 32, 64 to 64:     oneDNN 146, 110, 110, own loops 78, 62, 25
///   8 x 8, 256 to 256:     oneDNN 172, 217, 126, own loops 78, 79, 44
///   2 x 2, 512 to 512:     oneDNN 63, 165, 54, own loops 92, 66, 41: weights are most of the bytes
std::vector<machine::Choice> float_convolutions() {
  std::vector<machine::Choice> choices;
  for (const op::Op& row : op::all_rows()) {
    if (op::product_of(row) || !onednn::computes(row, DType::f32)) continue;
    for (const char* implementation : {"winograd", "onednn"}) {  // the first that fits
      choices.push_back(every(std::string(op::name(row)), implementation));
      choices.back().dtype = DType::f32;
    }
  }
  return choices;
}

constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();

/// With AVX-512. GFLOP/s on one Zen 4 core, best of many calls:
///   m 768, n and k 65-512:       nn oneDNN 94-117, OpenBLAS 95-105, own loops 87-110
///                                nt 92-115, 94-105, 80-98;   tn (k 768) 111-116, 102-104, 93-105
///   m 256-1024, GPT-2 124M's:    nn 104-108, 94-103, 79-88;  nt 103-107, 93-100, 67-69
///                                tn 103-109, 99-103, 71-85
/// On two cores, tn of 50304 x 768: with k 256 oneDNN 210, OpenBLAS 175, own loops 137; with k 1024
/// 209, 199 and 157.
std::vector<machine::Choice> float_products_avx512() {
  return {product(DType::f32, "nn", any, any, any, "onednn"),
          product(DType::f32, "nt", any, any, any, "onednn"),
          product(DType::f32, "tn", any, any, any, "onednn")};
}

/// With AVX2. GFLOP/s on two Zen 3 cores, operands from memory, all in turn call by call:
///   m 512-1024, n and k 128-1024: nn own loops 108-146, oneDNN 96-137, OpenBLAS 77-124
///                                 nt 113-144, 109-140, 78-120
///   tn of 512-1024 tokens:        own loops 108-152, oneDNN 59-139, OpenBLAS 88-137
///   m 2048, n and k 384-1536:     nn and nt oneDNN 143-163, own loops 137-155, OpenBLAS 134-136
/// The shapes of an output layer are within 10 %.
std::vector<machine::Choice> float_products_avx2() {
  std::vector<machine::Choice> choices;
  for (const char* layout : {"nn", "nt"}) {
    choices.push_back(product(DType::f32, layout, 1024, 1536, 1536, "vector"));
    choices.push_back(product(DType::f32, layout, any, 1536, 1536, "onednn"));
  }
  choices.push_back(product(DType::f32, "tn", 4096, 4096, 1024, "vector"));
  return choices;
}

/// The same machine, m = 768, n and k from {65, 128, 384, 512}: own loops 66-87 and OpenBLAS 29-56
/// in nn and nt; 31-47 and 53-73 in tn.
std::vector<machine::Choice> double_products() {
  return {product(DType::f64, "nn", any, 512, 512, "vector"),
          product(DType::f64, "nt", any, 512, 512, "vector")};
}

/// In bf16, where the CPU has products of that type, oneDNN's; elsewhere all computes in f32, from
/// copies, by what is best there.
std::vector<machine::Choice> bf16_rows(std::vector<machine::Choice> float_products) {
  std::vector<machine::Choice> choices;
  for (const op::Op& row : op::all_rows())
    if (attention_products::computes(row, DType::bf16) ||
        (onednn::computes(row, DType::f32) && (onednn::has_bf16() || !op::product_of(row))))
      choices.push_back(every(std::string(op::name(row)), "onednn"));
  if (!onednn::has_bf16())
    choices.insert(choices.end(), float_products.begin(), float_products.end());
  for (machine::Choice& choice : choices) choice.dtype = DType::bf16;
  return choices;
}

bool has_avx512() {
  const std::vector<std::string> sets = instruction_sets();
  return std::find(sets.begin(), sets.end(), "avx512f") != sets.end();
}

}  // namespace

machine::Target target(int threads, std::vector<machine::Choice> measured) {
  std::vector<machine::Choice> choices = std::move(measured);
  const std::vector<machine::Choice> float_products =
      has_avx512() ? float_products_avx512() : float_products_avx2();
  for (const auto& built_in :
       {float_products, double_products(), float_convolutions(), bf16_rows(float_products),
        std::vector{every("contract", "openblas"), every("*", "vector")}})
    choices.insert(choices.end(), built_in.begin(), built_in.end());
  std::vector<std::string> fusions = op::names_of_update_lists();
  fusions.insert(fusions.end(), {"moving_average_list", "squared_norm"});
  fusions.insert(fusions.end(), row_chains.begin(), row_chains.end());
  return {.backend = "cpu",
          .threads = threads,
          .choices = std::move(choices),
          .workspace_bytes =
              [threads](const std::string& implementation, const op::Op& op, op::Shapes all,
                        DType dtype) {
                return cpu::workspace_bytes(implementation,
                                            {op, dtype, {all.begin(), all.end()}, threads});
              },
          .fits =
              [](const std::string& implementation, const op::Op& op, op::Shapes all, DType dtype) {
                return implementation != "winograd" || winograd::computes(op, all, dtype);
              },
          .fusions = std::move(fusions)};
}

std::vector<std::string> contract_libraries(DType dtype) {
  if (dtype == DType::bf16 && onednn::has_bf16()) return {"onednn"};
  std::vector<std::string> names;
  names.emplace_back(openblas::implementation);
  if (dtype != DType::f64) names.emplace_back("onednn");
  if (dtype == DType::f32) names.emplace_back("onednn_sgemm");
  return names;
}

std::vector<std::string> contract_implementations(DType dtype) {
  std::vector<std::string> names = contract_libraries(dtype);
  names.emplace_back("vector");
  return names;
}

std::vector<std::string> implementations(const std::string& row, DType dtype) {
  for (const op::Op& known : op::all_rows()) {
    if (op::name(known) != row) continue;
    if (op::product_of(known)) return contract_implementations(dtype);
    if (attention_products::computes(known, dtype)) return {"onednn", "vector"};
    if (dtype != DType::f64 && onednn::computes(known, DType::f32))
      return dtype == DType::bf16 ? std::vector<std::string>{"onednn", "vector"}
                                  : std::vector<std::string>{"winograd", "onednn", "vector"};
  }
  return {"vector"};
}

std::vector<std::string> implementations(const Problem& problem) {
  if (problem.op.is<op::Contract>()) return contract_implementations(problem.dtype);
  if (attention_products::computes(problem.op, problem.dtype)) return {"onednn", "vector"};
  if (winograd::computes(problem.op, problem.shapes, problem.dtype))
    return {"winograd", "onednn", "vector"};
  if (problem.dtype != DType::f64 && onednn::computes(problem.op, DType::f32))
    return {"onednn", "vector"};
  return {"vector"};
}

machine::Target reference_target() {
  return {.backend = "cpu",
          .threads = 1,
          .choices = {every("*", "reference")},
          .workspace_bytes = [](const std::string&, const op::Op&, op::Shapes,
                                DType) -> std::int64_t { return 0; }};
}

}  // namespace fourfold::kernels::cpu
