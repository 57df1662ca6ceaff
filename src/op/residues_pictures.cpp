// Residue forms of convolutions, pooling and bytes of pictures, in the order of pictures.h. Letters
// as there.
#include <algorithm>
#include <vector>

#include "op/pictures.h"
#include "op/residue_loops.h"

namespace fourfold::op {
namespace {

/// A kernel or a window that slides over pictures.
struct Sliding {
  std::int64_t kernel_height, kernel_width, stride, padding;

  std::int64_t taps() const { return kernel_height * kernel_width; }

  /// Calls body(pixel of x, pixel of y, tap) for each tap on the picture, windows in order and the
  /// taps of each in order. Pixels count over samples too.
  template <class Body>
  void for_each_tap(const Shape& x, const Shape& y, Body body) const {
    for (std::int64_t y_pixel = 0; y_pixel < y.elements(0, 3); ++y_pixel)
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        const std::int64_t b = y_pixel / (y[1] * y[2]), p = y_pixel / y[2] % y[1],
                           q = y_pixel % y[2];
        const std::int64_t h = p * stride + tap / kernel_width - padding,
                           w = q * stride + tap % kernel_width - padding;
        if (h < 0 || h >= x[1] || w < 0 || w >= x[2]) continue;
        body((b * x[1] + h) * x[2] + w, y_pixel, tap);
      }
  }
};
Sliding square(std::int64_t size, std::int64_t stride) {
  return {size, size, stride, 0};
}

/// Calls body(x, y, weight), indices of elements, for each product of a convolution.
template <class Body>
void for_each_product(const Sliding& kernel, const Shape& x, const Shape& y, Body body) {
  const std::int64_t channels = x.back(), given = y.back();
  kernel.for_each_tap(x, y, [&](std::int64_t x_pixel, std::int64_t y_pixel, std::int64_t tap) {
    for (std::int64_t o = 0; o < given; ++o)
      for (std::int64_t c = 0; c < channels; ++c)
        body(x_pixel * channels + c, y_pixel * given + o, (o * kernel.taps() + tap) * channels + c);
  });
}

/// Sums of products, one for each element of a tensor.
class SumsOfTensor {
 public:
  explicit SumsOfTensor(const ResidueTensor& tensor)
      : tensor_(tensor), sums_(tensor.elements.size()) {}
  ProductSum& operator[](std::int64_t index) { return sums_[static_cast<std::size_t>(index)]; }

  void write(bool accumulate = false) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (accumulate) sums_[i].add_product(tensor_.elements[i], 1);
      tensor_.elements[i] = sums_[i].value();
    }
  }

 private:
  const ResidueTensor& tensor_;
  std::vector<ProductSum> sums_;
};

/// The index, for each element of y, of the largest element of its window of x: the first one of
/// several, but the last one that is not finite.
std::vector<std::int64_t> largest_of_windows(const Residues& residues, const Sliding& window,
                                             const ResidueTensor& x, const Shape& y) {
  constexpr std::int64_t none = -1;
  std::vector<std::int64_t> largest(static_cast<std::size_t>(y.elements()), none);
  const std::int64_t channels = y.back();
  window.for_each_tap(x.shape, y, [&](std::int64_t x_pixel, std::int64_t y_pixel, std::int64_t) {
    for (std::int64_t c = 0; c < channels; ++c) {
      std::int64_t& index = largest[static_cast<std::size_t>(y_pixel * channels + c)];
      const std::int64_t other = x_pixel * channels + c;
      const Residue element = x.elements[other];
      if (index == none || !is_finite(element) || residues.is_larger(element, x.elements[index]))
        index = other;
    }
  });
  return largest;
}

/// y = factor times the sum over each window of x.
void sum_windows(const Sliding& window, Residue factor, const ResidueTensor& x,
                 const ResidueTensor& y) {
  const std::int64_t channels = y.shape.back();
  SumsOfTensor sums(y);
  window.for_each_tap(
      x.shape, y.shape, [&](std::int64_t x_pixel, std::int64_t y_pixel, std::int64_t) {
        for (std::int64_t c = 0; c < channels; ++c)
          sums[y_pixel * channels + c].add_product(x.elements[x_pixel * channels + c], factor);
      });
  sums.write();
}
/// x = factor times the sum of the elements of y whose windows reach it.
void spread_windows(const Sliding& window, Residue factor, const ResidueTensor& y,
                    const ResidueTensor& x) {
  const std::int64_t channels = y.shape.back();
  SumsOfTensor sums(x);
  window.for_each_tap(
      x.shape, y.shape, [&](std::int64_t x_pixel, std::int64_t y_pixel, std::int64_t) {
        for (std::int64_t c = 0; c < channels; ++c)
          sums[x_pixel * channels + c].add_product(y.elements[y_pixel * channels + c], factor);
      });
  sums.write();
}

}  // namespace

