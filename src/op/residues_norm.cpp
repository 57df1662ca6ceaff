// Residue forms of layer norm, whole and in parts, in the order of ops.h.
#include "op/ops.h"
#include "op/residue_loops.h"

namespace fourfold::op {
namespace {

/// The mean of some elements and the sum of their squared distances from it.
struct RowMoments {
  Residue mean, squares;
};
RowMoments moments_of_row(std::span<const Residue> x) {
  ProductSum sum, squares;
  for (const Residue element : x) sum.add_product(element, 1);
  const Residue mean = multiply(sum.value(), one_over(static_cast<std::int64_t>(x.size())));
  for (const Residue element : x) {
    const Residue distance = subtract(element, mean);
    squares.add_product(distance, distance);
  }
  return {mean, squares.value()};
}

/// The elements of a row of a tensor.
std::span<Residue> row_of(const ResidueTensor& tensor, std::int64_t row) {
  const auto columns = static_cast<std::size_t>(tensor.shape.back());
  return tensor.elements.subspan(static_cast<std::size_t>(row) * columns, columns);
}

/// Writes y, mean and rstd, the last three operands, from gain (and bias), those before them.
/// moments(row) are those of the whole row, of `width` elements.
template <class Row, class Moments>
void write_norm(const Row& row, std::int64_t width, Moments moments, const Residues& residues,
                ResidueTensors all) {
  const ResidueTensors out = all.last(3), weights = all.last(row.bias ? 5 : 4);
  const RowSizes sizes(all[0].shape);
  const Residue share = one_over(width);
  for (std::int64_t r = 0; r < sizes.rows; ++r) {
    const auto [mean, squares] = moments(r);
    const Residue rstd = reciprocal_deviation(residues, multiply(squares, share), row.epsilon);
    for (std::int64_t c = 0; c < sizes.columns; ++c) {
      const Residue normal = multiply(subtract(row_of(all[0], r)[c], mean), rstd);
      const Residue y = multiply(normal, weights[0].elements[c]);
      row_of(out[0], r)[c] = row.bias ? add(y, weights[1].elements[c]) : y;
    }
    out[1].elements[r] = mean;
    out[2].elements[r] = rstd;
  }
}

/// What the gradient of a row of layer norm reads of one element: y_grad gain, and the normalised
/// x.
struct GradientElement {
  Residue grad, normal;
};
GradientElement gradient_element(ResidueTensors all, std::int64_t row, std::int64_t column) {
  const Residue distance = subtract(row_of(all[0], row)[column], all[2].elements[row]);
  return {multiply(row_of(all[4], row)[column], all[1].elements[column]),
          multiply(distance, all[3].elements[row])};
}

/// The sums over a row of y_grad gain, and of this times the normalised x.
struct GradientSums {
  Residue grad, grad_normal;
};
GradientSums gradient_sums(ResidueTensors all, std::int64_t row) {
  ProductSum grads, grads_normal;
  for (std::int64_t c = 0; c < all[0].shape.back(); ++c) {
    const auto [grad, normal] = gradient_element(all, row, c);
    grads.add_product(grad, 1);
    grads_normal.add_product(grad, normal);
  }
  return {grads.value(), grads_normal.value()};
}

/// Writes x_grad, the last operand: rstd (g - mean of g - normal mean of (g normal)), g being
/// y_grad gain, and sums(row) the sums over `width` elements.
template <class Sums>
void write_x_grad(std::int64_t width, Sums sums, ResidueTensors all) {
  const RowSizes sizes(all[0].shape);
  const Residue share = one_over(width);
  for (std::int64_t r = 0; r < sizes.rows; ++r) {
    const GradientSums of_row = sums(r);
    const Residue mean = multiply(of_row.grad, share),
                  mean_normal = multiply(of_row.grad_normal, share);
    for (std::int64_t c = 0; c < sizes.columns; ++c) {
      const auto [grad, normal] = gradient_element(all, r, c);
      row_of(all.back(), r)[c] = multiply(
          all[3].elements[r], subtract(subtract(grad, mean), multiply(normal, mean_normal)));
    }
  }
}

}  // namespace

void LayerNorm::residue_form(const Residues& residues, ResidueTensors all) const {
  write_norm(
      *this, all[0].shape.back(),
      [&](std::int64_t row) { return moments_of_row(row_of(all[0], row)); }, residues, all);
}

void LayerNormGradient::residue_form(const Residues&, ResidueTensors all) const {
  write_x_grad(all[0].shape.back(), [&](std::int64_t row) { return gradient_sums(all, row); }, all);
}

void LayerNormWeightGradient::residue_form(const Residues&, ResidueTensors all) const {
  const ResidueTensor &x = all[0], &mean = all[1], &rstd = all[2], &y_grad = all[3];
  const RowSizes sizes(x.shape);
  for (std::int64_t c = 0; c < sizes.columns; ++c) {
    ProductSum gains(accumulate ? all[4].elements[c] : 0);
    ProductSum biases(accumulate && bias ? all[5].elements[c] : 0);
    for (std::int64_t r = 0; r < sizes.rows; ++r) {
      const Residue grad = row_of(y_grad, r)[c];
      gains.add_product(grad,
                        multiply(subtract(row_of(x, r)[c], mean.elements[r]), rstd.elements[r]));
      biases.add_product(grad, 1);
    }
    all[4].elements[c] = gains.value();
    if (bias) all[5].elements[c] = biases.value();
  }
}

// --- in parts

void LayerNormMoments::residue_form(const Residues&, ResidueTensors all) const {
  const RowSizes sizes(all[0].shape);
  const auto of_part = static_cast<std::size_t>(sizes.columns / parts);
  for (std::int64_t part = 0; part < parts; ++part)
    for (std::int64_t r = 0; r < sizes.rows; ++r) {
      const RowMoments moments = moments_of_row(
          row_of(all[0], r).subspan(static_cast<std::size_t>(part) * of_part, of_part));
      const std::span<Residue> made = row_of(all[1], part * sizes.rows + r);
      made[0] = moments.mean;
      made[1] = moments.squares;
    }
}

void LayerNormApply::residue_form(const Residues& residues, ResidueTensors all) const {
  const ResidueTensor& moments = all[1];
  const std::int64_t rows = RowSizes(all[0].shape).rows, parts = moments.shape[0];
  const Residue share = one_over(parts), of_part = residue_of_integer(width / parts);
  // All parts have equally many elements: the mean is that of means, and each part's distance from
  // it counts once for each of its elements.
  const auto merged = [&](std::int64_t row) -> RowMoments {
    const auto of = [&](std::int64_t part) { return row_of(moments, part * rows + row); };
    ProductSum means, squares;
    for (std::int64_t part = 0; part < parts; ++part) means.add_product(of(part)[0], share);
    const Residue mean = means.value();
    for (std::int64_t part = 0; part < parts; ++part) {
      const Residue distance = subtract(of(part)[0], mean);
      squares.add_product(of(part)[1], 1);
      squares.add_product(multiply(distance, distance), of_part);
    }
    return {mean, squares.value()};
  };
  write_norm(*this, width, merged, residues, all);
}

void LayerNormGradientSums::residue_form(const Residues&, ResidueTensors all) const {
  for (std::int64_t r = 0; r < RowSizes(all[0].shape).rows; ++r) {
    const auto [grad, grad_normal] = gradient_sums(all, r);
    const std::span<Residue> sums = row_of(all[5], r);
    sums[0] = grad;
    sums[1] = grad_normal;
  }
}

void LayerNormGradientApply::residue_form(const Residues&, ResidueTensors all) const {
  const auto read = [&](std::int64_t row) -> GradientSums {
    const std::span<Residue> sums = row_of(all[5], row);
    return {sums[0], sums[1]};
  };
  write_x_grad(width, read, all);
}

}  // namespace fourfold::op
