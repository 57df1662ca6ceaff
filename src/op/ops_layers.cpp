// Rules of matmul, embeddings, dropout and elementwise ops, in the order of ops.h.
#include <algorithm>

#include "op/rule_helpers.h"
#include "op/table.h"

namespace fourfold::op {

// --- matmul

namespace {
struct MatmulDims {
  std::size_t a_free_first, a_free_last, a_inner_first, a_inner_last;
  std::size_t b_free_first, b_free_last, b_inner_first, b_inner_last;
};
MatmulDims matmul_dims(const Matmul& op, Shapes reads) {
  const auto a_rows = static_cast<std::size_t>(op.a_rows),
             b_rows = static_cast<std::size_t>(op.b_rows);
  require(a_rows <= reads[0].rank() && b_rows <= reads[1].rank(),
          "matmul: row dims lie within the operands");
  MatmulDims d{};
  if (op.transpose_a) {
    d.a_inner_last = a_rows, d.a_free_first = a_rows, d.a_free_last = reads[0].rank();
  } else {
    d.a_free_last = a_rows, d.a_inner_first = a_rows, d.a_inner_last = reads[0].rank();
  }
  if (op.transpose_b) {
    d.b_free_last = b_rows, d.b_inner_first = b_rows, d.b_inner_last = reads[1].rank();
  } else {
    d.b_inner_last = b_rows, d.b_free_first = b_rows, d.b_free_last = reads[1].rank();
  }
  return d;
}
}  // namespace

Operands Matmul::operands() const {
  return {{"a"},
          {"b"},
          {"out", write_or_update(accumulate), unrounded ? Element::accumulate : Element::compute}};
}
std::vector<Shape> Matmul::outputs(Shapes reads) const {
  const MatmulDims d = matmul_dims(*this, reads);
  require(join(reads[0], d.a_inner_first, d.a_inner_last, {}, 0, 0) ==
              join(reads[1], d.b_inner_first, d.b_inner_last, {}, 0, 0),
          "matmul: the contracted dims of both operands are equal");
  return {join(reads[0], d.a_free_first, d.a_free_last, reads[1], d.b_free_first, d.b_free_last)};
}
FactorRule Matmul::factors(Shapes reads) const {
  const MatmulDims d = matmul_dims(*this, reads);
  const std::string rows = letters(d.a_free_last - d.a_free_first, 'a');
  const std::string inner = letters(d.a_inner_last - d.a_inner_first, 'k');
  const std::string columns = letters(d.b_free_last - d.b_free_first, 'p');
  return {{transpose_a ? inner + rows : rows + inner,
           transpose_b ? columns + inner : inner + columns, rows + columns},
          "",
          Linear::one};
}
double Matmul::flops(Shapes all) const {
  const MatmulDims d = matmul_dims(*this, all);
  return 2.0 * elements(all[2]) *
         static_cast<double>(all[0].elements(d.a_inner_first, d.a_inner_last));
}

// --- embeddings

Operands Embedding::operands() const {
  return {{"tokens", Role::read, Element::i32}, {"table"}, {"y", Role::write}};
}
std::vector<Shape> Embedding::outputs(Shapes reads) const {
  require(reads[1].rank() == 2, "embedding: the table is (V, C)");
  return {join(reads[0], 0, reads[0].rank(), reads[1], 1, 2)};
}
FactorRule Embedding::factors(Shapes reads) const {
  const std::string rows = letters(reads[0].rank());
  return {{rows, "vz", rows + "z"}, "", Linear::no};
}
double Embedding::flops(Shapes) const {
  return 0;
}

Operands EmbeddingGradient::operands() const {
  return {{"tokens", Role::read, Element::i32},
          {"y_grad"},
          {"table_grad", write_or_update(accumulate), Element::accumulate}};
}
std::vector<Shape> EmbeddingGradient::outputs(Shapes reads) const {
  require(without_last(reads[1]) == reads[0], "embedding_gradient: y_grad has a row per token");
  return {{rows, reads[1].back()}};
}
FactorRule EmbeddingGradient::factors(Shapes reads) const {
  const std::string tokens = letters(reads[0].rank());
  return {{tokens, tokens + "z", "vz"}, "", Linear::one};
}
double EmbeddingGradient::flops(Shapes all) const {
  return elements(all[1]);
}

Operands AddPositions::operands() const {
  Operands list = {{"x"}, {"table"}};
  if (cached) list.push_back({"position", Role::read, Element::i32});
  if (documents) list.push_back({"document_starts", Role::read, Element::i32});
  list.push_back({"y", Role::write, Element::compute, 0});
  return list;
}
std::vector<Shape> AddPositions::outputs(Shapes reads) const {
  require(reads[0].rank() == 3 && reads[1].rank() == 2 && reads[0][2] == reads[1][1] &&
              first >= 0 && first + reads[0][1] <= reads[1][0],
          "add_positions: x is (B, T, C), the table (P, C) with P >= first + T");
  require(!documents || (!cached && reads[2] == leading(reads[0], 2)),
          "add_positions: document_starts is (B, T), and a cached text is one document");
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

Operands PositionsGradient::operands() const {
  Operands list = {{"y_grad"}};
  if (documents) list.push_back({"document_starts", Role::read, Element::i32});
  list.push_back({"table_grad", write_or_update(accumulate), Element::accumulate});
  return list;
}
std::vector<Shape> PositionsGradient::outputs(Shapes reads) const {
  require(reads[0].rank() == 3 && first >= 0 && first + reads[0][1] <= rows,
          "positions_gradient: y_grad is (B, T, C) with first + T <= rows");
  require(!documents || reads[1] == leading(reads[0], 2),
          "positions_gradient: document_starts is (B, T)");
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

// --- dropout

Operands Dropout::operands() const {
  return {{"x"},
          {"seed", Role::read, Element::u64},
          {"step", Role::read, Element::i64},
          {"y", Role::write, Element::compute, 0}};
}
std::vector<Shape> Dropout::outputs(Shapes reads) const {
  const Shape& x = reads[0];
  if (part != TensorWindow{}) {
    require(is_window_of(part, join(x, std::min<std::size_t>(1, x.rank()), x.rank(), {}, 0, 0)),
            "dropout: part has the dims of x behind the samples");
    for (std::size_t dim = 0; dim < part.global.rank(); ++dim)
      require(part.first[dim] + x[dim + 1] <= part.global[dim], "dropout: a part has no padding");
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

// --- bias, gelu, add

Operands AddBias::operands() const {
  return {{"x"}, {"bias"}, {"y", Role::write, Element::compute, 0}};
}
std::vector<Shape> AddBias::outputs(Shapes reads) const {
  const std::size_t rows = reads[0].rank() - reads[1].rank();
  require(reads[1].rank() <= reads[0].rank() &&
              join(reads[0], rows, reads[0].rank(), {}, 0, 0) == reads[1],
          "add_bias: bias has the last dims of x");
  return {reads[0]};
}
FactorRule AddBias::factors(Shapes reads) const {
  const std::string x = letters(reads[0].rank());
  return {{x, x.substr(reads[0].rank() - reads[1].rank()), x}, "", Linear::no};
}
double AddBias::flops(Shapes all) const {
  return elements(all[0]);
}

Operands BiasGradient::operands() const {
  return {{"y_grad"}, {"bias_grad", write_or_update(accumulate), Element::accumulate}};
}
std::vector<Shape> BiasGradient::outputs(Shapes reads) const {
  require(summed_dims >= 0 && static_cast<std::size_t>(summed_dims) <= reads[0].rank(),
          "bias_gradient: sums over its dims");
  return {join(reads[0], static_cast<std::size_t>(summed_dims), reads[0].rank(), {}, 0, 0)};
}
FactorRule BiasGradient::factors(Shapes reads) const {
  const std::string y = letters(reads[0].rank());
  return {{y, y.substr(static_cast<std::size_t>(summed_dims))}, "", Linear::first};
}
double BiasGradient::flops(Shapes all) const {
  return elements(all[0]);
}

Operands Gelu::operands() const {
  return {{"x"}, {"y", Role::write, Element::compute, 0}};
}
std::vector<Shape> Gelu::outputs(Shapes reads) const {
  return {reads[0]};
}
FactorRule Gelu::factors(Shapes reads) const {
  const std::string x = letters(reads[0].rank());
  return {{x, x}, "", Linear::no};
}
double Gelu::flops(Shapes all) const {
  return 12 * elements(all[0]);
}

Operands GeluGradient::operands() const {
  return {{"x"}, {"y_grad"}, {"x_grad", Role::write, Element::compute, 1}};
}
std::vector<Shape> GeluGradient::outputs(Shapes reads) const {
  require(reads[0] == reads[1], "gelu_gradient: x and y_grad agree");
  return {reads[0]};
}
FactorRule GeluGradient::factors(Shapes reads) const {
  const std::string x = letters(reads[0].rank());
  return {{x, x, x}, "", Linear::no};
}
double GeluGradient::flops(Shapes all) const {
  return 20 * elements(all[0]);
}

Operands Cast::operands() const {
  return {{"x", Role::read, Element::accumulate}, {"y", Role::write}};
}
std::vector<Shape> Cast::outputs(Shapes reads) const {
  return {reads[0]};
}
FactorRule Cast::factors(Shapes reads) const {
  const std::string x = letters(reads[0].rank());
  return {{x, x}, "", Linear::no};
}
double Cast::flops(Shapes) const {
  return 0;
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
std::vector<Shape> CastList::outputs(Shapes reads) const {
  return {reads.begin(), reads.end()};
}
FactorRule CastList::factors(Shapes reads) const {
  const std::vector<std::string> x = letters_of_each(reads);
  FactorRule rule{x, "", Linear::no};
  rule.operands.insert(rule.operands.end(), x.begin(), x.end());
  return rule;
}
double CastList::flops(Shapes) const {
  return 0;
}

std::vector<Part> parts_of(const CastList& row) {
  const auto length = static_cast<std::size_t>(row.count());
  std::vector<Part> list;
  for (std::size_t i = 0; i < length; ++i) list.push_back({Cast{}, {i, length + i}});
  return list;
}

Operands Add::operands() const {
  return {{"a"}, {"b"}, {"y", Role::write, Element::compute, 0}};
}
std::vector<Shape> Add::outputs(Shapes reads) const {
  require(reads[0] == reads[1], "add: both operands have one shape");
  return {reads[0]};
}
FactorRule Add::factors(Shapes reads) const {
  const std::string x = letters(reads[0].rank());
  return {{x, x, x}, "", Linear::all};
}
double Add::flops(Shapes all) const {
  return elements(all[0]);
}

}  // namespace fourfold::op
