// A product of matrices by one thread, for operands that lie in a cache of a core or beyond it:
// register tiles, a panel of b packed for each of them, and what is needed next asked for
// meanwhile. Not a BLAS: no threads, and matrices that are larger than a second-level cache are
// better computed by a library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/contract_sizes.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_product.h"

namespace fourfold::kernels::cpu {

/// A tile has six rows of whole vectors: with AVX-512 four, whose panel of 64 columns and 128 inner
/// indices takes two thirds of a first-level cache of 48 KiB, and 24 accumulators, 4 operands and a
/// broadcast fill 29 of 32 registers; with AVX2 two. GFLOP/s of one Xeon core, operands in the
/// second-level cache: 6 x 4 222-228, 12 x 2 200-212, which loads more for each product.
inline constexpr std::int64_t block_tile_rows = 6;
#ifdef __AVX512F__
inline constexpr int block_tile_vectors = 4;
inline constexpr std::int64_t block_inner = 128;
#else
inline constexpr int block_tile_vectors = 2;
inline constexpr std::int64_t block_inner = 256;
#endif

/// Columns of a whole panel, and its elements.
template <class T>
inline constexpr std::int64_t block_columns = block_tile_vectors * TileSimd<T>::lanes;
template <class T>
inline constexpr std::int64_t block_panel_elements = block_inner * block_columns<T>;

/// Rows that pass under a panel before the next one: of them what a product of `block_inner` reads
/// stays in a second-level cache.
inline constexpr std::int64_t block_rows = 1536;

/// A window of a product: rows and columns of out (m, n), and what it sums over, which is all that
/// `sizes` tells.
template <class T>
struct BlockProduct {
  const T *a, *b;
  T* out;
  ContractSizes sizes;
  Range rows, columns;
  bool accumulate;
  T* panel;  // scratch of block_panel_elements
};

/// Packs element (inner, column) of b, at b[inner * inner_stride + column * column_stride], to
/// panel[inner * columns + column], zeros beyond the columns that are present.
template <class T, int vectors>
void pack_block(const T* b, std::int64_t inner_stride, std::int64_t column_stride,
                std::int64_t inner_count, std::int64_t present, T* panel) {
  constexpr std::int64_t lanes = TileSimd<T>::lanes, columns = vectors * lanes;
  if (column_stride == 1 && present == columns) {
    for (std::int64_t inner = 0; inner < inner_count; ++inner)
      for (std::int64_t at = 0; at < columns; at += lanes)
        TileSimd<T>::store(TileSimd<T>::load(b + inner * inner_stride + at),
                           panel + inner * columns + at);
    return;
  }
  std::int64_t column = 0;
  for (; inner_stride == 1 && column + lanes <= present; column += lanes) {
    std::int64_t inner = 0;
    for (; inner + lanes <= inner_count; inner += lanes)
      transpose_square<TileSimd<T>>(b + inner + column * column_stride, column_stride, T{1},
                                    panel + inner * columns + column, columns);
    for (; inner < inner_count; ++inner)
      for (std::int64_t c = column; c < column + lanes; ++c)
        panel[inner * columns + c] = b[inner + c * column_stride];
  }
  for (std::int64_t inner = 0; inner < inner_count; ++inner)
    for (std::int64_t c = column; c < columns; ++c)
      panel[inner * columns + c] = c < present ? b[inner * inner_stride + c * column_stride] : T{0};
}

/// Lines of a matrix that are wanted next, asked for a few at a time, one row of it after another.
template <class T>
struct FetchWalk {
  const T* at;
  std::int64_t stride, length;  // of a row
  std::int64_t rows;            // that are left
  std::int64_t lines_at_once;
  std::int64_t done = 0;  // of a row

  void step() {
    constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t i = 0; i < lines_at_once && rows > 0; ++i) {
      __builtin_prefetch(at + done, 0, 2);
      done += line;
      if (done < length) continue;
      done = 0;
      at += stride;
      --rows;
    }
  }
};

/// What a tile asks for while it computes, beside the walk: the next tile's rows of a, its rows of
/// out.
enum class Fetches { neither, a, out, both };

