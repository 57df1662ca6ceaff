// Residue forms of contract, embeddings, dropout and biases, in the order of ops.h. What an index
// points at outside of a table is not finite.
#include "op/residue_loops.h"
#include "op/table.h"

namespace fourfold::op {

// --- contract

namespace {

/// Vectors of `length` elements, one after another.
struct Vectors {
  std::size_t length;
  std::vector<Residue> elements;

  /// The rows of a matrix (rows, columns).
  static Vectors rows_of(std::span<const Residue> matrix, std::size_t columns) {
    return {columns, {matrix.begin(), matrix.end()}};
  }
  /// The columns of a matrix (rows, columns).
  static Vectors columns_of(std::span<const Residue> matrix, std::size_t rows,
                            std::size_t columns) {
    Vectors made{rows, std::vector<Residue>(matrix.size())};
    for (std::size_t i = 0; i < matrix.size(); ++i)
      made.elements[i % columns * rows + i / columns] = matrix[i];
    return made;
  }
  std::span<const Residue> operator[](std::size_t index) const {
    return std::span(elements).subspan(index * length, length);
  }
};

}  // namespace

void Contract::residue_form(const Residues&, ResidueTensors all) const {
  const Shape shapes[] = {all[0].shape, all[1].shape, all[2].shape};
  const ProductSizes sizes = product_sizes(*this, shapes);
  const auto m = static_cast<std::size_t>(sizes.m), n = static_cast<std::size_t>(sizes.n),
             k = static_cast<std::size_t>(sizes.k);
  for (std::size_t product = 0; product < static_cast<std::size_t>(sizes.count); ++product) {
    const auto a = all[0].elements.subspan(product * m * k, m * k),
               b = all[1].elements.subspan(product * k * n, k * n);
    const Vectors rows = transpose_a ? Vectors::columns_of(a, k, m) : Vectors::rows_of(a, k),
                  columns = transpose_b ? Vectors::rows_of(b, k) : Vectors::columns_of(b, k, n);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const Residue sum = dot(rows[i], columns[j]);
        Residue& out = all[2].elements[(product * m + i) * n + j];
        out = accumulate ? add(out, sum) : sum;
      }
  }
}

// --- embeddings

void Embedding::residue_form(const Residues&, ResidueTensors all) const {
  const auto &tokens = all[0], &table = all[1], &y = all[2];
  const auto rows = static_cast<std::size_t>(table.shape[0]),
             channels = static_cast<std::size_t>(table.shape[1]);
  for (std::size_t token = 0; token < tokens.elements.size(); ++token) {
    const std::size_t row = local_place(tokens.elements[token], first_row, rows);
    for (std::size_t channel = 0; channel < channels; ++channel)
      y.elements[token * channels + channel] =
          row < rows ? table.elements[row * channels + channel] : 0;
  }
}

void EmbeddingGradient::residue_form(const Residues&, ResidueTensors all) const {
  const auto &tokens = all[0], &y_grad = all[1], &table_grad = all[2];
  const auto local_rows = static_cast<std::size_t>(table_grad.shape[0]),
             channels = static_cast<std::size_t>(table_grad.shape[1]);
  if (!accumulate) std::ranges::fill(table_grad.elements, 0);
  for (std::size_t token = 0; token < tokens.elements.size(); ++token) {
    const std::size_t row = local_place(tokens.elements[token], first_row, local_rows);
    if (row == local_rows) continue;
    for (std::size_t channel = 0; channel < channels; ++channel) {
      Residue& sum = table_grad.elements[row * channels + channel];
      sum = add(sum, y_grad.elements[token * channels + channel]);
    }
  }
}

namespace {

/// The row of a table of positions for each token (b, t), t counting from `first` on, from the
/// beginning of its document where there are `starts`; `rows` where the table has no such row.
std::vector<std::size_t> rows_of_positions(const Shape& tokens, Residue first,
                                           std::span<const Residue> starts, std::size_t rows) {
  const auto time = static_cast<std::size_t>(tokens[1]);
  std::vector<std::size_t> found(static_cast<std::size_t>(tokens.elements(0, 2)));
  for (std::size_t token = 0; token < found.size(); ++token) {
    const Residue start = starts.empty() ? 0 : starts[token];
    found[token] = local_place(first + token % time - start, 0, rows);
  }
  return found;
}

}  // namespace

void AddPositions::residue_form(const Residues&, ResidueTensors all) const {
  const auto &x = all[0], &table = all[1], &y = all.back();
  const auto rows = static_cast<std::size_t>(table.shape[0]),
             channels = static_cast<std::size_t>(table.shape[1]);
  const Residue start = cached ? all[2].elements[0] : 0;
  const auto found = rows_of_positions(
      x.shape, start + static_cast<Residue>(first),
      documents ? std::span<const Residue>(all[2].elements) : std::span<const Residue>(), rows);
  for (std::size_t i = 0; i < x.elements.size(); ++i) {
    const std::size_t row = found[i / channels];
    y.elements[i] =
        row < rows ? add(x.elements[i], table.elements[row * channels + i % channels]) : not_finite;
  }
}

void PositionsGradient::residue_form(const Residues&, ResidueTensors all) const {
  const auto &y_grad = all[0], &table_grad = all.back();
  const auto local_rows = static_cast<std::size_t>(table_grad.shape[0]),
             channels = static_cast<std::size_t>(table_grad.shape[1]);
  const auto found = rows_of_positions(
      y_grad.shape, static_cast<Residue>(first),
      documents ? std::span<const Residue>(all[1].elements) : std::span<const Residue>(),
      local_rows);
  if (!accumulate) std::ranges::fill(table_grad.elements, 0);
  for (std::size_t i = 0; i < y_grad.elements.size(); ++i) {
    const std::size_t row = found[i / channels];
    if (row == local_rows) continue;
    Residue& sum = table_grad.elements[row * channels + i % channels];
    sum = add(sum, y_grad.elements[i]);
  }
}

// --- dropout

void Dropout::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &x = all[0], &y = all[3];
  const DropoutFactors factor(residues, stream, rate, all[1].elements[0], all[2].elements[0]);
  const ElementsOfStep of_step(window, part, x.shape);
  for (std::size_t i = 0; i < x.elements.size(); ++i)
    y.elements[i] = multiply(x.elements[i], factor(of_step.number(static_cast<std::int64_t>(i))));
}

// --- bias

void AddBias::residue_form(const Residues&, ResidueTensors all) const {
  const auto &x = all[0], &bias = all[1], &y = all[2];
  for (std::size_t i = 0; i < x.elements.size(); ++i)
    y.elements[i] = add(x.elements[i], bias.elements[i % bias.elements.size()]);
}

void BiasGradient::residue_form(const Residues&, ResidueTensors all) const {
  const auto &y_grad = all[0], &bias_grad = all[1];
  if (!accumulate) std::ranges::fill(bias_grad.elements, 0);
  for (std::size_t i = 0; i < y_grad.elements.size(); ++i) {
    Residue& sum = bias_grad.elements[i % bias_grad.elements.size()];
    sum = add(sum, y_grad.elements[i]);
  }
}

}  // namespace fourfold::op
