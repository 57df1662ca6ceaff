// Convolution and its gradients by own register tiles: what "vector" is, and all there is in f64.
// Each is a product of matrices, one of them a matrix of patches (picture_sizes.h), of which only
// the block in use is written out. Each sum has one thread, so results do not depend on their
// number.
#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/picture_sizes.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

// A block of patches stays in the second-level cache, a panel in the first.
constexpr std::int64_t rows_at_once = 96;
constexpr std::int64_t inner_at_once = 256;
/// Panels that a block of patches serves before it is written out again.
constexpr std::int64_t panels_at_once = 8;

/// body(tap, first channel, count, offset of it) for `count` elements of a row of patches from
/// `element` on, cut where a tap ends.
template <class Body>
void for_taps(const Patches& patches, std::int64_t element, std::int64_t count, Body body) {
  std::int64_t tap = element / patches.channels, channel = element % patches.channels;
  for (std::int64_t done = 0; done < count; ++tap, channel = 0) {
    const std::int64_t run = std::min(patches.channels - channel, count - done);
    body(tap, channel, run, done);
    done += run;
  }
}

/// `count` elements from `element` on of the rows [first, first + rows) of a matrix of patches.
template <class T>
void write_patches(const Patches& patches, const T* pixels, std::int64_t first, std::int64_t rows,
                   std::int64_t element, std::int64_t count, T* to, std::int64_t to_stride) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const Patches::Place place = patches.place(first + row);
    T* const line = to + row * to_stride;
    for_taps(patches, element, count,
             [&](std::int64_t tap, std::int64_t channel, std::int64_t run, std::int64_t offset) {
               const std::int64_t pixel =
                   patches.pixel(place, tap / patches.across.taps, tap % patches.across.taps);
               if (pixel < 0)
                 std::fill_n(line + offset, run, T{0});
               else
                 std::copy_n(pixels + pixel + channel, run, line + offset);
             });
  }
}

/// Pieces of a workspace, one of each for every thread.
template <class T>
struct Blocks {
  T *patches, *panels;
  Blocks(Scratch& scratch, int threads)
      : patches(scratch.take<T>(threads * rows_at_once * inner_at_once)),
        panels(scratch.take<T>(threads * inner_at_once * panel_columns<T>)) {}
  T* patches_of(int part) const { return patches + part * rows_at_once * inner_at_once; }
  T* panel_of(int part) const { return panels + part * inner_at_once * panel_columns<T>; }
};

/// out (rows, columns) = patches (rows, K) times a matrix (K, columns) of which
/// pack(inner, count, column, columns, panel) packs a panel.
template <class T, class Pack>
void multiply_patches(const Patches& patches, const T* pixels, std::int64_t rows,
                      std::int64_t columns, Pack pack, int threads, std::byte* memory, T* out) {
  constexpr std::int64_t columns_at_once = panels_at_once * panel_columns<T>;
  const std::int64_t row_blocks = ceil_divide(rows, rows_at_once),
                     column_blocks = ceil_divide(columns, columns_at_once);
  Scratch scratch(memory);
  const Blocks<T> blocks(scratch, threads);
  const int parts = team_size(threads, rows * columns);
  const auto multiply_block = [&](std::int64_t row, std::int64_t column, int part) {
    const std::int64_t count = std::min(rows_at_once, rows - row),
                       end = std::min(columns, column + columns_at_once);
    for (std::int64_t inner = 0; inner < patches.elements(); inner += inner_at_once) {
      const std::int64_t depth = std::min(inner_at_once, patches.elements() - inner);
      const auto all = [depth](auto...) { return Inner{0, depth}; };
      write_patches(patches, pixels, row, count, inner, depth, blocks.patches_of(part), depth);
      for (std::int64_t first = column; first < end; first += panel_columns<T>) {
        const std::int64_t present = std::min(panel_columns<T>, end - first);
        pack(inner, depth, first, present, blocks.panel_of(part));
        tile_product(count, present, all, Left<T>{blocks.patches_of(part), depth, 1},
                     Panels<T>{blocks.panel_of(part), 0}, inner > 0, out + row * columns + first,
                     columns);
      }
    }
  };
  for_parts(parts, [&](int part) {
    const Range range = range_of(part, parts, row_blocks * column_blocks, 1);
    for (std::int64_t block = range.first; block < range.last; ++block)
      multiply_block(block / column_blocks * rows_at_once, block % column_blocks * columns_at_once,
                     part);
  });
}

