// Residue forms of layer norm, whole and in parts, in the order of ops.h.
#include "op/ops.h"
#include "op/residue_loops.h"

namespace fourfold::op {
namespace {

/// The mean of some elements and the sum of their squared distances from it.
struct RowMoments {
  Residue mean, squares;
};
/// The mean is 0 where a norm is not centred.
RowMoments moments_of_row(std::span<const Residue> x, bool centred) {
  if (!centred) return {0, dot(x, x)};
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

/// Writes y, mean, where the norm is centred, and rstd, the last operands, from gain (and bias),
/// those before them. moments(row) are those of the whole row, of `width` elements.
template <class Row, class Moments>
void write_norm(const Row& row, std::int64_t width, Moments moments, const Residues& residues,
                ResidueTensors all) {
  const ResidueTensors out = all.last(row.centred ? 3 : 2),
                       weights = all.last(out.size() + (row.bias ? 2 : 1));
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
    if (row.centred) out[1].elements[r] = mean;
    out.back().elements[r] = rstd;
  }
}

/// What the gradient of a row of layer norm reads of one element: y_grad gain, and the normalised
/// x.
struct GradientElement {
  Residue grad, normal;
};
/// The sums over a row of y_grad gain, and of this times the normalised x.
struct GradientSums {
  Residue grad, grad_normal;
};

/// What the gradients of x read: x, gain, mean, where the norm is centred, rstd, and y_grad.
struct GradientReads {
  const ResidueTensor &x, &gain, *mean, &rstd, &y_grad;
  GradientReads(ResidueTensors all, bool centred)
      : x(all[0]),
        gain(all[1]),
        mean(centred ? &all[2] : nullptr),
        rstd(all[centred ? 3 : 2]),
        y_grad(all[centred ? 4 : 3]) {}

  GradientElement element(std::int64_t row, std::int64_t column) const {
    const Residue of_x = row_of(x, row)[column],
                  distance = mean == nullptr ? of_x : subtract(of_x, mean->elements[row]);
    return {multiply(row_of(y_grad, row)[column], gain.elements[column]),
            multiply(distance, rstd.elements[row])};
  }
  GradientSums sums(std::int64_t row) const {
    ProductSum grads, grads_normal;
    for (std::int64_t c = 0; c < x.shape.back(); ++c) {
      const auto [grad, normal] = element(row, c);
      grads.add_product(grad, 1);
      grads_normal.add_product(grad, normal);
    }
    return {mean == nullptr ? 0 : grads.value(), grads_normal.value()};
  }
};

/// Writes x_grad: rstd (g - mean of g - normal mean of (g normal)), g being y_grad gain, and
/// sums(row) the sums over `width` elements, of which that of g is 0 where the norm is not centred.
template <class Sums>
void write_x_grad(std::int64_t width, Sums sums, const GradientReads& reads,
                  const ResidueTensor& x_grad) {
  const RowSizes sizes(reads.x.shape);
  const Residue share = one_over(width);
  for (std::int64_t r = 0; r < sizes.rows; ++r) {
    const GradientSums of_row = sums(r);
    const Residue mean = multiply(of_row.grad, share),
                  mean_normal = multiply(of_row.grad_normal, share);
    for (std::int64_t c = 0; c < sizes.columns; ++c) {
      const auto [grad, normal] = reads.element(r, c);
      row_of(x_grad, r)[c] = multiply(
          reads.rstd.elements[r], subtract(subtract(grad, mean), multiply(normal, mean_normal)));
    }
  }
}

}  // namespace

void LayerNorm::residue_form(const Residues& residues, ResidueTensors all) const {
  write_norm(
      *this, all[0].shape.back(),
      [&](std::int64_t row) { return moments_of_row(row_of(all[0], row), centred); }, residues,
      all);
}

void LayerNormGradient::residue_form(const Residues&, ResidueTensors all) const {
  const GradientReads reads(all, centred);
  write_x_grad(
      all[0].shape.back(), [&](std::int64_t row) { return reads.sums(row); }, reads, all.back());
}

void LayerNormWeightGradient::residue_form(const Residues&, ResidueTensors all) const {
  const ResidueTensor &x = all[0], &rstd = all[centred ? 2 : 1], &y_grad = all[centred ? 3 : 2],
                      &gain_grad = all[centred ? 4 : 3];
  const RowSizes sizes(x.shape);
  for (std::int64_t c = 0; c < sizes.columns; ++c) {
    ProductSum gains(accumulate ? gain_grad.elements[c] : 0);
    ProductSum biases(accumulate && bias ? all[5].elements[c] : 0);
    for (std::int64_t r = 0; r < sizes.rows; ++r) {
      const Residue grad = row_of(y_grad, r)[c];
      const Residue of_x = row_of(x, r)[c],
                    distance = centred ? subtract(of_x, all[1].elements[r]) : of_x;
      gains.add_product(grad, multiply(distance, rstd.elements[r]));
      biases.add_product(grad, 1);
    }
    gain_grad.elements[c] = gains.value();
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
          row_of(all[0], r).subspan(static_cast<std::size_t>(part) * of_part, of_part), centred);
      const std::span<Residue> made = row_of(all[1], part * sizes.rows + r);
      if (centred) made[0] = moments.mean;
      made.back() = moments.squares;
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
    if (!centred) {
      for (std::int64_t part = 0; part < parts; ++part) squares.add_product(of(part)[0], 1);
      return {0, squares.value()};
    }
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
  const GradientReads reads(all, centred);
  for (std::int64_t r = 0; r < RowSizes(all[0].shape).rows; ++r) {
    const auto [grad, grad_normal] = reads.sums(r);
    const std::span<Residue> sums = row_of(all.back(), r);
    if (centred) sums[0] = grad;
    sums.back() = grad_normal;
  }
}

void LayerNormGradientApply::residue_form(const Residues&, ResidueTensors all) const {
  const auto read = [&](std::int64_t row) -> GradientSums {
    const std::span<Residue> sums = row_of(all[all.size() - 2], row);
    return {centred ? sums[0] : 0, sums.back()};
  };
  write_x_grad(width, read, GradientReads(all, centred), all.back());
}

}  // namespace fourfold::op
