// Chains of rows by own kernels: all at once where there is such a kernel, else piece by piece.
#include "kernels/cuda/rows.h"
#include "kernels/run_pieces.h"

namespace fourfold::kernels::cuda {

namespace {

/// The chain as gradients of a norm that one pass over the rows computes.
std::optional<NormGradients> in_one_pass(const op::Fused& chain, const Problem& problem) {
  const auto gradients = norm_gradients(chain, problem.shapes);
  return gradients && fits_a_block(*gradients, problem) ? gradients : std::nullopt;
}

std::optional<GeluGradients> gelu_gradients(const op::Fused& chain) {
  if (chain.chain_name() != "gelu_gradient&bias_gradient") return std::nullopt;
  const op::Piece &gelu = chain.piece(0), &sums = chain.piece(1);
  return GeluGradients{.x = gelu.operands[0],
                       .y_grad = gelu.operands[1],
                       .x_grad = gelu.operands[2],
                       .bias_grad = sums.operands[1],
                       .accumulate = sums.op.get<op::BiasGradient>().accumulate};
}

/// A product or convolution whose bias is added as it is stored.
struct BiasedProduct {
  Problem alone;  // without the bias
  ProductPlaces places;
};

std::optional<BiasedProduct> biased_product(const op::Fused& chain, const Problem& problem) {
  const bool is_contract = chain.chain_name() == "contract+add_bias";
  if (!is_contract && chain.chain_name() != "convolution+add_bias") return std::nullopt;
  const std::vector<std::size_t>&own = chain.piece(0).operands, &sum = chain.piece(1).operands;
  if (sum[0] != own[2]) return std::nullopt;
  Problem alone{chain.piece(0).op, problem.dtype, {}, problem.threads};
  for (const std::size_t operand : own) alone.shapes.push_back(problem.shapes[operand]);
  std::int64_t columns = alone.shapes[2].back();
  if (is_contract) {
    const auto& row = alone.op.get<op::Contract>();
    const op::ProductSizes sizes = op::product_sizes(row, alone.shapes);
    if (row.accumulate || row.unrounded || sizes.count > 1) return std::nullopt;
    columns = sizes.n;
  }
  if (problem.shapes[sum[1]].elements() != columns) return std::nullopt;
  return BiasedProduct{std::move(alone), {own[0], own[1], sum[2], sum[1]}};
}

Enqueue prepare_chain(const BiasedProduct& chain) {
  if (const auto* contract = chain.alone.op.get_if<op::Contract>())
    return prepare_with_bias(*contract, chain.alone, chain.places);
  return prepare_with_bias(chain.alone.op.get<op::Convolution>(), chain.alone, chain.places);
}

/// visit(chain) for a chain around a group norm, and what that gives.
template <class Result, class Visit>
std::optional<Result> with_norm_chain(const op::Fused& chain, const Problem& problem,
                                      const Visit& visit) {
  if (const auto found = norm_statistics(chain, problem.shapes)) return visit(*found);
  if (const auto found = bias_and_sum(chain, problem.shapes)) return visit(*found);
  const auto fits = [&](const auto& found) {
    return found && fits_packs(found->dropout, problem.shapes[found->x], problem.dtype);
  };
  if (const auto found = norm_and_silu(chain); fits(found)) return visit(*found);
  if (const auto found = norm_sums_of_gradient(chain); fits(found)) return visit(*found);
  if (const auto found = norm_gradient_of_x(chain, problem.shapes)) return visit(*found);
  return std::nullopt;
}

}  // namespace

Enqueue prepare_row(const op::Fused& chain, const Problem& problem) {
  if (const auto gradients = in_one_pass(chain, problem)) return prepare_chain(*gradients, problem);
  if (const auto gradients = gelu_gradients(chain)) return prepare_chain(*gradients, problem);
  if (const auto product = biased_product(chain, problem)) return prepare_chain(*product);
  if (const auto rows = row_chain(chain, problem.shapes))
    return std::visit([&](const auto& kind) { return prepare_chain(kind, problem); }, *rows);
  if (auto norms = with_norm_chain<Enqueue>(
          chain, problem, [&](const auto& kind) { return prepare_chain(kind, problem); }))
    return *std::move(norms);
  auto kernels = std::make_shared<PieceKernels<Enqueue>>(problem, prepare_own);
  return [kernels](Tensors operands, Workspace workspace, Stream stream) {
    kernels->run(operands, workspace, stream);
  };
}

std::int64_t workspace_bytes(const op::Fused& chain, const Problem& problem) {
  if (const auto gradients = in_one_pass(chain, problem))
    return workspace_bytes(*gradients, problem);
  if (const auto gradients = gelu_gradients(chain)) return workspace_bytes(*gradients, problem);
  if (biased_product(chain, problem) || row_chain(chain, problem.shapes)) return 0;
  if (const auto bytes = with_norm_chain<std::int64_t>(
          chain, problem, [&](const auto& kind) { return workspace_bytes(kind, problem); }))
    return *bytes;
  return largest_workspace(problem, own_workspace_bytes);
}

}  // namespace fourfold::kernels::cuda
