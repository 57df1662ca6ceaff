// Convolutions by a library, which is a model (support/model_convolution.h): what it is asked for,
// what own kernels do besides, and which implementation a target chooses.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cudnn_convolution.h"
#include "kernels/cuda/target.h"
#include "numerics/cuda/all_convolutions.h"
#include "numerics/harness.h"
#include "support/model_convolution.h"

namespace fourfold::numerics {
namespace {

using kernels::Problem;
using kernels::cuda::AttentionBy;
using kernels::cuda::ConvolutionForm;
using kernels::cuda::ConvolutionInput;
using kernels::cuda::FindConvolution;
using kernels::cuda::FloatProducts;
using kernels::cuda::LibraryConvolution;
using kernels::cuda::cudnn::ConvolutionMethod;
using kernels::cuda::cudnn::Order;
using Names = std::vector<std::string>;

kernels::Run run_of(const kernels::cuda::Enqueue& enqueue) {
  return [enqueue](kernels::Tensors operands, kernels::Workspace workspace) {
    enqueue(operands, workspace, nullptr);
  };
}

/// What is no convolution is computed by own kernels.
Kernels by_library(ConvolutionInput input, const FindConvolution& find) {
  return {[=](const Problem& problem) {
            return run_of(kernels::cuda::is_convolution(problem.op)
                              ? kernels::cuda::prepare_convolution(problem, input, find)
                              : kernels::cuda::prepare_own(problem));
          },
          [=](const Problem& problem) {
            return kernels::cuda::is_convolution(problem.op)
                       ? kernels::cuda::convolution_workspace_bytes(problem, input, find)
                       : kernels::cuda::own_workspace_bytes(problem);
          }};
}

Kernels by_name(const std::string& name) {
  return {
      [=](const Problem& problem) { return run_of(kernels::cuda::prepare(name, problem)); },
      [=](const Problem& problem) { return kernels::cuda::needed_workspace_bytes(name, problem); }};
}

Problem problem_of(const Case& sample, DType dtype) {
  Problem problem{sample.op, dtype, {}, 1};
  for (const Array& read : sample.reads) problem.shapes.push_back(read.shape);
  for (const Shape& output : op::outputs(sample.op, problem.shapes))
    problem.shapes.push_back(output);
  return problem;
}

void expect_sound(const Case& sample, DType dtype, const std::string& name, const Kernels& source) {
  const Backend backend{name, dtype, 1, &source};
  expect_within_bound(sample, backend);
  EXPECT_EQ(apply(sample.op, backend, sample.reads, sample.updates).bytes,
            apply(sample.op, backend, sample.reads, sample.updates).bytes)
      << sample.name << " by " << name;
}

TEST(CudaEmulatedConvolutions, by_a_library_are_within_the_bound_of_the_reference) {
  for (const test::ModelledConvolutions which :
       {test::ModelledConvolutions{}, test::ModelledConvolutions{.with_bias = false}}) {
    const Kernels library =
        by_library(ConvolutionInput::as_stored, test::model_of_convolutions(which));
    for (const Case& sample : all_convolutions())
      for (const DType dtype : {DType::f32, DType::bf16}) {
        // A bias that an own kernel adds meets a sum that was rounded.
        if (!which.with_bias && dtype == DType::bf16 && sample.name.ends_with("with a bias"))
          continue;
        expect_sound(sample, dtype, "a library", library);
      }
  }
}

TEST(CudaEmulatedConvolutions, that_a_library_adds_no_bias_to_get_it_by_the_own_kernel) {
  const Kernels library =
      by_library(ConvolutionInput::as_stored, test::model_of_convolutions({.with_bias = false}));
  for (const Case& sample : all_convolutions()) {
    if (!sample.name.ends_with("with a bias")) continue;
    const Backend backend{"a library", DType::bf16, 1, &library};
    EXPECT_EQ(apply(sample.op, backend, sample.reads).bytes, of_pieces(sample, backend).bytes)
        << sample.name;
  }
}

TEST(CudaEmulatedConvolutions, widened_give_f32_of_bf16_by_a_library_that_has_one_type_alone) {
  const FindConvolution find = test::model_of_convolutions({.f32_of_bf16 = false});
  const Kernels library = by_library(ConvolutionInput::widened, find);
  int widened = 0;
  for (const Case& sample : all_convolutions()) {
    const auto* gradient = sample.op.get_if<op::ConvolutionWeightGradient>();
    const bool sums = gradient != nullptr && (gradient->unrounded || gradient->accumulate);
    const auto has = [&](DType dtype, ConvolutionInput input) {
      return kernels::cuda::has_convolution(problem_of(sample, dtype), input, find);
    };
    EXPECT_EQ(has(DType::bf16, ConvolutionInput::as_stored), !sums) << sample.name;
    EXPECT_EQ(has(DType::bf16, ConvolutionInput::widened), sums) << sample.name;
    EXPECT_TRUE(has(DType::f32, ConvolutionInput::as_stored)) << sample.name;
    EXPECT_FALSE(has(DType::f32, ConvolutionInput::widened)) << sample.name;
    if (!sums) continue;
    expect_sound(sample, DType::bf16, "a library of widened operands", library);
    ++widened;
  }
  EXPECT_GT(widened, 0);
}

TEST(CudaEmulatedConvolutions, add_to_rounded_sums_too_and_round_once) {
  Case sample{"adding in bf16",
              op::ConvolutionWeightGradient{3, 3, 1, 1, true, false},
              {uniform({2, 6, 5, 8}, "x"), uniform({2, 6, 5, 16}, "y_grad")},
              {uniform({16, 3, 3, 8}, "old")},
              60};
  for (const ConvolutionInput input : {ConvolutionInput::as_stored, ConvolutionInput::widened})
    expect_sound(sample, DType::bf16, "a library",
                 by_library(input, test::model_of_convolutions({})));
}

TEST(CudaEmulatedConvolutions, that_no_library_has_are_a_bug_to_prepare) {
  const FindConvolution none = [](const ConvolutionForm&) {
    return std::optional<LibraryConvolution>();
  };
  const Problem problem = problem_of(convolution_cases()[0], DType::f32);
  EXPECT_FALSE(kernels::cuda::has_convolution(problem, ConvolutionInput::as_stored, none));
  EXPECT_THROW(kernels::cuda::prepare_convolution(problem, ConvolutionInput::as_stored, none),
               InternalError);
  const Problem other{op::Gelu{}, DType::f32, {{4}, {4}}, 1};
  EXPECT_FALSE(kernels::cuda::has_convolution(other, ConvolutionInput::as_stored,
                                              test::model_of_convolutions({})));
}

TEST(CudaEmulatedConvolutions, of_one_by_one_are_products_within_the_bound) {
  int products = 0;
  const Kernels product = by_name("cublaslt/1");
  for (const Case& sample : all_convolutions()) {
    const bool is_product =
        kernels::cuda::product_of_convolution(problem_of(sample, DType::f32)).has_value();
    EXPECT_EQ(is_product, sample.name.find("by 1x1 stride 1 padding 0") != std::string::npos)
        << sample.name;
    if (!is_product) continue;
    for (const DType dtype : {DType::f32, DType::bf16})
      expect_sound(sample, dtype, "cublaslt/1", product);
    ++products;
  }
  EXPECT_EQ(products, 2 * 5) << "two sizes: forward, with a bias, and three gradients";
  const Case pooled{"", op::Gelu{}, {uniform({4}, "x")}};
  EXPECT_EQ(kernels::cuda::product_of_convolution(problem_of(pooled, DType::f32)), std::nullopt);
}

TEST(CudaEmulatedConvolutions, have_names_for_precision_input_order_and_candidate) {
  using kernels::cuda::cublaslt::Precision;
  using kernels::cuda::cudnn::convolution_method_of;
  const auto is = [](const char* name, const ConvolutionMethod& method) {
    return convolution_method_of(name) == std::optional(method);
  };
  EXPECT_TRUE(is("cudnn", {}));
  EXPECT_TRUE(is("cudnn/3", {.candidate = 3}));
  EXPECT_TRUE(is("cudnn_fast/4", {.order = Order::any, .candidate = 4}));
  EXPECT_TRUE(is("cudnn_tf32", {.precision = Precision::tf32}));
  EXPECT_TRUE(is("cudnn_tf32_fast", {.precision = Precision::tf32, .order = Order::any}));
  EXPECT_TRUE(
      is("cudnn_widened/1",
         {.precision = Precision::tf32, .input = ConvolutionInput::widened, .candidate = 1}));
  for (const char* name :
       {"own", "cublaslt", "cudnn/0", "cudnn/5", "cudnn/10", "cudnn_", "cudnn_slow"})
    EXPECT_EQ(convolution_method_of(name), std::nullopt) << name;
}

/// A convolution of 3 x 3 in bf16, of 1 x 1, and the gradient of a weight.
struct Problems {
  Shape x{2, 8, 8, 16}, y{2, 8, 8, 32}, weight{32, 3, 3, 16}, small{32, 1, 1, 16};
  Problem wide{op::Convolution{1, 1}, DType::bf16, {x, weight, y}, 1};
  Problem narrow{op::Convolution{1, 0}, DType::bf16, {x, small, y}, 1};
  Problem gradient{
      op::ConvolutionWeightGradient{3, 3, 1, 1, false, true}, DType::bf16, {x, y, weight}, 1};
};

TEST(CudaEmulatedConvolutions, are_cudnns_where_a_target_may_have_it_and_own_without_it) {
  const Problems problems;
  const auto chosen = [&](AttentionBy by, Problem problem, DType dtype = DType::bf16,
                          FloatProducts products = FloatProducts::full,
                          std::vector<machine::Choice> measured = {}) {
    return machine::choose(kernels::cuda::target(products, by, std::move(measured)), problem.op,
                           problem.shapes, dtype);
  };
  EXPECT_EQ(chosen(AttentionBy::own, problems.wide), "own");
  EXPECT_EQ(chosen(AttentionBy::own, problems.narrow), "cublaslt");
  EXPECT_EQ(chosen(AttentionBy::own, problems.narrow, DType::f32, FloatProducts::tf32),
            "cublaslt_tf32");
  for (const Problem& problem : {problems.wide, problems.narrow, problems.gradient}) {
    const bool is_widened = problem.op == problems.gradient.op;
    EXPECT_EQ(chosen(AttentionBy::cudnn, problem), is_widened ? "cudnn_widened" : "cudnn");
    EXPECT_EQ(chosen(AttentionBy::cudnn_fast, problem),
              is_widened ? "cudnn_widened" : "cudnn_fast");
    EXPECT_EQ(chosen(AttentionBy::cudnn, problem, DType::f32), "cudnn");
    EXPECT_EQ(chosen(AttentionBy::cudnn, problem, DType::f32, FloatProducts::tf32), "cudnn_tf32");
  }
  const machine::Choice fast{.op = "convolution",
                             .dtype = DType::bf16,
                             .implementation = "cudnn_fast/2",
                             .workspace_bytes = 77,
                             .shapes = problems.wide.shapes};
  EXPECT_EQ(chosen(AttentionBy::cudnn, problems.wide, DType::bf16, FloatProducts::full, {fast}),
            "cudnn");
  EXPECT_EQ(
      chosen(AttentionBy::cudnn_fast, problems.wide, DType::bf16, FloatProducts::full, {fast}),
      "cudnn_fast/2");
  EXPECT_EQ(
      chosen(AttentionBy::cudnn_fast, problems.narrow, DType::bf16, FloatProducts::full, {fast}),
      "cudnn_fast")
      << "of other shapes";
  const machine::Target target =
      kernels::cuda::target(FloatProducts::full, AttentionBy::cudnn_fast, {fast});
  EXPECT_EQ(
      target.workspace_bytes("cudnn_fast/2", problems.wide.op, problems.wide.shapes, DType::bf16),
      77);
  EXPECT_GE(target.workspace_bytes("cudnn", problems.wide.op, problems.wide.shapes, DType::bf16),
            test::model_convolution_bytes);
}

TEST(CudaEmulatedConvolutions, are_measured_with_all_that_compute_them_and_no_other) {
  const Problems problems;
  const auto names = [](const Problem& problem, AttentionBy by,
                        FloatProducts products = FloatProducts::full) {
    return kernels::cuda::implementations(problem, products, by);
  };
  EXPECT_EQ(names(problems.wide, AttentionBy::own), (Names{"own"}));
  EXPECT_EQ(names(problems.narrow, AttentionBy::own),
            (Names{"cublaslt", "cublaslt/1", "cublaslt/2", "own"}));
  EXPECT_EQ(names(problems.narrow, AttentionBy::cudnn),
            (Names{"cudnn", "cudnn/1", "cudnn/2", "cublaslt", "cublaslt/1", "cublaslt/2", "own"}));
  EXPECT_EQ(names(problems.gradient, AttentionBy::cudnn_fast),
            (Names{"cudnn_widened", "cudnn_widened/1", "cudnn_widened/2", "cudnn_fast",
                   "cudnn_fast/1", "cudnn_fast/2", "cudnn", "cudnn/1", "cudnn/2", "own"}));
  Problem large = problems.gradient;
  large.shapes = {{2, 8, 8, 512}, {2, 8, 8, 512}, {512, 3, 3, 512}};
  EXPECT_EQ(names(large, AttentionBy::cudnn), (Names{"cudnn", "cudnn/1", "cudnn/2", "own"}))
      << "144 tiles are blocks enough";
  Problem full = problems.wide;
  full.dtype = DType::f32;
  EXPECT_EQ(names(full, AttentionBy::cudnn, FloatProducts::tf32),
            (Names{"cudnn_tf32", "cudnn_tf32/1", "cudnn_tf32/2"}));
  for (const Problem& problem : {problems.wide, problems.narrow, problems.gradient, full})
    for (const std::string& name : names(problem, AttentionBy::cudnn_fast)) {
      const Names known =
          kernels::cuda::known_implementations(std::string(op::name(problem.op)), problem.dtype);
      EXPECT_NE(std::ranges::find(known, name), known.end()) << name;
      EXPECT_NO_THROW(kernels::cuda::prepare(name, problem)) << name;
    }
}

TEST(CudaEmulatedConvolutions, by_the_names_of_a_program_are_within_the_bound) {
  for (const Case& sample : all_convolutions())
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Problem problem = problem_of(sample, dtype);
      const std::string name =
          kernels::cuda::implementations(problem, FloatProducts::full, AttentionBy::cudnn)[0];
      const auto* gradient = sample.op.get_if<op::ConvolutionWeightGradient>();
      const bool is_widened = dtype == DType::bf16 && gradient != nullptr && gradient->unrounded;
      EXPECT_EQ(name, is_widened ? "cudnn_widened" : "cudnn") << sample.name;
      expect_sound(sample, dtype, name, by_name(name));
    }
}

}  // namespace
}  // namespace fourfold::numerics
