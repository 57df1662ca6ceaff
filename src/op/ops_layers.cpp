// Rules of contract, embeddings, dropout, biases and lists of casts, in the order of ops.h.
#include <algorithm>

#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {

// --- contract

namespace {
struct ContractDims {
  std::size_t a_free_first, a_free_last, a_inner_first, a_inner_last;
  std::size_t b_free_first, b_free_last, b_inner_first, b_inner_last;
};
bool has_row_dims(const Contract& op, Shapes reads) {
  const auto batch = static_cast<std::size_t>(op.batch);
  const auto fit = [&](std::int64_t rows, const Shape& shape) {
    return batch <= shape.rank() && static_cast<std::size_t>(rows) <= shape.rank() - batch;
  };
  return fit(op.a_rows, reads[0]) && fit(op.b_rows, reads[1]);
}
ContractDims contract_dims(const Contract& op, Shapes reads) {
  require(has_row_dims(op, reads), "contract: batch and row dims lie within the operands");
  const auto batch = static_cast<std::size_t>(op.batch);
  const std::size_t a_split = batch + static_cast<std::size_t>(op.a_rows),
                    b_split = batch + static_cast<std::size_t>(op.b_rows);
  ContractDims d{};
  if (op.transpose_a) {
    d.a_inner_first = batch, d.a_inner_last = d.a_free_first = a_split;
    d.a_free_last = reads[0].rank();
  } else {
    d.a_free_first = batch, d.a_free_last = d.a_inner_first = a_split;
    d.a_inner_last = reads[0].rank();
  }
  if (op.transpose_b) {
    d.b_free_first = batch, d.b_free_last = d.b_inner_first = b_split;
    d.b_inner_last = reads[1].rank();
  } else {
    d.b_inner_first = batch, d.b_inner_last = d.b_free_first = b_split;
    d.b_free_last = reads[1].rank();
  }
  return d;
}
}  // namespace

Operands Contract::operands() const {
  return {{"a"},
          {"b"},
          {"out", write_or_update(accumulate), unrounded ? Element::accumulate : Element::compute}};
}
Outputs Contract::outputs(Shapes reads) const {
  if (!has_row_dims(*this, reads))
    return Mistake{"contract: batch and row dims lie within the operands"};
  const auto shared = static_cast<std::size_t>(batch);
  if (leading(reads[0], shared) != leading(reads[1], shared))
    return Mistake{"contract: the batch dims of both operands are equal"};
  const ContractDims d = contract_dims(*this, reads);
  if (join(reads[0], d.a_inner_first, d.a_inner_last, {}, 0, 0) !=
      join(reads[1], d.b_inner_first, d.b_inner_last, {}, 0, 0))
    return Mistake{"contract: the contracted dims of both operands are equal"};
  const Shape one =
      join(reads[0], d.a_free_first, d.a_free_last, reads[1], d.b_free_first, d.b_free_last);
  return {join(reads[0], 0, shared, one, 0, one.rank())};
}
FactorRule Contract::factors(Shapes reads) const {
  const ContractDims d = contract_dims(*this, reads);
  const std::string shared = letters(static_cast<std::size_t>(batch), 'A');
  const std::string rows = letters(d.a_free_last - d.a_free_first, 'a');
  const std::string inner = letters(d.a_inner_last - d.a_inner_first, 'k');
  const std::string columns = letters(d.b_free_last - d.b_free_first, 'p');
  return {{shared + (transpose_a ? inner + rows : rows + inner),
           shared + (transpose_b ? columns + inner : inner + columns), shared + rows + columns},
          "",
          Linear::one};
}
double Contract::flops(Shapes all) const {
  return 2.0 * elements(all[2]) * static_cast<double>(product_sizes(*this, all).k);
}
std::vector<Example> examples_of(const Contract&) {
  return {{Contract{2, 1, false, false, true, true}, {usual, {4, 5}}},
          {Contract{2, 1, false, true}, {usual, {5, 4}}},
          {Contract{2, 2, true, false}, {usual, {2, 3, 5, 2}}},
          {Contract{1, 2, true, true}, {{6, 3}, {2, 5, 6}}},
          {Contract{1, 1, false, false, true, true, 1}, {usual, {2, 4, 5}}},
          {Contract{.transpose_b = true, .batch = 2}, {{2, 3, 4, 5}, {2, 3, 6, 5}}},
          {Contract{.transpose_a = true, .batch = 1}, {{3, 5, 4}, {3, 5, 2}}},
          {Contract{.a_rows = 2, .batch = 1}, {{2, 1, 3, 4}, {2, 4, 5}}},
          // Pictures as vectors, and the gradient of the weight.
          {Contract{.a_rows = 1, .b_rows = 3}, {{2, 2, 3, 4}, {2, 3, 4, 5}}},
          {Contract{.transpose_a = true, .unrounded = true}, {{2, 2, 3, 4}, {2, 5}}},
          // Whatever is transposed, the shapes fit.
          {Contract{}, {{4, 4}, {4, 4}}}};
}
ProductSizes product_sizes(const Contract& op, Shapes all) {
  const ContractDims d = contract_dims(op, all);
  return {.count = all[0].elements(0, static_cast<std::size_t>(op.batch)),
          .m = all[0].elements(d.a_free_first, d.a_free_last),
          .n = all[1].elements(d.b_free_first, d.b_free_last),
          .k = all[0].elements(d.a_inner_first, d.a_inner_last),
          .layout = {op.transpose_a ? 't' : 'n', op.transpose_b ? 't' : 'n'}};
}

