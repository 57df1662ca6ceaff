// Products with what follows them, by a model of the library (support/model_cublaslt.h). Also where
// attention's operands lie for another library.
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/cuda/attention_format.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/fused_product.h"
#include "kernels/cuda/library_workspace.h"
#include "kernels/cuda/target.h"
#include "numerics/harness.h"
#include "support/chains.h"
#include "support/model_cublaslt.h"

namespace fourfold::numerics {
namespace {

using kernels::Problem;
using kernels::cuda::Epilogue;
using kernels::cuda::cudnn::Order;

Kernels by_model(test::Epilogues epilogues) {
  return {[=](const Problem& problem) -> kernels::Run {
            return
                [run = kernels::cuda::prepare_product(problem, test::model_of_cublaslt(epilogues))](
                    kernels::Tensors operands, kernels::Workspace workspace) {
                  run(operands, workspace, nullptr);
                };
          },
          [](const Problem& problem) {
            return kernels::cuda::product_workspace_bytes(problem, test::model_workspace_bytes);
          }};
}

TEST(CudaEmulatedProducts, with_and_without_epilogues_are_within_the_bound_of_the_reference) {
  const Kernels with = by_model(test::Epilogues::some), without = by_model(test::Epilogues::none);
  for (const Case& sample : fused_product_cases()) {
    if (!op::product_of(sample.op)) continue;  // a chain of a convolution
    for (const Kernels* source : {&with, &without}) {
      expect_within_bound(sample, {"model", DType::f32, 1, source});
      if (is_bounded_in_bf16(sample.op))
        expect_within_bound(sample, {"model", DType::bf16, 1, source});
    }
  }
}

TEST(CudaEmulatedProducts, of_a_batch_run_one_after_another_by_the_library_where_they_are_aligned) {
  const Kernels model = by_model(test::Epilogues::some);
  for (const std::int64_t k : {8, 5}) {
    const Case sample{"batch",
                      op::Contract{.transpose_b = true, .batch = 2},
                      {uniform({2, 3, 4, k}, "a"), uniform({2, 3, 8, k}, "b")},
                      {},
                      static_cast<double>(k)};
    for (const DType dtype : {DType::f32, DType::bf16})
      expect_within_bound(sample, {"model", dtype, 1, &model});
    std::size_t calls = 0;
    const auto counting = [&](const Problem&, Epilogue) {
      return kernels::cuda::Multiply([&](const void*, const void*, void*,
                                         const kernels::cuda::EpilogueMemory&, kernels::Workspace,
                                         kernels::cuda::Stream) { ++calls; });
    };
    std::vector<float> a(192), b(384), out(192);
    const Shape shapes[] = {{2, 3, 4, k}, {2, 3, 8, k}, {2, 3, 4, 8}};
    const kernels::Tensor tensors[] = {{a.data(), shapes[0], DType::bf16},
                                       {b.data(), shapes[1], DType::bf16},
                                       {out.data(), shapes[2], DType::bf16}};
    kernels::cuda::prepare_product({sample.op, DType::bf16, {shapes[0], shapes[1], shapes[2]}, 1},
                                   counting)(tensors, {}, nullptr);
    EXPECT_EQ(calls, k == 8 ? 6U : 0U) << "4 rows of 5 numbers in bf16 are 40 bytes";
  }
}

Problem problem_of(const op::Op& op, std::vector<Shape> reads, DType dtype = DType::f32) {
  for (const Shape& shape : op::outputs(op, std::vector(reads))) reads.push_back(shape);
  return {op, dtype, reads, 1};
}

TEST(CudaEmulatedProducts, leave_to_the_library_all_that_its_conditions_allow) {
  const auto epilogue_of = [](const op::Op& op, std::int64_t columns, DType dtype = DType::bf16) {
    const bool is_gradient = op::name(op).starts_with("contract+gelu_gradient");
    const Shape third = is_gradient ? Shape{4, columns} : Shape{columns};
    return kernels::cuda::plan_with_epilogue(problem_of(op, {{4, 3}, {3, columns}, third}, dtype));
  };
  EXPECT_EQ(epilogue_of(op::product_and_bias(), 7).epilogue, Epilogue::bias);
  EXPECT_EQ(epilogue_of(op::product_bias_gelu(), 16).epilogue, Epilogue::bias_gelu);
  EXPECT_EQ(epilogue_of(op::product_bias_gelu(), 12).epilogue, Epilogue::none);
  EXPECT_EQ(epilogue_of(op::product_bias_gelu(), 12).rest.size(), 1U);  // bias and GELU at once
  EXPECT_EQ(epilogue_of(op::product_gelu_gradient(), 16).epilogue, Epilogue::gelu_gradient);
  EXPECT_EQ(epilogue_of(op::product_gelu_gradient(), 15).rest.size(), 1U);
  const op::Op with_bias = op::product_gelu_gradient({}, op::BiasGradient{1, true});
  EXPECT_EQ(epilogue_of(with_bias, 16).epilogue, Epilogue::none);
  ASSERT_EQ(epilogue_of(with_bias, 16).rest.size(), 1U);
  EXPECT_EQ(op::name(epilogue_of(with_bias, 16).rest[0].op), "gelu_gradient&bias_gradient");
  EXPECT_EQ(epilogue_of(op::product_and_bias(), 7, DType::f32).epilogue, Epilogue::bias);
  for (const op::Op& gelu :
       {op::Op(op::product_bias_gelu()), op::Op(op::product_gelu_gradient()), with_bias}) {
    const kernels::cuda::ProductPlan plan = epilogue_of(gelu, 16, DType::f32);
    EXPECT_EQ(plan.epilogue, Epilogue::none) << op::name(gelu) << ": a tanh of unknown error";
    EXPECT_FALSE(plan.rest.empty());
  }
}

TEST(CudaEmulatedProducts, a_library_without_the_product_itself_is_a_bug) {
  EXPECT_THROW(
      kernels::cuda::prepare_product(
          problem_of(op::product_and_bias(), {{4, 3}, {3, 8}, {8}}),
          [](const Problem&, Epilogue) { return std::optional<kernels::cuda::Multiply>(); }),
      InternalError);
}

// --- attention

TEST(CudaEmulatedAttention, strides_lead_to_the_elements_that_the_op_names) {
  const Shape qkv{2, 5, 3, 4, 8};
  const kernels::cuda::AttentionFormat layout(qkv);
  const auto at = [](const std::array<std::int64_t, 4>& strides, std::int64_t b, std::int64_t h,
                     std::int64_t t, std::int64_t d) {
    return b * strides[0] + h * strides[1] + t * strides[2] + d * strides[3];
  };
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t t = 0; t < 5; ++t) {
        for (std::int64_t d = 0; d < 8; ++d) {
          for (std::int64_t part = 0; part < 3; ++part)
            EXPECT_EQ(layout.part_offset(part) + at(layout.qkv_strides(), b, h, t, d),
                      (((b * 5 + t) * 3 + part) * 4 + h) * 8 + d);
          EXPECT_EQ(at(layout.y_strides(), b, h, t, d), ((b * 5 + t) * 4 + h) * 8 + d);
        }
        EXPECT_EQ(at(layout.lse_strides(), b, h, t, 0), (b * 4 + h) * 5 + t);
      }
  EXPECT_EQ(layout.dims(), (std::array<std::int64_t, 4>{2, 4, 5, 8}));
  EXPECT_EQ(layout.lse_dims(), (std::array<std::int64_t, 4>{2, 4, 5, 1}));
}

TEST(CudaEmulatedAttention, is_asked_of_cudnn_in_bf16_without_dropout_documents_and_groups_alone) {
  const auto fits = [](const op::Attention& op, std::int64_t width, DType dtype) {
    return kernels::cuda::cudnn::attention_fits({op, dtype, {{2, 5, 3, 4, width}}, 1},
                                                Order::fixed);
  };
  EXPECT_TRUE(fits({}, 64, DType::bf16));
  EXPECT_TRUE(fits({}, 128, DType::bf16));
  EXPECT_FALSE(fits({}, 64, DType::f32));
  EXPECT_FALSE(fits({}, 60, DType::bf16));
  EXPECT_TRUE(fits({}, 256, DType::bf16));
  EXPECT_FALSE(fits({}, 264, DType::bf16));
  op::Attention drops, documents, of_all_tokens;
  of_all_tokens.causal = false;
  EXPECT_TRUE(fits(of_all_tokens, 64, DType::bf16));
  EXPECT_TRUE(fits(of_all_tokens, 208, DType::bf16));
  EXPECT_FALSE(fits(of_all_tokens, 384, DType::bf16));
  drops.rate = 0.1;
  documents.documents = true;
  EXPECT_FALSE(fits(drops, 64, DType::bf16));
  EXPECT_FALSE(fits(documents, 64, DType::bf16));
  EXPECT_FALSE(fits({.stream = {}, .window = {}, .grouped = true}, 64, DType::bf16));
  EXPECT_FALSE(
      kernels::cuda::cudnn::attention_fits({op::Gelu{}, DType::bf16, {{4}}, 1}, Order::fixed));
}

TEST(CudaEmulatedAttention, has_its_gradient_by_cudnn_where_the_workspace_stays_aligned) {
  const auto fits = [](std::int64_t batch, std::int64_t time, std::int64_t heads) {
    return kernels::cuda::cudnn::attention_fits(
        {op::AttentionGradient{}, DType::bf16, {{batch, time, 3, heads, 64}}, 1}, Order::any);
  };
  EXPECT_TRUE(fits(2, 5, 4));
  EXPECT_TRUE(fits(16, 1024, 12));
  EXPECT_TRUE(fits(1, 4, 1));
  EXPECT_FALSE(fits(1, 5, 1));
  EXPECT_FALSE(fits(2, 5, 3));
}

TEST(CudaEmulatedAttention, has_two_names_for_cudnn_of_which_one_is_for_the_gradient_alone) {
  using kernels::cuda::cudnn::order_of;
  EXPECT_EQ(order_of("cudnn"), Order::fixed);
  EXPECT_EQ(order_of("cudnn_fast"), Order::any);
  EXPECT_EQ(order_of("own"), std::nullopt);
  const Problem forward{op::Attention{}, DType::bf16, {{2, 4, 3, 4, 64}}, 1};
  EXPECT_TRUE(kernels::cuda::cudnn::attention_fits(forward, Order::fixed));
  EXPECT_FALSE(kernels::cuda::cudnn::attention_fits(forward, Order::any));
  const auto known = [](const char* row) {
    return kernels::cuda::known_implementations(row, DType::bf16);
  };
  EXPECT_EQ(known("attention"), (std::vector<std::string>{"own", "cudnn"}));
  EXPECT_EQ(known("attention_gradient"), (std::vector<std::string>{"own", "cudnn", "cudnn_fast"}));
}

TEST(CudaEmulatedAttention, has_kernels_of_any_order_only_where_they_are_asked_for) {
  using kernels::cuda::AttentionBy;
  using kernels::cuda::FloatProducts;
  using Names = std::vector<std::string>;
  const Shape qkv{2, 4, 3, 4, 64}, y{2, 4, 4, 64}, lse{2, 4, 4};
  const Problem forward{op::Attention{}, DType::bf16, {qkv, y, lse}, 1};
  const Problem gradient{op::AttentionGradient{}, DType::bf16, {qkv, y, lse, y, qkv}, 1};
  // A table that was measured where any order would do.
  const machine::Choice fast{
      .op = "attention_gradient", .dtype = DType::bf16, .implementation = "cudnn_fast"};
  for (const bool measured : {false, true}) {
    const auto chosen = [&](AttentionBy by, const Problem& problem) {
      const machine::Target target = kernels::cuda::target(
          FloatProducts::full, by, measured ? std::vector{fast} : std::vector<machine::Choice>());
      return machine::choose(target, problem.op, problem.shapes, problem.dtype);
    };
    EXPECT_EQ(chosen(AttentionBy::own, gradient), "own");
    EXPECT_EQ(chosen(AttentionBy::cudnn, gradient), "cudnn");
    EXPECT_EQ(chosen(AttentionBy::cudnn_fast, gradient), "cudnn_fast");
    EXPECT_EQ(chosen(AttentionBy::cudnn_fast, forward), "cudnn");
  }
  const auto names = [&](AttentionBy by) {
    return kernels::cuda::implementations(gradient, FloatProducts::full, by);
  };
  EXPECT_EQ(names(AttentionBy::own), (Names{"own"}));
  EXPECT_EQ(names(AttentionBy::cudnn), (Names{"cudnn", "own"}));
  EXPECT_EQ(names(AttentionBy::cudnn_fast), (Names{"cudnn_fast", "cudnn", "own"}));
}

TEST(CudaEmulatedAttention, of_pictures_is_cudnn_s_and_that_of_wide_heads_our_own) {
  using kernels::cuda::AttentionBy;
  const machine::Target target =
      kernels::cuda::target(kernels::cuda::FloatProducts::full, AttentionBy::cudnn);
  const auto chosen = [&](std::int64_t tokens, std::int64_t width) {
    const Shape qkv{2, tokens, 3, 4, width}, y{2, tokens, 4, width}, lse{2, 4, tokens};
    op::Attention forward;
    op::AttentionGradient gradient;
    forward.causal = gradient.causal = false;
    const std::vector<Shape> of_forward{qkv, y, lse}, of_gradient{qkv, y, lse, y, qkv};
    return std::pair(machine::choose(target, forward, of_forward, DType::bf16),
                     machine::choose(target, gradient, of_gradient, DType::bf16));
  };
  for (const std::int64_t tokens : {64, 256})
    for (const auto& [width, name] :
         {std::pair{64, "cudnn"}, {208, "cudnn"}, {256, "cudnn"}, {384, "own"}, {512, "own"}}) {
      EXPECT_EQ(chosen(tokens, width).first, name) << width;
      EXPECT_EQ(chosen(tokens, width).second, name) << width;
    }
  EXPECT_EQ(target.most_head_width, 512);
}

TEST(CudaEmulatedWorkspace, of_a_library_begins_at_256_bytes_and_has_what_it_asked_for) {
  using namespace kernels::cuda;
  std::vector<std::byte> memory(4096);
  const kernels::Workspace all(memory);
  for (const std::int64_t bytes : {1, 64, 1024, 3000})
    for (std::size_t begin = 0; begin < 300; begin += 4) {
      const auto room = static_cast<std::size_t>(room_for_library(bytes));
      const kernels::Workspace part = library_part(all.subspan(begin, room));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part.data()) % library_alignment, 0U);
      EXPECT_GE(part.size(), static_cast<std::size_t>(bytes));
      EXPECT_LE(part.data() + part.size(), memory.data() + begin + room);
    }
  EXPECT_EQ(room_for_library(0), 0);
  EXPECT_TRUE(library_part({}).empty());
}

}  // namespace
}  // namespace fourfold::numerics
