#include "kernels/cuda/fused_product.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "kernels/contract_sizes.h"
#include "kernels/cuda/library_workspace.h"
#include "kernels/run_pieces.h"

namespace fourfold::kernels::cuda {
namespace {

Problem product_problem(const Problem& whole) {
  const auto product = op::product_of(whole.op);
  require(product.has_value(), format("{} has a product", op::name(whole.op)));
  Problem alone{*product, whole.dtype, {whole.shapes[0], whole.shapes[1]}, whole.threads};
  alone.shapes.push_back(op::outputs(alone.op, alone.shapes)[0]);
  return alone;
}

ContractSizes sizes_of(const Problem& whole) {
  return contract_sizes(*op::product_of(whole.op), whole.shapes);
}

/// True if the library may compute the GELU of a chain.
bool takes_gelu(const Problem& problem) {
  return problem.dtype == DType::bf16 && sizes_of(problem).n % 8 == 0;
}

/// A piece of the whole as a problem of its own.
Problem rest_problem(const Problem& whole, const op::Piece& piece) {
  Problem own{piece.op, whole.dtype, {}, whole.threads};
  for (const std::size_t operand : piece.operands) own.shapes.push_back(whole.shapes[operand]);
  return own;
}

/// True if an operand has one element for each column of the product, and no batch stands between.
bool is_of_columns(const Problem& problem, std::size_t operand) {
  const ContractSizes sizes = sizes_of(problem);
  return sizes.count == 1 && problem.shapes[operand].elements() == sizes.n;
}

/// A chain whose epilogue does all of it; nothing where none does.
std::optional<ProductPlan> epilogue_of(const op::Fused& chain, const Problem& problem) {
  const auto operand = [&](std::size_t piece, std::size_t index) {
    return chain.piece(piece).operands[index];
  };
  if (chain.chain_name().starts_with("contract+add_bias")) {
    ProductPlan plan{.epilogue = Epilogue::bias, .out = operand(1, 2), .bias = operand(1, 1)};
    if (!is_of_columns(problem, *plan.bias)) return std::nullopt;
    if (chain.chain_name() == "contract+add_bias") return plan;
    if (chain.chain_name() != "contract+add_bias&gelu" || !takes_gelu(problem)) return std::nullopt;
    plan.epilogue = Epilogue::bias_gelu;
    plan.aux = plan.out;
    plan.out = operand(2, 1);
    return plan;
  }
  // With the gradient of a bias, an own kernel does the rest in one pass.
  if (chain.chain_name() != "contract+gelu_gradient" || sizes_of(problem).count > 1 ||
      !takes_gelu(problem))
    return std::nullopt;
  return ProductPlan{
      .epilogue = Epilogue::gelu_gradient, .out = operand(1, 2), .aux = operand(1, 0)};
}

/// Own kernels of what stands after a product, with their memory.
struct Behind {
  Enqueue kernel;
  std::vector<std::size_t> operands;
};

std::vector<Behind> prepare_rest(const ProductPlan& plan, const Problem& problem) {
  std::vector<Behind> list;
  for (const op::Piece& piece : plan.rest)
    list.push_back({prepare_own(rest_problem(problem, piece)), piece.operands});
  return list;
}

/// The operands of the products of a batch: each after the one before it, by so many bytes.
struct BatchSteps {
  std::int64_t count = 1, a = 0, b = 0, out = 0;
};

BatchSteps steps_of(const Problem& product) {
  const ContractSizes sizes = sizes_of(product);
  const std::int64_t bytes = size_bytes(product.dtype);
  const DType out = element_dtype(op::operands(product.op)[2].element, product.dtype);
  return {.count = sizes.count,
          .a = sizes.m * sizes.k * bytes,
          .b = sizes.k * sizes.n * bytes,
          .out = sizes.m * sizes.n * size_bytes(out)};
}

/// True if each product of a batch begins where the library expects it.
bool are_aligned(const BatchSteps& steps) {
  return steps.count == 1 || (steps.a | steps.b | steps.out) % operand_alignment == 0;
}

struct Prepared {
  ProductPlan plan;
  BatchSteps steps = {};
  Multiply multiply = {};
  std::vector<Behind> rest = {};

