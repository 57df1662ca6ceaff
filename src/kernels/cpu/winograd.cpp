// A picture is cut into tiles of 4 x 4 outputs, each made of 6 x 6 inputs. With d a tile of x, g a
// kernel and the matrices of the paper for the points 0, 1, -1, 2, -2 and infinity,
//   y = A' [sum over channels of (G g G') .* (B' d B)] A,
//   weight_grad = G' [sum over tiles of (A y_grad A') .* (B' d B)] G,
// and x_grad is the convolution of y_grad with the kernel turned round. ".*" is by element, of
// which a transformed tile has 36: a product of matrices for each. Each sum has one thread.
//
// E elements (36), T tiles, C channels read, O channels given.
#include "kernels/cpu/winograd.h"

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/picture_sizes.h"

namespace fourfold::kernels::cpu::winograd {
namespace {

constexpr std::int64_t given = 4, read = 6, taps = 3, elements = read * read;
/// Channels that are transformed together: those of a panel.
constexpr std::int64_t lanes = panel_columns<float>;
using Lanes = float[lanes];

// --- transforms along one side: from[0], from[stride] ... to to[0], to[stride] ...

struct FromInput {  // B'
  static constexpr int in = 6, out = 6;
  static void apply(const float (&d)[in], float (&v)[out]) {
    const float even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1];
    const float even2 = d[4] - d[2], odd2 = 2 * (d[3] - d[1]);
    v[0] = 4 * d[0] - 5 * d[2] + d[4];
    v[1] = even + odd;
    v[2] = even - odd;
    v[3] = even2 + odd2;
    v[4] = even2 - odd2;
    v[5] = 4 * d[1] - 5 * d[3] + d[5];
  }
};
struct ToOutput {  // A'
  static constexpr int in = 6, out = 4;
  static void apply(const float (&m)[in], float (&y)[out]) {
    const float sum = m[1] + m[2], difference = m[1] - m[2];
    const float sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    y[0] = m[0] + sum + sum2;
    y[1] = difference + 2 * difference2;
    y[2] = sum + 4 * sum2;
    y[3] = difference + 8 * difference2 + m[5];
  }
};
struct FromOutput {  // A
  static constexpr int in = 4, out = 6;
  static void apply(const float (&y)[in], float (&z)[out]) {
    const float even = y[0] + y[2], odd = y[1] + y[3];
    const float even2 = y[0] + 4 * y[2], odd2 = 2 * y[1] + 8 * y[3];
    z[0] = y[0];
    z[1] = even + odd;
    z[2] = even - odd;
    z[3] = even2 + odd2;
    z[4] = even2 - odd2;
    z[5] = y[3];
  }
};
struct FromKernel {  // G
  static constexpr int in = 3, out = 6;
  static void apply(const float (&g)[in], float (&u)[out]) {
    const float even = (g[0] + g[2]) * (-1.F / 6), odd = g[1] * (-1.F / 6);
    const float even2 = g[0] * (1.F / 24) + g[2] * (1.F / 6), odd2 = g[1] * (1.F / 12);
    u[0] = g[0] * 0.25F;
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = even2 + odd2;
    u[4] = even2 - odd2;
    u[5] = g[2];
  }
};
struct ToKernel {  // G'
  static constexpr int in = 6, out = 3;
  static void apply(const float (&u)[in], float (&g)[out]) {
    const float sum = u[1] + u[2], difference = u[1] - u[2];
    const float sum2 = u[3] + u[4], difference2 = u[3] - u[4];
    g[0] = u[0] * 0.25F - sum * (1.F / 6) + sum2 * (1.F / 24);
    g[1] = difference2 * (1.F / 12) - difference * (1.F / 6);
    g[2] = (sum2 - sum) * (1.F / 6) + u[5];
  }
};

/// Along both sides of a square of lanes.
template <class Side>
void transform(const Lanes (&from)[Side::in][Side::in], Lanes (&to)[Side::out][Side::out]) {
  Lanes half[Side::out][Side::in];
  for (int column = 0; column < Side::in; ++column)
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      float in[Side::in], out[Side::out];
      for (int i = 0; i < Side::in; ++i) in[i] = from[i][column][lane];
      Side::apply(in, out);
      for (int i = 0; i < Side::out; ++i) half[i][column][lane] = out[i];
    }
  for (int row = 0; row < Side::out; ++row)
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      float in[Side::in], out[Side::out];
      for (int i = 0; i < Side::in; ++i) in[i] = half[row][i][lane];
      Side::apply(in, out);
      for (int i = 0; i < Side::out; ++i) to[row][i][lane] = out[i];
    }
}