// --- embeddings

Operands Embedding::operands() const {
  return {{"tokens", Role::read, Element::i32}, {"table"}, {"y", Role::write}};
}
Outputs Embedding::outputs(Shapes reads) const {
  if (reads[1].rank() != 2) return Mistake{"embedding: the table is (V, C)"};
  return {join(reads[0], 0, reads[0].rank(), reads[1], 1, 2)};
}
FactorRule Embedding::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank());
  return {{rows, "vz", rows + "z"}, "", Linear::no};
}
double Embedding::flops(Shapes) const {
  return 0;
}
std::int64_t Embedding::integer_bound(Shapes all) const {
  return all[1][0];
}
std::vector<Example> examples_of(const Embedding&) {
  return {{Embedding{7}, {{2, 3}, {10, 4}}}, {Embedding{}, {{2, 3}, {5, 4}}}};
}

Operands EmbeddingGradient::operands() const {
  return {{"tokens", Role::read, Element::i32},
          {"y_grad", Role::read, wide_if(wide)},
          {"table_grad", write_or_update(accumulate), Element::accumulate}};
}
Outputs EmbeddingGradient::outputs(Shapes reads) const {
  if (!are_rows_of(reads[0], reads[1]))
    return Mistake{"embedding_gradient: y_grad has a row per token"};
  return {{rows, reads[1].back()}};
}
FactorRule EmbeddingGradient::factors(Shapes reads) const {
  const std::string tokens = letters(reads[0].rank());
  return {{tokens, tokens + "z", "vz"}, "", Linear::one};
}
double EmbeddingGradient::flops(Shapes all) const {
  return elements(all[1]);
}
std::int64_t EmbeddingGradient::integer_bound(Shapes) const {
  return rows;
}
std::vector<Example> examples_of(const EmbeddingGradient&) {
  return {{EmbeddingGradient{10, 7, true}, {{2, 3}, usual}},
          {EmbeddingGradient{5}, {{2, 3}, usual}},
          {EmbeddingGradient{.rows = 10, .first_row = 7, .wide = true}, {{2, 3}, usual}}};
}

Operands AddPositions::operands() const {
  Operands list = {{"x"}, {"table"}};
  if (cached) list.push_back({"position", Role::read, Element::i32});
  if (documents) list.push_back({"document_starts", Role::read, Element::i32});
  list.push_back({"y", Role::write, wide_if(wide)});
  if (!wide) list.back().may_alias = 0;
  return list;
}
Outputs AddPositions::outputs(Shapes reads) const {
  if (reads[0].rank() != 3 || reads[1].rank() != 2 || reads[0][2] != reads[1][1] ||
      !lie_within(first, reads[0][1], reads[1][0]))
    return Mistake{"add_positions: x is (B, T, C), the table (P, C) with P >= first + T"};
  if (documents && (cached || reads[2] != leading(reads[0], 2)))
    return Mistake{"add_positions: document_starts is (B, T), and a cached text is one document"};
  return {reads[0]};
}
FactorRule AddPositions::factors(Shapes) const {
  FactorRule rule{{"btc", "pc"}, "p", Linear::no};
  if (cached) rule.operands.emplace_back("");
  if (documents) rule.operands.emplace_back("bt");
  rule.operands.emplace_back("btc");
  return rule;
}
double AddPositions::flops(Shapes all) const {
  return elements(all[0]);
}
std::int64_t AddPositions::integer_bound(Shapes all) const {
  return cached ? all[1][0] - all[0][1] - first + 1 : 1;
}
std::vector<Example> examples_of(const AddPositions&) {
  return {{AddPositions{true, 5}, {usual, {9, 4}, scalar}},
          {AddPositions{false, 5}, {usual, {8, 4}}},
          {AddPositions{false, 5, true}, {usual, {8, 4}, {2, 3}}},
          {AddPositions{.first = 5, .wide = true}, {usual, {8, 4}}}};
}

