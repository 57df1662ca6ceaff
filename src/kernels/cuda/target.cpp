#include "kernels/cuda/target.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "kernels/cuda/attention_tiling.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cudnn_convolution.h"
#include "kernels/cuda/kernels.h"
#include "kernels/fused_rows.h"
#include "kernels/norm_chains.h"

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
  const Problem problem{op, dtype, {all.begin(), all.end()}, 1};
  if (implementation == "own") return own_workspace_bytes(problem);
  if (is_convolution(op)) {
    if (const auto method = cudnn::convolution_method_of(implementation))
      return cudnn::workspace_bytes(problem, *method);
    return cublaslt::workspace_bytes(product_of_convolution(problem).value().problem);
  }
  const auto order = cudnn::order_of(implementation);
  return order ? cudnn::workspace_bytes(problem, *order) : cublaslt::workspace_bytes(problem);
}

/// Which of cuDNN's kernels a target may have.
std::vector<std::string> cudnn_names(AttentionBy attention) {
  if (attention == AttentionBy::own || !cudnn::is_built()) return {};
  if (attention == AttentionBy::cudnn) return {"cudnn"};
  return {"cudnn_fast", "cudnn"};
}

/// Likewise of those of a convolution, given the names of the kernels' orders: all but the names of
/// other candidates.
std::vector<std::string> cudnn_convolutions(const std::vector<std::string>& orders, DType dtype,
                                            FloatProducts products) {
  std::vector<std::string> names;
  if (!orders.empty() && dtype == DType::bf16) names.emplace_back("cudnn_widened");
  const bool is_tf32 = dtype == DType::f32 && products == FloatProducts::tf32;
  for (const std::string& order : orders)
    names.push_back(format("cudnn{}{}", is_tf32 ? "_tf32" : "", order == "cudnn" ? "" : "_fast"));
  return names;
}

bool computes_convolution(AttentionBy by, const std::string& implementation,
                          const Problem& problem) {
  if (implementation == "own") return true;
  if (cublaslt::method_of(implementation)) return product_of_convolution(problem).has_value();
  const auto method = cudnn::convolution_method_of(implementation);
  if (!method || by == AttentionBy::own || !cudnn::is_built()) return false;
  return (method->order == cudnn::Order::fixed || by == AttentionBy::cudnn_fast) &&
         cudnn::computes(problem, *method);
}

/// True for what is not cuDNN's.
bool computes(AttentionBy attention, const std::string& implementation, const Problem& problem) {
  if (is_convolution(problem.op)) return computes_convolution(attention, implementation, problem);
  const auto order = cudnn::order_of(implementation);
  if (!order) return true;
  const std::vector<std::string> names = cudnn_names(attention);
  return std::ranges::find(names, implementation) != names.end() &&
         cudnn::computes(problem, *order);
}

/// Chains with a product that cuBLASLt computes in one go.
const std::vector<std::string> product_chains = {"contract+add_bias&gelu",
                                                 "contract+gelu_gradient&bias_gradient",
                                                 "contract+gelu_gradient", "contract+add_bias"};

const std::vector<std::string> convolution_rows = {
    "convolution+add_bias", "convolution", "convolution_gradient", "convolution_weight_gradient"};

/// What becomes one instruction by own kernels, but chains with a product.
std::vector<std::string> own_fusions() {
  std::vector<std::string> all = op::names_of_update_lists();
  all.insert(all.end(), {"moving_average_list", "cast_list", "squared_norm"});
  all.insert(all.end(), norm_gradient_chains.begin(), norm_gradient_chains.end());
  all.insert(all.end(), row_chains.begin(), row_chains.end());
  all.insert(all.end(), norm_chains.begin(), norm_chains.end());
  all.emplace_back("group_norm_sums");  // and what compile/fuse_norms.h puts around it
  return all;
}
/// With products and convolutions of libraries. A bias belongs to the norm after it, where there is
/// one, and then to the product before it.
std::vector<std::string> library_fusions() {
  std::vector<std::string> all = own_fusions();
  const auto first = std::ranges::find(all, row_chains.front());
  all.insert(first, product_chains.begin(), product_chains.end() - 1);
  all.push_back(product_chains.back());
  all.push_back(convolution_rows.front());
  return all;
}

/// Own convolutions add their bias, so that a norm after them reads alone; own products add the
/// biases that no chain of rows takes.
std::vector<std::string> own_fusions_with_products() {
  std::vector<std::string> all = own_fusions();
  all.insert(std::ranges::find(all, norm_chains.front()), convolution_rows.front());
  all.push_back(product_chains.back());
  return all;
}

machine::Target with_choices(std::vector<machine::Choice> choices, std::vector<std::string> fusions,
                             AttentionBy attention) {
  return {.backend = "cuda",
          .threads = 1,
          .choices = std::move(choices),
          .workspace_bytes = bytes_for,
          .fits =
              [attention](const std::string& implementation, const op::Op& op, op::Shapes all,
                          DType dtype) {
                return computes(attention, implementation,
                                {op, dtype, {all.begin(), all.end()}, 1});
              },
          .fusions = std::move(fusions),
          .repeated = {repeated_norm_rows.begin(), repeated_norm_rows.end()},
          .repeated_for = {readers_of_repeated_norms.begin(), readers_of_repeated_norms.end()},
          .most_head_width = most_head_width};
}