/// out (rows, present columns) (+)= a panel. Element (row, inner) of a lies at a[row * stride +
/// inner], or where `transposed` at a[row + inner * stride]; next_a and next_out are what `fetches`
/// says, as they lie here. No loop around a fetch has a length that the CPU does not foresee: a
/// tile takes 1500 cycles, and each loop whose end surprises it 20.
template <class T, int rows, int vectors, bool transposed, Fetches fetches>
void block_tile(std::int64_t inner_count, const T* a, std::int64_t stride, const T* panel,
                std::int64_t present, bool accumulate, T* out, std::int64_t out_stride,
                const T* next_a, const T* next_out, FetchWalk<T>& walk) {
  using V = typename TileSimd<T>::Vector;
  constexpr std::int64_t lanes = TileSimd<T>::lanes, columns = vectors * lanes;
  V sums[rows][vectors] = {};
  for (std::int64_t begin = 0; begin < inner_count; begin += lanes) {
    if constexpr (fetches == Fetches::a || fetches == Fetches::both) {
      if constexpr (transposed)
#pragma GCC unroll 16
        for (std::int64_t inner = 0; inner < lanes; ++inner)
          __builtin_prefetch(next_a + (begin + inner) * stride, 0, 3);
      else
#pragma GCC unroll 6
        for (std::int64_t row = 0; row < rows; ++row)
          __builtin_prefetch(next_a + row * stride + begin, 0, 3);
    }
    if constexpr (fetches == Fetches::out || fetches == Fetches::both)
#pragma GCC unroll 4
      for (std::int64_t v = 0; v < vectors; ++v)
        __builtin_prefetch(next_out + begin / lanes * out_stride + v * lanes, 1, 3);
    walk.step();
    const std::int64_t end = std::min(inner_count, begin + lanes);
    for (std::int64_t inner = begin; inner < end; ++inner) {
      V right[vectors];
      for (int v = 0; v < vectors; ++v)
        right[v] = TileSimd<T>::load(panel + inner * columns + v * lanes);
      const T* column = a + (transposed ? inner * stride : inner);
#pragma GCC unroll 6
      for (int row = 0; row < rows; ++row) {
        const T factor = column[transposed ? row : row * stride];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[row][v] += factor * right[v];
      }
    }
  }
  if (present == columns) {
    // Two loops without a branch: with one inside the accumulators go through memory.
    if (accumulate)
#pragma GCC unroll 6
      for (int row = 0; row < rows; ++row)
        for (int v = 0; v < vectors; ++v)
          sums[row][v] += TileSimd<T>::load(out + row * out_stride + v * lanes);
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row)
      for (int v = 0; v < vectors; ++v)
        TileSimd<T>::store(sums[row][v], out + row * out_stride + v * lanes);
    return;
  }
  T spill[rows][columns];
  std::memcpy(spill, sums, sizeof spill);
  for (int row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < present; ++c) {
      T& to = out[row * out_stride + c];
      to = accumulate ? to + spill[row][c] : spill[row][c];
    }
}

/// The inner indices and rows of one panel, and what may be asked for meanwhile.
template <class T>
struct PanelTask {
  Range inner, rows;
  std::int64_t column;
  FetchWalk<T> walk;
};

template <class T, int vectors, bool transposed, Fetches fetches>
void multiply_tiles(const BlockProduct<T>& of, PanelTask<T> task) {
  const ContractSizes& s = of.sizes;
  const std::int64_t stride = transposed ? s.a_inner_stride : s.a_row_stride;
  const std::int64_t present =
      std::min(vectors * TileSimd<T>::lanes, of.columns.last - task.column);
  const auto tile = [&]<int count, Fetches own>(std::integral_constant<int, count>,
                                                std::integral_constant<Fetches, own>,
                                                std::int64_t row) {
    const T* const a = of.a + row * s.a_row_stride + task.inner.first * s.a_inner_stride;
    T* const out = of.out + row * s.n + task.column;
    // Where a is transposed, the next tile's elements lie beside this one's, mostly in lines that
    // are there.
    block_tile<T, count, vectors, transposed, own>(
        task.inner.last - task.inner.first, a, stride, of.panel, present,
        of.accumulate || task.inner.first > 0, out, s.n,
        a + (transposed ? 2 : 1) * block_tile_rows * s.a_row_stride, out + block_tile_rows * s.n,
        task.walk);
  };
  std::int64_t row = task.rows.first;
  for (; row + block_tile_rows <= task.rows.last; row += block_tile_rows)
    tile(std::integral_constant<int, static_cast<int>(block_tile_rows)>{},
         std::integral_constant<Fetches, fetches>{}, row);
  if (row < task.rows.last)
    with_constant<static_cast<int>(block_tile_rows)>(task.rows.last - row, [&](auto count) {
      tile(count, std::integral_constant<Fetches, Fetches::neither>{}, row);
    });
}