/// weight_grad (O, K) (+)= the transpose of y_grad (places, O) times patches (places, K).
template <class T>
void weight_gradient(const Patches& patches, const T* x, const T* y_grad, std::int64_t places,
                     std::int64_t outputs, bool accumulate, int threads, std::byte* memory,
                     T* weight_grad) {
  const std::int64_t columns = patches.elements();
  const std::int64_t row_blocks = ceil_divide(outputs, rows_at_once),
                     column_blocks = ceil_divide(columns, panel_columns<T>);
  Scratch scratch(memory);
  const Blocks<T> blocks(scratch, threads);
  const int parts = team_size(threads, places * columns);
  const auto multiply_block = [&](std::int64_t row, std::int64_t column, T* panel) {
    const std::int64_t present = std::min(panel_columns<T>, columns - column);
    if (present < panel_columns<T>) std::fill_n(panel, inner_at_once * panel_columns<T>, T{0});
    for (std::int64_t inner = 0; inner < places; inner += inner_at_once) {
      const std::int64_t depth = std::min(inner_at_once, places - inner);
      const auto all = [depth](auto...) { return Inner{0, depth}; };
      write_patches(patches, x, inner, depth, column, present, panel, panel_columns<T>);
      tile_product(std::min(rows_at_once, outputs - row), present, all,
                   Left<T>{y_grad + inner * outputs + row, 1, outputs}, Panels<T>{panel, 0},
                   accumulate || inner > 0, weight_grad + row * columns + column, columns);
    }
  };
  for_parts(parts, [&](int part) {
    const Range range = range_of(part, parts, row_blocks * column_blocks, 1);
    for (std::int64_t block = range.first; block < range.last; ++block)
      multiply_block(block / column_blocks * rows_at_once, block % column_blocks * panel_columns<T>,
                     blocks.panel_of(part));
  });
}

std::int64_t bytes_of_blocks(const Problem& problem) {
  Scratch scratch(nullptr);
  if (problem.dtype == DType::f64)
    Blocks<double>(scratch, problem.threads);
  else
    Blocks<float>(scratch, problem.threads);
  return scratch.used_bytes();
}

}  // namespace

Run prepare_row(const op::Convolution& op, const Problem& problem) {
  const ConvolutionSizes sizes = convolution_sizes(op, problem.shapes);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, patches = patches_of_x(sizes), threads = problem.threads](Tensors operands,
                                                                             Workspace workspace) {
      // Element (k, o) of the second matrix is weight[o, k].
      const auto pack = [&, weight_OK = operands[1].as<T>(), stride = patches.elements()](
                            std::int64_t inner, std::int64_t depth, std::int64_t o,
                            std::int64_t count, T* panel) {
        pack_panels(weight_OK + o * stride + inner, 1, stride, depth, count, T{1}, panel);
      };
      multiply_patches<T>(patches, operands[0].as<T>(), sizes.places(), sizes.outputs, pack,
                          threads, workspace.data(), operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::ConvolutionGradient& op, const Problem& problem) {
  const ConvolutionSizes sizes = convolution_sizes(op, problem.shapes);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, patches = patches_of_y_grad(sizes), threads = problem.threads](
               Tensors operands, Workspace workspace) {
      // Element ((tap, o), c) of the second matrix is weight[o, tap, c].
      const auto pack = [&, weight_OTC = operands[1].as<T>()](std::int64_t inner,
                                                              std::int64_t depth, std::int64_t c,
                                                              std::int64_t count, T* panel) {
        for_taps(patches, inner, depth,
                 [&](std::int64_t tap, std::int64_t o, std::int64_t run, std::int64_t offset) {
                   pack_panels(weight_OTC + (o * sizes.taps() + tap) * sizes.channels + c,
                               sizes.taps() * sizes.channels, 1, run, count, T{1},
                               panel + offset * panel_columns<T>);
                 });
      };
      multiply_patches<T>(patches, operands[0].as<T>(), sizes.pixels(), sizes.channels, pack,
                          threads, workspace.data(), operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::ConvolutionWeightGradient& op, const Problem& problem) {
  const ConvolutionSizes sizes = convolution_sizes(op, problem.shapes);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, patches = patches_of_x(sizes), accumulate = op.accumulate,
            threads = problem.threads](Tensors operands, Workspace workspace) {
      weight_gradient<T>(patches, operands[0].as<T>(), operands[1].as<T>(), sizes.places(),
                         sizes.outputs, accumulate, threads, workspace.data(), operands[2].as<T>());
    };
  });
}

std::int64_t workspace_bytes(const op::Convolution&, const Problem& problem) {
  return bytes_of_blocks(problem);
}
std::int64_t workspace_bytes(const op::ConvolutionGradient&, const Problem& problem) {
  return bytes_of_blocks(problem);
}
std::int64_t workspace_bytes(const op::ConvolutionWeightGradient&, const Problem& problem) {
  return bytes_of_blocks(problem);
}

}  // namespace fourfold::kernels::cpu
