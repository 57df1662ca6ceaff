// Sizes of convolutions and pooling, and where what they read lies: a convolution seen as a product
// with a matrix of patches. Letters as in op/pictures.h.
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/on_device.h"
#include "op/table.h"

namespace fourfold::kernels {

struct ConvolutionSizes {
  std::int64_t samples, height, width, channels;  // x (B, H, W, C)
  std::int64_t rows, columns, outputs;            // y (B, P, Q, O)
  std::int64_t kernel_height, kernel_width, stride, padding;

  std::int64_t pixels() const { return samples * height * width; }
  std::int64_t places() const { return samples * rows * columns; }
  std::int64_t taps() const { return kernel_height * kernel_width; }
  auto operator<=>(const ConvolutionSizes&) const = default;
};

inline ConvolutionSizes convolution_sizes(const Shape& x, const Shape& weight, const Shape& y,
                                          std::int64_t stride, std::int64_t padding) {
  return {x[0], x[1], x[2], x[3], y[1], y[2], y[3], weight[1], weight[2], stride, padding};
}
inline ConvolutionSizes convolution_sizes(const op::Convolution& op, op::Shapes all) {
  return convolution_sizes(all[0], all[1], all[2], op.stride, op.padding);
}
inline ConvolutionSizes convolution_sizes(const op::ConvolutionGradient& op, op::Shapes all) {
  return convolution_sizes(all[2], all[1], all[0], op.stride, op.padding);
}
inline ConvolutionSizes convolution_sizes(const op::ConvolutionWeightGradient& op, op::Shapes all) {
  return convolution_sizes(all[0], all[2], all[1], op.stride, op.padding);
}

/// Where a kernel finds what it reads, along height or width: tap t at place p reads number
/// (p step + t direction + offset) / divisor, if that is whole and there.
struct Slide {
  std::int64_t size;    // of what is read
  std::int64_t places;  // at which the kernel is put
  std::int64_t taps;
  std::int64_t step, direction, offset, divisor;

  /// The result is -1 where nothing is read.
  FOURFOLD_CUDA std::int64_t read_at(std::int64_t place, std::int64_t tap) const {
    const std::int64_t scaled = place * step + tap * direction + offset;
    if (divisor == 1) return scaled < size ? (scaled < 0 ? -1 : scaled) : -1;
    if (scaled < 0 || scaled % divisor != 0) return -1;
    return scaled / divisor < size ? scaled / divisor : -1;
  }
};

/// A tensor of pixels (samples, height, width, channels) as a matrix: row (sample, row, column) is
/// a place of the kernel, element (i, j, channel) of it what lies under tap (i, j) there, or 0.
struct Patches {
  Slide down, across;
  std::int64_t channels;

  struct Place {
    std::int64_t sample, row, column;
  };
  FOURFOLD_CUDA Place place(std::int64_t index) const {
    const std::int64_t line = index / across.places;
    return {line / down.places, line % down.places, index % across.places};
  }
  /// The element of the tensor where the channels under a tap begin; -1: outside of the picture.
  FOURFOLD_CUDA std::int64_t pixel(const Place& at, std::int64_t i, std::int64_t j) const {
    const std::int64_t row = down.read_at(at.row, i), column = across.read_at(at.column, j);
    if (row < 0 || column < 0) return -1;
    return ((at.sample * down.size + row) * across.size + column) * channels;
  }
  FOURFOLD_CUDA std::int64_t elements() const { return down.taps * across.taps * channels; }
};

/// The patches of x that the elements of y are made of.
inline Patches patches_of_x(const ConvolutionSizes& s) {
  return {{s.height, s.rows, s.kernel_height, s.stride, 1, -s.padding, 1},
          {s.width, s.columns, s.kernel_width, s.stride, 1, -s.padding, 1},
          s.channels};
}
/// The patches of y_grad that the elements of x_grad are made of.
inline Patches patches_of_y_grad(const ConvolutionSizes& s) {
  return {{s.rows, s.height, s.kernel_height, 1, -1, s.padding, s.stride},
          {s.columns, s.width, s.kernel_width, 1, -1, s.padding, s.stride},
          s.outputs};
}

struct PoolSizes {
  std::int64_t samples, height, width, channels;  // x (B, H, W, C)
  std::int64_t rows, columns;                     // y (B, P, Q, C)
  std::int64_t size, stride;

  std::int64_t taps() const { return size * size; }
  /// The element of x, of channel 0, under a tap of a window.
  FOURFOLD_CUDA std::int64_t pixel(std::int64_t sample, std::int64_t row, std::int64_t column,
                                   std::int64_t tap) const {
    const std::int64_t h = row * stride + tap / size, w = column * stride + tap % size;
    return ((sample * height + h) * width + w) * channels;
  }
  /// Along height or width: the first window that has a place, and the end of those that do.
  FOURFOLD_CUDA std::int64_t first_window(std::int64_t place) const {
    return place < size ? 0 : (place - size) / stride + 1;
  }
  FOURFOLD_CUDA std::int64_t end_of_windows(std::int64_t place, std::int64_t windows) const {
    const std::int64_t end = place / stride + 1;
    return end < windows ? end : windows;
  }
};

template <class Pool>
PoolSizes pool_sizes(const Pool& op, const Shape& x, const Shape& y) {
  return {x[0], x[1], x[2], x[3], y[1], y[2], op.size, op.stride};
}

/// True if x takes the place of the largest so far: the first of equal ones stays, NaN wins.
template <class T>
FOURFOLD_CUDA bool is_larger(T x, T largest) {
  return x > largest || x != x;
}

/// What the largest element of a window gets of a gradient; NaN passes none on.
template <class T>
FOURFOLD_CUDA T given_to_largest(T largest, T y_grad) {
  return largest == largest ? y_grad : largest;
}

}  // namespace fourfold::kernels