/// The next panel of b as lines to walk, in steps that end with the tiles of this one.
template <class T>
FetchWalk<T> walk_to_next_panel(const BlockProduct<T>& of, const PanelTask<T>& task) {
  const ContractSizes& s = of.sizes;
  constexpr std::int64_t lanes = TileSimd<T>::lanes;
  const std::int64_t inner_count = task.inner.last - task.inner.first;
  const bool is_last = task.column + block_columns<T> >= of.columns.last;
  const std::int64_t inner = is_last ? task.inner.last : task.inner.first;
  const std::int64_t column = is_last ? of.columns.first : task.column + block_columns<T>;
  const std::int64_t rows = std::min(inner_count, s.k - inner);
  const std::int64_t columns = std::min(block_columns<T>, of.columns.last - column);
  const T* const at = of.b + inner * s.b_inner_stride + column * s.b_column_stride;
  FetchWalk<T> walk = s.b_column_stride == 1
                          ? FetchWalk<T>{at, s.b_inner_stride, columns, rows, 0}
                          : FetchWalk<T>{at, s.b_column_stride, rows, columns, 0};
  if (rows <= 0) walk.rows = 0;
  const auto parts_of = [](std::int64_t count, std::int64_t size) {
    return (count + size - 1) / size;
  };
  const std::int64_t tiles = parts_of(task.rows.last - task.rows.first, block_tile_rows);
  const std::int64_t lines =
      walk.rows * parts_of(walk.length * static_cast<std::int64_t>(sizeof(T)), 64);
  walk.lines_at_once =
      parts_of(lines, std::max<std::int64_t>(1, tiles * parts_of(inner_count, lanes)));
  return walk;
}

/// One panel, `vectors` vectors wide. What is asked for meanwhile: the next panel of b; where out
/// is first written, its next rows; with the first panel of these rows the next rows of a, which
/// later panels find in a cache.
template <class T, int vectors, bool transposed>
void multiply_panel(const BlockProduct<T>& of, Range inner, std::int64_t column, Range rows) {
  const ContractSizes& s = of.sizes;
  PanelTask<T> task{inner, rows, column, {}};
  task.walk = walk_to_next_panel(of, task);
  pack_block<T, vectors>(of.b + inner.first * s.b_inner_stride + column * s.b_column_stride,
                         s.b_inner_stride, s.b_column_stride, inner.last - inner.first,
                         std::min(vectors * TileSimd<T>::lanes, of.columns.last - column),
                         of.panel);
  const bool reads_a_first = column == of.columns.first, writes_first = inner.first == 0;
  if (reads_a_first && writes_first)
    multiply_tiles<T, vectors, transposed, Fetches::both>(of, task);
  else if (reads_a_first)
    multiply_tiles<T, vectors, transposed, Fetches::a>(of, task);
  else if (writes_first)
    multiply_tiles<T, vectors, transposed, Fetches::out>(of, task);
  else
    multiply_tiles<T, vectors, transposed, Fetches::neither>(of, task);
}

/// Computes it. Sums go over `block_inner` inner indices at once, evenly cut, so that their order
/// depends on k alone.
template <class T>
void multiply_block(const BlockProduct<T>& of) {
  constexpr std::int64_t lanes = TileSimd<T>::lanes;
  const auto blocks = static_cast<int>((of.sizes.k + block_inner - 1) / block_inner);
  for (std::int64_t row = of.rows.first; row < of.rows.last; row += block_rows)
    for (int block = 0; block < blocks; ++block)
      for (std::int64_t column = of.columns.first; column < of.columns.last;
           column += block_columns<T>) {
        const Range rows{row, std::min(of.rows.last, row + block_rows)};
        const Range inner = range_of(block, blocks, of.sizes.k, 1);
        const std::int64_t vectors =
            (std::min(block_columns<T>, of.columns.last - column) + lanes - 1) / lanes;
        with_constant<block_tile_vectors>(
            vectors, [&]<int count>(std::integral_constant<int, count>) {
              if (of.sizes.a_row_stride == 1 && of.sizes.a_inner_stride != 1)
                multiply_panel<T, count, true>(of, inner, column, rows);
              else
                multiply_panel<T, count, false>(of, inner, column, rows);
            });
      }
}

}  // namespace fourfold::kernels::cpu