std::string library_product(DType dtype, FloatProducts products) {
  return dtype == DType::f32 && products == FloatProducts::tf32 ? "cublaslt_tf32" : "cublaslt";
}

/// `library` and its other candidates.
void add_candidates(const std::string& library, int count, std::vector<std::string>& names) {
  for (int i = 0; i < count; ++i) names.push_back(i == 0 ? library : format("{}/{}", library, i));
}

}  // namespace

machine::Target target(FloatProducts products, AttentionBy attention,
                       std::vector<machine::Choice> measured) {
  std::vector<machine::Choice> choices = measured;
  std::vector<std::string> rows = product_chains;
  rows.emplace_back("contract");
  for (const std::string& row : rows)
    for (const DType dtype : {DType::f32, DType::bf16})
      choices.push_back(by(row, dtype, library_product(dtype, products)));
  for (const std::string& name : cudnn_names(attention))
    for (const char* row : {"attention", "attention_gradient"})
      choices.push_back(by(row, DType::bf16, name));
  for (const std::string& row : convolution_rows)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const std::string& name : cudnn_convolutions(cudnn_names(attention), dtype, products))
        choices.push_back(by(row, dtype, name));
      choices.push_back(by(row, dtype, library_product(dtype, products)));
    }
  choices.push_back(by("*", std::nullopt, "own"));
  machine::Target made = with_choices(std::move(choices), library_fusions(), attention);
  made.workspace_bytes = [measured = std::move(measured)](const std::string& implementation,
                                                          const op::Op& op, op::Shapes all,
                                                          DType dtype) {
    const auto bytes = machine::measured_workspace(measured, implementation, op, all, dtype);
    return bytes ? *bytes : bytes_for(implementation, op, all, dtype);
  };
  return made;
}

machine::Target own_target() {
  return with_choices({by("*", std::nullopt, "own")}, own_fusions_with_products(),
                      AttentionBy::own);
}

std::vector<std::string> implementations(const Problem& problem, FloatProducts products,
                                         AttentionBy attention) {
  std::vector<std::string> names;
  const bool is_of_pictures = is_convolution(problem.op);
  if (is_of_pictures)
    for (const std::string& name :
         cudnn_convolutions(cudnn_names(attention), problem.dtype, products))
      if (computes(attention, name, problem))
        add_candidates(name, cudnn::count_candidates(problem, *cudnn::convolution_method_of(name)),
                       names);
  const auto product = product_of_convolution(problem);
  if (product || op::product_of(problem.op)) {
    const std::string library = library_product(problem.dtype, products);
    add_candidates(library,
                   cublaslt::count_candidates(product ? product->problem : problem,
                                              cublaslt::method_of(library)->precision),
                   names);
  }
  if (!is_of_pictures)
    for (const std::string& name : cudnn_names(attention))
      if (computes(attention, name, problem)) names.push_back(name);
  if (products == FloatProducts::full || problem.dtype != DType::f32 ||
      (!is_of_pictures && !op::product_of(problem.op)))
    names.emplace_back("own");
  return names;
}

std::int64_t needed_workspace_bytes(const std::string& implementation, const Problem& problem) {
  if (const auto method = cublaslt::method_of(implementation)) {
    const auto product = product_of_convolution(problem);
    return cublaslt::needed_workspace_bytes(product ? product->problem : problem, *method);
  }
  return bytes_for(implementation, problem.op, problem.shapes, problem.dtype);
}

std::vector<std::string> known_implementations(const std::string& row, DType dtype) {
  if (row == "attention") return {"own", "cudnn"};
  if (row == "attention_gradient") return {"own", "cudnn", "cudnn_fast"};
  const bool is_of_pictures = std::ranges::find(convolution_rows, row) != convolution_rows.end();
  if (!is_of_pictures && row != "contract" &&
      std::ranges::find(product_chains, row) == product_chains.end())
    return {};
  std::vector<std::string> names = {"own"};
  const bool is_f32 = dtype == DType::f32;
  if (is_of_pictures)
    for (const FloatProducts products : {FloatProducts::full, FloatProducts::tf32}) {
      if (products == FloatProducts::tf32 && !is_f32) continue;
      for (const std::string& library :
           cudnn_convolutions({"cudnn_fast", "cudnn"}, dtype, products))
        add_candidates(library, cudnn::max_convolution_candidates, names);
    }
  for (const char* library : {"cublaslt", "cublaslt_tf32"})
    if (is_f32 || library == std::string("cublaslt"))
      add_candidates(library, cublaslt::max_candidates, names);
  return names;
}

}  // namespace fourfold::kernels::cuda