// --- tiles

/// The tiles of pictures (B, H, W, channels), padded by one pixel.
struct Tiles {
  std::int64_t samples, height, width, channels;
  std::int64_t down() const { return (height + given - 1) / given; }
  std::int64_t across() const { return (width + given - 1) / given; }
  std::int64_t count() const { return samples * down() * across(); }

  /// The place of a tile's first output.
  struct Place {
    std::int64_t sample, row, column;
  };
  Place place(std::int64_t tile) const {
    const std::int64_t line = tile / across();
    return {line / down(), line % down() * given, tile % across() * given};
  }
  /// The first channel of a pixel; -1 outside of the picture.
  std::int64_t pixel(std::int64_t sample, std::int64_t row, std::int64_t column) const {
    if (row < 0 || row >= height || column < 0 || column >= width) return -1;
    return ((sample * height + row) * width + column) * channels;
  }
};

/// Some channels of a square of pixels, 0 where there are none.
template <int size>
void load(const Tiles& tiles, const float* pixels, const Tiles::Place& at, std::int64_t border,
          std::int64_t channel, Lanes (&square)[size][size]) {
  const std::int64_t present = std::min(lanes, tiles.channels - channel);
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < size; ++j) {
      const std::int64_t pixel =
          tiles.pixel(at.sample, at.row + i - border, at.column + j - border);
      Lanes& to = square[i][j];
      if (pixel >= 0 && present == lanes) {
        std::copy_n(pixels + pixel + channel, lanes, to);
      } else {
        std::fill_n(to, lanes, 0.F);
        if (pixel >= 0) std::copy_n(pixels + pixel + channel, present, to);
      }
    }
}

/// Transformed tiles: for each element and tile its channels, in groups of `lanes`.
struct TransformedTiles {
  float* data;
  std::int64_t groups;
  std::int64_t element_stride, group_stride, tile_stride;

  /// The channels of a tile stand one after another: rows of a product.
  static TransformedTiles in_rows(float* data, std::int64_t tiles, std::int64_t groups) {
    return {data, groups, tiles * groups * lanes, lanes, groups * lanes};
  }
  /// The tiles of a group stand one after another: panels of a product.
  static TransformedTiles in_panels(float* data, std::int64_t tiles, std::int64_t groups) {
    return {data, groups, tiles * groups * lanes, tiles * lanes, lanes};
  }
  float* at(std::int64_t e, std::int64_t group, std::int64_t tile) const {
    return data + e * element_stride + group * group_stride + tile * tile_stride;
  }
};

std::int64_t groups_of(std::int64_t channels) {
  return (channels + lanes - 1) / lanes;
}

/// Transforms tile number `first + i` to place i, i in [begin, end).
template <class Side>
void transform_tiles(const Tiles& tiles, const float* pixels, std::int64_t first,
                     std::int64_t begin, std::int64_t end, const TransformedTiles& to) {
  constexpr std::int64_t border = Side::in == read ? 1 : 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const Tiles::Place at = tiles.place(first + i);
    for (std::int64_t group = 0; group < to.groups; ++group) {
      Lanes square[Side::in][Side::in], out[Side::out][Side::out];
      load(tiles, pixels, at, border, group * lanes, square);
      transform<Side>(square, out);
      for (int e = 0; e < elements; ++e)
        std::copy_n(out[e / read][e % read], lanes, to.at(e, group, i));
    }
  }
}

// --- forward and x_grad

/// U[e] as panels (inner, columns): element (e, panel of columns, inner, lane).
struct Kernels {
  float* data;
  std::int64_t inner, panels;
  float* at(std::int64_t e, std::int64_t panel, std::int64_t i) const {
    return data + ((e * panels + panel) * inner + i) * lanes;
  }
};

void store_kernel(const Lanes (&kernel)[taps][taps], const Kernels& to, std::int64_t panel,
                  std::int64_t i) {
  Lanes out[read][read];
  transform<FromKernel>(kernel, out);
  for (int e = 0; e < elements; ++e)
    std::copy_n(out[e / read][e % read], lanes, to.at(e, panel, i));
}