  void operator()(Tensors operands, Workspace workspace, Stream stream) const {
    const auto at = [&](std::optional<std::size_t> operand) {
      return operand ? operands[*operand].data : nullptr;
    };
    const EpilogueMemory memory{at(plan.bias), at(plan.aux)};
    const Workspace of_library = library_part(workspace);
    for (std::int64_t i = 0; i < steps.count; ++i)
      multiply(operands[0].as<std::byte>() + i * steps.a, operands[1].as<std::byte>() + i * steps.b,
               operands[plan.out].as<std::byte>() + i * steps.out, memory, of_library, stream);
    for (const Behind& behind : rest) {
      std::array<Tensor, 8> tensors;
      for (std::size_t i = 0; i < behind.operands.size(); ++i)
        tensors[i] = operands[behind.operands[i]];
      behind.kernel(Tensors(tensors).first(behind.operands.size()), workspace, stream);
    }
  }
};

}  // namespace

ProductPlan plan_with_epilogue(const Problem& problem) {
  const auto* chain = problem.op.get_if<op::Fused>();
  const auto plan = chain == nullptr ? std::nullopt : epilogue_of(*chain, problem);
  return plan ? *plan : plan_without_epilogue(problem);
}

ProductPlan plan_without_epilogue(const Problem& problem) {
  const std::vector<op::Piece> pieces = op::pieces(problem.op);
  ProductPlan plan{.out = pieces[0].operands[2]};
  plan.rest.assign(pieces.begin() + 1, pieces.end());
  const std::string name(op::name(problem.op));
  if (name != "contract+add_bias&gelu" && name != "contract+gelu_gradient&bias_gradient")
    return plan;
  // Both at once: bias and GELU, the bias being added where the product lies, or the gradient of a
  // GELU, which takes the product's place, and the sums for the bias.
  const std::size_t between = pieces[1].operands.size() - 1;
  auto both = op::Fused::of({{pieces[1].op, {0, 1, 2}}, {pieces[2].op, {between, 3}}});
  std::vector<std::size_t> operands = pieces[1].operands;
  operands.push_back(pieces[2].operands[1]);
  plan.rest = {{std::get<op::Fused>(std::move(both)), std::move(operands)}};
  return plan;
}

Enqueue prepare_product(const Problem& problem, const PrepareMultiply& prepare) {
  const Problem alone = product_problem(problem);
  Prepared made{.plan = plan_with_epilogue(problem), .steps = steps_of(alone)};
  std::optional<Multiply> multiply = prepare(alone, made.plan.epilogue);
  if (!multiply && made.plan.epilogue != Epilogue::none) {
    made.plan = plan_without_epilogue(problem);
    multiply = prepare(alone, Epilogue::none);
  }
  require(multiply.has_value(),
          format("the library multiplies {} by {} in {}", to_string(alone.shapes[0]),
                 to_string(alone.shapes[1]), to_string(problem.dtype)));
  if (!are_aligned(made.steps)) return prepare_own(problem);
  made.multiply = std::move(*multiply);
  made.rest = prepare_rest(made.plan, problem);
  return made;
}

std::int64_t product_workspace_bytes(const Problem& problem, std::int64_t library_bytes) {
  std::int64_t bytes = room_for_library(library_bytes);
  for (const ProductPlan& plan : {plan_with_epilogue(problem), plan_without_epilogue(problem)})
    for (const op::Piece& piece : plan.rest)
      bytes = std::max(bytes, own_workspace_bytes(rest_problem(problem, piece)));
  return bytes;
}

}  // namespace fourfold::kernels::cuda