Operands PositionsGradient::operands() const {
  Operands list = {{"y_grad", Role::read, wide_if(wide)}};
  if (documents) list.push_back({"document_starts", Role::read, Element::i32});
  list.push_back({"table_grad", write_or_update(accumulate), Element::accumulate});
  return list;
}
Outputs PositionsGradient::outputs(Shapes reads) const {
  if (reads[0].rank() != 3 || !lie_within(first, reads[0][1], rows))
    return Mistake{"positions_gradient: y_grad is (B, T, C) with first + T <= rows"};
  if (documents && reads[1] != leading(reads[0], 2))
    return Mistake{"positions_gradient: document_starts is (B, T)"};
  return {{rows, reads[0][2]}};
}
FactorRule PositionsGradient::factors(Shapes) const {
  FactorRule rule{{"btc"}, "p", Linear::first};
  if (documents) rule.operands.emplace_back("bt");
  rule.operands.emplace_back("pc");
  return rule;
}
double PositionsGradient::flops(Shapes all) const {
  return elements(all[0]);
}
std::int64_t PositionsGradient::integer_bound(Shapes) const {
  return 1;
}
std::vector<Example> examples_of(const PositionsGradient&) {
  return {{PositionsGradient{8, 5, true}, {usual}},
          {PositionsGradient{8, 5, true, true}, {usual, {2, 3}}},
          {PositionsGradient{.rows = 8, .first = 5, .wide = true}, {usual}}};
}

// --- dropout

Operands Dropout::operands() const {
  return {{"x", Role::read, wide_if(wide)},
          {"seed", Role::read, Element::u64},
          {"step", Role::read, Element::i64},
          {"y", Role::write, wide_if(wide), 0}};
}
Outputs Dropout::outputs(Shapes reads) const {
  const Shape& x = reads[0];
  if (part != TensorWindow{}) {
    if (!is_window_of(part, join(x, std::min<std::size_t>(1, x.rank()), x.rank(), {}, 0, 0)))
      return Mistake{"dropout: part has the dims of x after the samples"};
    for (std::size_t dim = 0; dim < part.global.rank(); ++dim)
      if (!lie_within(part.first[dim], x[dim + 1], part.global[dim]))
        return Mistake{"dropout: a part has no padding"};
  }
  return {x};
}
FactorRule Dropout::factors(Shapes reads) const {
  const std::string x = letters(reads[0].rank());
  return {{x, "", "", x}, "", Linear::first};
}
double Dropout::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const Dropout&) {
  return {{Dropout{{99}, 0.1, some_samples, some_window}, {usual, scalar, scalar}},
          {Dropout{{99}, 0.5, some_samples, {{9}, {3}}}, {{4, 6}, scalar, scalar}}};
}

// --- bias, list of casts

Operands AddBias::operands() const {
  return {{"x"}, {"bias"}, {"y", Role::write, Element::compute, 0}};
}
Outputs AddBias::outputs(Shapes reads) const {
  const std::size_t rows = reads[0].rank() - reads[1].rank();
  if (reads[1].rank() > reads[0].rank() ||
      join(reads[0], rows, reads[0].rank(), {}, 0, 0) != reads[1])
    return Mistake{"add_bias: bias has the last dims of x"};
  return {reads[0]};
}
FactorRule AddBias::factors(Shapes reads) const {
  const std::string x = letters(reads[0].rank());
  return {{x, x.substr(reads[0].rank() - reads[1].rank()), x}, "", Linear::no};
}
double AddBias::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const AddBias&) {
  return {{AddBias{}, {usual, {3, 4}}}, {AddBias{}, {usual_picture, {3}}}};
}

Operands BiasGradient::operands() const {
  return {{"y_grad"}, {"bias_grad", write_or_update(accumulate), Element::accumulate}};
}
Outputs BiasGradient::outputs(Shapes reads) const {
  if (static_cast<std::size_t>(summed_dims) > reads[0].rank())
    return Mistake{"bias_gradient: sums over its dims"};
  return {join(reads[0], static_cast<std::size_t>(summed_dims), reads[0].rank(), {}, 0, 0)};
}
FactorRule BiasGradient::factors(Shapes reads) const {
  const std::string y = letters(reads[0].rank());
  return {{y, y.substr(static_cast<std::size_t>(summed_dims))}, "", Linear::first};
}
double BiasGradient::flops(Shapes all) const {
  return elements(all[0]);
}
std::vector<Example> examples_of(const BiasGradient&) {
  return {{BiasGradient{2, true}, {usual}},
          {BiasGradient{1}, {usual}},
          {BiasGradient{3, true}, {usual_picture}}};
}

std::int64_t CastList::count() const {
  return list_length(tensors);
}
Operands CastList::operands() const {
  const auto length = static_cast<std::size_t>(count());
  Operands list(length, Operand{"x", Role::read, Element::accumulate});
  list.resize(2 * length, Operand{"y", Role::write});
  return list;
}
Outputs CastList::outputs(Shapes reads) const {
  return std::vector<Shape>(reads.begin(), reads.end());
}
double CastList::flops(Shapes) const {
  return 0;
}

std::vector<Piece> CastList::pieces() const {
  const auto length = static_cast<std::size_t>(count());
  std::vector<Piece> list;
  for (std::size_t i = 0; i < length; ++i) list.push_back({Cast{}, {i, length + i}});
  return list;
}
std::vector<Example> examples_of(const CastList&) {
  return {{CastList{2}, {{2, 3}, {4}}}};
}

}  // namespace fourfold::op