/// Columns are the O of a weight (O, 3, 3, C), the inner index its C.
void transform_weight(const float* weight, std::int64_t outputs, std::int64_t channels,
                      std::int64_t panel, const Kernels& to) {
  constexpr std::int64_t block = Simd<float>::lanes;
  const std::int64_t stride = taps * taps * channels, first = panel * lanes,
                     present = std::min(lanes, outputs - first);
  std::int64_t c = 0;
  alignas(64) float turned[taps * taps][block][lanes];  // by tap, channel, output
  for (; present == lanes && c + block <= channels; c += block) {
    for (std::int64_t tap = 0; tap < taps * taps; ++tap)
      for (std::int64_t o = 0; o < lanes; o += block)
        transpose_square<Simd<float>>(weight + (first + o) * stride + tap * channels + c, stride,
                                      1.F, &turned[tap][0][o], lanes);
    for (std::int64_t i = 0; i < block; ++i) {
      Lanes kernel[taps][taps];
      for (std::int64_t tap = 0; tap < taps * taps; ++tap)
        std::copy_n(turned[tap][i], lanes, kernel[tap / taps][tap % taps]);
      store_kernel(kernel, to, panel, c + i);
    }
  }
  for (; c < channels; ++c) {
    Lanes kernel[taps][taps] = {};
    for (std::int64_t tap = 0; tap < taps * taps; ++tap)
      for (std::int64_t o = 0; o < present; ++o)
        kernel[tap / taps][tap % taps][o] = weight[(first + o) * stride + tap * channels + c];
    store_kernel(kernel, to, panel, c);
  }
}

/// Columns are the C of a weight (O, 3, 3, C) that is turned round, the inner index its O.
void transform_turned_weight(const float* weight, std::int64_t outputs, std::int64_t channels,
                             std::int64_t panel, const Kernels& to) {
  const std::int64_t first = panel * lanes, present = std::min(lanes, channels - first);
  for (std::int64_t o = 0; o < outputs; ++o) {
    Lanes kernel[taps][taps] = {};
    for (std::int64_t tap = 0; tap < taps * taps; ++tap) {
      const std::int64_t turned = taps * taps - 1 - tap;
      std::copy_n(weight + (o * taps * taps + turned) * channels + first, present,
                  kernel[tap / taps][tap % taps]);
    }
    store_kernel(kernel, to, panel, o);
  }
}

/// Tiles that a thread takes at once: what it keeps of them fits the second-level cache.
std::int64_t tiles_at_once(std::int64_t inner, std::int64_t columns) {
  constexpr std::int64_t cache_bytes = 768 << 10;
  const std::int64_t fit = cache_bytes / (elements * 4 * (inner + columns));
  return std::clamp<std::int64_t>(fit / tile_rows * tile_rows, tile_rows, 96);
}

/// What a convolution keeps: transformed kernels, and of each thread some tiles.
struct ProductScratch {
  Kernels kernels;
  float *inputs, *products;
  std::int64_t at_once, input_floats, product_floats;

  ProductScratch(Scratch& scratch, std::int64_t inner, std::int64_t columns, int threads)
      : kernels{nullptr, inner, groups_of(columns)},
        at_once(tiles_at_once(inner, columns)),
        input_floats(elements * at_once * groups_of(inner) * lanes),
        product_floats(elements * at_once * groups_of(columns) * lanes) {
    kernels.data = scratch.take<float>(elements * kernels.panels * inner * lanes);
    inputs = scratch.take<float>(threads * input_floats);
    products = scratch.take<float>(threads * product_floats);
  }
};

/// Writes the outputs of tile number `first + i`, whose transformed products stand in rows i of
/// products (E, at_once, columns).
void store_tiles(const Tiles& tiles, const float* products, std::int64_t at_once,
                 std::int64_t columns, std::int64_t first, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Tiles::Place at = tiles.place(first + i);
    for (std::int64_t channel = 0; channel < tiles.channels; channel += lanes) {
      Lanes product[read][read], y[given][given];
      for (int e = 0; e < elements; ++e)
        std::copy_n(products + (e * at_once + i) * columns + channel, lanes,
                    product[e / read][e % read]);
      transform<ToOutput>(product, y);
      const std::int64_t present = std::min(lanes, tiles.channels - channel);
      for (int row = 0; row < given; ++row)
        for (int column = 0; column < given; ++column) {
          const std::int64_t pixel = tiles.pixel(at.sample, at.row + row, at.column + column);
          if (pixel >= 0) std::copy_n(y[row][column], present, out + pixel + channel);
        }
    }
  }
}