// --- convolution

void Convolution::residue_form(const Residues&, ResidueTensors all) const {
  const ResidueTensor &x = all[0], &weight = all[1], &y = all[2];
  SumsOfTensor sums(y);
  for_each_product({weight.shape[1], weight.shape[2], stride, padding}, x.shape, y.shape,
                   [&](std::int64_t from, std::int64_t to, std::int64_t by) {
                     sums[to].add_product(x.elements[from], weight.elements[by]);
                   });
  sums.write();
}

void ConvolutionGradient::residue_form(const Residues&, ResidueTensors all) const {
  const ResidueTensor &y_grad = all[0], &weight = all[1], &x_grad = all[2];
  SumsOfTensor sums(x_grad);
  for_each_product({weight.shape[1], weight.shape[2], stride, padding}, x_grad.shape, y_grad.shape,
                   [&](std::int64_t to, std::int64_t from, std::int64_t by) {
                     sums[to].add_product(y_grad.elements[from], weight.elements[by]);
                   });
  sums.write();
}

void ConvolutionWeightGradient::residue_form(const Residues&, ResidueTensors all) const {
  const ResidueTensor &x = all[0], &y_grad = all[1], &weight_grad = all[2];
  SumsOfTensor sums(weight_grad);
  for_each_product({kernel_height, kernel_width, stride, padding}, x.shape, y_grad.shape,
                   [&](std::int64_t from, std::int64_t by, std::int64_t to) {
                     sums[to].add_product(x.elements[from], y_grad.elements[by]);
                   });
  sums.write(accumulate);
}

// --- pooling

void MaxPool::residue_form(const Residues& residues, ResidueTensors all) const {
  const ResidueTensor &x = all[0], &y = all[1];
  const auto largest = largest_of_windows(residues, square(size, stride), x, y.shape);
  for (std::size_t i = 0; i < largest.size(); ++i) y.elements[i] = x.elements[largest[i]];
}

void MaxPoolGradient::residue_form(const Residues& residues, ResidueTensors all) const {
  const ResidueTensor &x = all[0], &y_grad = all[1], &x_grad = all[2];
  const auto largest = largest_of_windows(residues, square(size, stride), x, y_grad.shape);
  std::ranges::fill(x_grad.elements, 0);
  for (std::size_t i = 0; i < largest.size(); ++i) {
    Residue& grad = x_grad.elements[largest[i]];
    grad = is_finite(x.elements[largest[i]]) ? add(grad, y_grad.elements[i]) : not_finite;
  }
}

void AveragePool::residue_form(const Residues&, ResidueTensors all) const {
  sum_windows(square(size, stride), one_over(size * size), all[0], all[1]);
}

void AveragePoolGradient::residue_form(const Residues&, ResidueTensors all) const {
  spread_windows(square(size, stride), one_over(size * size), all[0], all[1]);
}

// --- larger pictures

void Upsample::residue_form(const Residues&, ResidueTensors all) const {
  spread_windows(square(factor, factor), 1, all[0], all[1]);
}

void UpsampleGradient::residue_form(const Residues&, ResidueTensors all) const {
  sum_windows(square(factor, factor), 1, all[0], all[1]);
}

// --- bytes

void Normalize::residue_form(const Residues&, ResidueTensors all) const {
  const Residue of_byte = one_over(255);
  std::vector<Residue> factors, terms;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const Residue factor = inverse(residue_of(deviation[c]));
    factors.push_back(multiply(of_byte, factor));
    terms.push_back(negate(multiply(residue_of(mean[c]), factor)));
  }
  for (std::size_t i = 0; i < all[0].elements.size(); ++i) {
    const std::size_t c = i % mean.size();
    const Residue x = residue_of_integer(static_cast<std::int64_t>(all[0].elements[i]));
    all[1].elements[i] = add(multiply(x, factors[c]), terms[c]);
  }
}

}  // namespace fourfold::op