/// out = the convolution of pixels with kernels that transform_panel(panel, kernels) prepares.
template <class TransformPanel>
void convolve(const Tiles& from, const Tiles& to, const float* pixels,
              TransformPanel transform_panel, int threads, std::byte* memory, float* out) {
  Scratch scratch(memory);
  const ProductScratch kept(scratch, from.channels, to.channels, threads);
  const std::int64_t inner = from.channels, panels = kept.kernels.panels;
  const std::int64_t columns = panels * lanes;
  for_parts(threads, [&](int part) {
    const Range range = range_of(part, threads, panels, 1);
    for (std::int64_t panel = range.first; panel < range.last; ++panel)
      transform_panel(panel, kept.kernels);
  });
  const std::int64_t blocks = (from.count() + kept.at_once - 1) / kept.at_once;
  for_parts(threads, [&](int part) {
    float* const own_inputs = kept.inputs + part * kept.input_floats;
    float* const own_products = kept.products + part * kept.product_floats;
    const Range range = range_of(part, threads, blocks, 1);
    for (std::int64_t block = range.first; block < range.last; ++block) {
      const std::int64_t first = block * kept.at_once,
                         count = std::min(kept.at_once, from.count() - first);
      const auto tiles = TransformedTiles::in_rows(own_inputs, kept.at_once, groups_of(inner));
      transform_tiles<FromInput>(from, pixels, first, 0, count, tiles);
      const auto all = [inner](auto...) { return Inner{0, inner}; };
      for (std::int64_t e = 0; e < elements; ++e)
        tile_product(count, columns, all, Left<float>{tiles.at(e, 0, 0), tiles.tile_stride, 1},
                     Panels<float>{kept.kernels.at(e, 0, 0), inner * lanes}, false,
                     own_products + e * kept.at_once * columns, columns);
      store_tiles(to, own_products, kept.at_once, columns, first, count, out);
    }
  });
}

// --- weight_grad

constexpr std::int64_t tiles_of_sum = 128;

struct GradientScratch {
  TransformedTiles inputs, gradients;
  float* sums;  // (E, O, padded C)
  std::int64_t columns;

  GradientScratch(Scratch& scratch, std::int64_t channels, std::int64_t outputs)
      : inputs(take(scratch, groups_of(channels))),
        gradients(take(scratch, groups_of(outputs))),
        columns(groups_of(channels) * lanes) {
    sums = scratch.take<float>(elements * outputs * columns);
  }

 private:
  static TransformedTiles take(Scratch& scratch, std::int64_t groups) {
    return TransformedTiles::in_panels(
        scratch.take<float>(elements * tiles_of_sum * groups * lanes), tiles_of_sum, groups);
  }
};

void sum_weight_gradient(const Tiles& of_x, const Tiles& of_y, const float* x, const float* y_grad,
                         bool accumulate, int threads, std::byte* memory, float* weight_grad) {
  Scratch scratch(memory);
  const std::int64_t channels = of_x.channels, outputs = of_y.channels;
  const GradientScratch kept(scratch, channels, outputs);
  for (std::int64_t first = 0; first < of_x.count(); first += tiles_of_sum) {
    const std::int64_t count = std::min(tiles_of_sum, of_x.count() - first);
    for_parts(threads, [&](int part) {
      const Range range = range_of(part, threads, count, 1);
      transform_tiles<FromInput>(of_x, x, first, range.first, range.last, kept.inputs);
      transform_tiles<FromOutput>(of_y, y_grad, first, range.first, range.last, kept.gradients);
    });
    for_parts(threads, [&](int part) {
      const Range range = range_of(part, threads, elements, 1);
      const auto all = [count](auto...) { return Inner{0, count}; };
      for (std::int64_t e = range.first; e < range.last; ++e)
        for (std::int64_t o = 0; o < outputs; o += lanes)
          tile_product(std::min(lanes, outputs - o), kept.columns, all,
                       Left<float>{kept.gradients.at(e, o / lanes, 0), 1, lanes},
                       Panels<float>{kept.inputs.at(e, 0, 0), kept.inputs.group_stride}, first > 0,
                       kept.sums + (e * outputs + o) * kept.columns, kept.columns);
    });
  }
  for_parts(threads, [&](int part) {
    const Range range = range_of(part, threads, outputs, 1);
    for (std::int64_t o = range.first; o < range.last; ++o)
      for (std::int64_t c = 0; c < channels; c += lanes) {
        Lanes sum[read][read], kernel[taps][taps];
        for (int e = 0; e < elements; ++e)
          std::copy_n(kept.sums + (e * outputs + o) * kept.columns + c, lanes,
                      sum[e / read][e % read]);
        transform<ToKernel>(sum, kernel);
        const std::int64_t present = std::min(lanes, channels - c);
        for (std::int64_t tap = 0; tap < taps * taps; ++tap) {
          float* to = weight_grad + (o * taps * taps + tap) * channels + c;
          const Lanes& from = kernel[tap / taps][tap % taps];
          for (std::int64_t lane = 0; lane < present; ++lane)
            to[lane] = accumulate ? to[lane] + from[lane] : from[lane];
        }
      }
  });
}

// --- rows

Tiles tiles_of_x(const ConvolutionSizes& s) {
  return {s.samples, s.height, s.width, s.channels};
}
Tiles tiles_of_y(const ConvolutionSizes& s) {
  return {s.samples, s.rows, s.columns, s.outputs};
}

Run prepare_row(const op::Convolution&, const ConvolutionSizes& sizes, int threads) {
  return [sizes, threads](Tensors operands, Workspace workspace) {
    const float* weight = operands[1].as<float>();
    convolve(
        tiles_of_x(sizes), tiles_of_y(sizes), operands[0].as<float>(),
        [&](std::int64_t panel, const Kernels& to) {
          transform_weight(weight, sizes.outputs, sizes.channels, panel, to);
        },
        threads, workspace.data(), operands[2].as<float>());
  };
}

Run prepare_row(const op::ConvolutionGradient&, const ConvolutionSizes& sizes, int threads) {
  return [sizes, threads](Tensors operands, Workspace workspace) {
    const float* weight = operands[1].as<float>();
    convolve(
        tiles_of_y(sizes), tiles_of_x(sizes), operands[0].as<float>(),
        [&](std::int64_t panel, const Kernels& to) {
          transform_turned_weight(weight, sizes.outputs, sizes.channels, panel, to);
        },
        threads, workspace.data(), operands[2].as<float>());
  };
}

Run prepare_row(const op::ConvolutionWeightGradient& op, const ConvolutionSizes& sizes,
                int threads) {
  return [sizes, threads, accumulate = op.accumulate](Tensors operands, Workspace workspace) {
    sum_weight_gradient(tiles_of_x(sizes), tiles_of_y(sizes), operands[0].as<float>(),
                        operands[1].as<float>(), accumulate, threads, workspace.data(),
                        operands[2].as<float>());
  };
}

std::int64_t bytes_for(const op::Convolution&, const ConvolutionSizes& sizes, int threads) {
  Scratch scratch(nullptr);
  const ProductScratch kept(scratch, sizes.channels, sizes.outputs, threads);
  return scratch.used_bytes();
}
std::int64_t bytes_for(const op::ConvolutionGradient&, const ConvolutionSizes& sizes, int threads) {
  Scratch scratch(nullptr);
  const ProductScratch kept(scratch, sizes.outputs, sizes.channels, threads);
  return scratch.used_bytes();
}
std::int64_t bytes_for(const op::ConvolutionWeightGradient&, const ConvolutionSizes& sizes, int) {
  Scratch scratch(nullptr);
  const GradientScratch kept(scratch, sizes.channels, sizes.outputs);
  return scratch.used_bytes();
}

/// visit(row, its sizes) for a convolution or a gradient of one; `otherwise` of any other row.
template <class Result, class Visit>
Result for_convolution(const op::Op& op, op::Shapes all, Result otherwise, Visit visit) {
  return op::visit_row(
      [&]<class Row>(const Row& row) -> Result {
        if constexpr (requires { convolution_sizes(row, all); })
          return visit(row, convolution_sizes(row, all));
        else
          return otherwise;
      },
      op);
}

}  // namespace

bool computes(const op::Op& op, op::Shapes all, DType dtype) {
  if (dtype != DType::f32) return false;
  return for_convolution(op, all, false, [](const auto&, const ConvolutionSizes& s) {
    constexpr std::int64_t least_channels = 24, least_tiles = 32;
    return s.kernel_height == taps && s.kernel_width == taps && s.stride == 1 && s.padding == 1 &&
           s.channels >= least_channels && s.outputs >= least_channels && s.height >= given &&
           s.width >= given && tiles_of_x(s).count() >= least_tiles;
  });
}

Run prepare(const Problem& problem) {
  return for_convolution(problem.op, problem.shapes, Run(),
                         [&](const auto& row, const ConvolutionSizes& sizes) {
                           return prepare_row(row, sizes, problem.threads);
                         });
}

std::int64_t workspace_bytes(const Problem& problem) {
  return for_convolution(problem.op, problem.shapes, std::int64_t{0},
                         [&](const auto& row, const ConvolutionSizes& sizes) {
                           return bytes_for(row, sizes, problem.threads);
                         });
}

}  // namespace fourfold::kernels::cpu::winograd
