// A product of matrices by one thread, for operands that lie in a cache of a core or beyond it:
// register tiles of rows of a and packed panels of b. What is needed next is asked for meanwhile.
// With AVX-512 rows are read where they lie; with AVX2, whose smaller caches rows that are a power
// of two apart would thrash, they are copied into strips, unless they lie close and pass under few
// panels. Not a BLAS: no threads, and large matrices are better computed by a library.
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
/// broadcast fill 29 of 32 registers; with AVX2 two, whose panel takes half of one of 32 KiB.
/// GFLOP/s of one Xeon core, operands in the second-level cache: 6 x 4 222-228, 12 x 2 200-212,
/// which loads more for each product.
inline constexpr std::int64_t block_tile_rows = 6;
#ifdef __AVX512F__
inline constexpr int block_tile_vectors = 4;
inline constexpr std::int64_t block_inner = 128;
inline constexpr bool copies_rows = false;
#else
inline constexpr int block_tile_vectors = 2;
inline constexpr std::int64_t block_inner = 256;
inline constexpr bool copies_rows = true;
#endif

/// Columns of a whole panel, and its elements.
template <class T>
inline constexpr std::int64_t block_columns = block_tile_vectors * TileSimd<T>::lanes;
template <class T>
inline constexpr std::int64_t block_panel_elements = block_inner * block_columns<T>;

/// Panels that are packed at once. Copied rows stay in the cache meanwhile, so that four panels
/// read whole lines of b; where rows are not copied one is packed while they pass.
inline constexpr std::int64_t block_group = copies_rows ? 4 : 1;

/// Rows that pass under panels before the next ones: of them what a product of `block_inner` reads
/// stays in a second-level cache, of which strips fill half of 512 KiB.
template <class T>
inline constexpr std::int64_t block_rows =
    copies_rows ? 43 * block_tile_rows * 4 / static_cast<std::int64_t>(sizeof(T)) : 1536;

/// A cache line, in elements.
template <class T>
inline constexpr std::int64_t line_elements = 64 / static_cast<std::int64_t>(sizeof(T));

/// A strip of copied rows, in elements, and a line after it: what is written beyond its end goes
/// there, and strips that are written together lie in different sets of a cache.
template <class T>
inline constexpr std::int64_t block_strip_elements =
    block_tile_rows * block_inner + line_elements<T>;

/// Scratch of one thread for a product, in elements: packed panels, and strips.
template <class T>
std::int64_t block_panels_elements(const ContractSizes& sizes) {
  return std::min(block_group, ceil_divide(sizes.n, block_columns<T>)) * block_panel_elements<T>;
}
template <class T>
std::int64_t block_strips_elements(const ContractSizes& sizes) {
  if (!copies_rows) return 0;
  const std::int64_t strips = ceil_divide(std::min(block_rows<T>, sizes.m), block_tile_rows);
  return strips * block_strip_elements<T>;
}

/// A window of a product: rows and columns of out (m, n), and what it sums over, which is all that
/// `sizes` tells.
template <class T>
struct BlockProduct {
  const T *a, *b;
  T* out;
  ContractSizes sizes;
  Range rows, columns;
  bool accumulate;
  T *panels, *strips;  // scratch of block_panels_elements and block_strips_elements
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
    for (; inner + lanes <= inner_count; inner += lanes) {
      const T* const from = b + inner + column * column_stride;
      if (copies_rows && inner % line_elements<T> == 0)
#pragma GCC unroll 16
        for (std::int64_t c = lanes; c < 2 * lanes; ++c)
          __builtin_prefetch(from + c * column_stride, 0, 3);
      transpose_square<TileSimd<T>>(from, column_stride, T{1}, panel + inner * columns + column,
                                    columns);
    }
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
    for (std::int64_t i = 0; i < lines_at_once && rows > 0; ++i) {
      __builtin_prefetch(at + done, 0, 2);
      done += line_elements<T>;
      if (done < length) continue;
      done = 0;
      at += stride;
      --rows;
    }
  }
};

/// Where a tile finds element (row, inner) of a, from its first one: at row * stride + inner; where
/// a is transposed at row + inner * stride; in a strip at row + inner * block_tile_rows.
enum class RowsIn { matrix, transposed, strip };

/// What a tile asks for while it computes, beside the walk: the next tile's rows of a, its rows of
/// out.
enum class Fetches { neither, a, out, both };

/// out (rows, present columns) (+)= a panel; next_a and next_out are what `fetches` says, as they
/// lie here. No loop around a fetch has a length that the CPU does not foresee: a tile takes 1500
/// cycles, and each loop whose end surprises it 20. With AVX2 steps are unrolled: with one at a
/// time a tile takes 8 % longer.
template <class T, int rows, int vectors, RowsIn rows_in, Fetches fetches>
void block_tile(std::int64_t inner_count, const T* a, std::int64_t stride, const T* panel,
                std::int64_t present, bool accumulate, T* out, std::int64_t out_stride,
                const T* next_a, const T* next_out, FetchWalk<T>& walk) {
  using V = typename TileSimd<T>::Vector;
  constexpr std::int64_t lanes = TileSimd<T>::lanes, columns = vectors * lanes;
  constexpr std::int64_t steps = 16;
  V sums[rows][vectors] = {};
  const T* column = a;
  const auto add_next = [&]() __attribute__((always_inline)) {
    V right[vectors];
    for (int v = 0; v < vectors; ++v) right[v] = TileSimd<T>::load(panel + v * lanes);
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) {
      const T factor = column[rows_in == RowsIn::matrix ? row * stride : row];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[row][v] += factor * right[v];
    }
    panel += columns;
    column += rows_in == RowsIn::matrix       ? 1
              : rows_in == RowsIn::transposed ? stride
                                              : block_tile_rows;
  };
  for (std::int64_t begin = 0; begin < inner_count; begin += steps) {
    if constexpr (fetches == Fetches::a || fetches == Fetches::both) {
      if constexpr (rows_in == RowsIn::transposed)
#pragma GCC unroll 16
        for (std::int64_t inner = 0; inner < steps; ++inner)
          __builtin_prefetch(next_a + (begin + inner) * stride, 0, 3);
      else
#pragma GCC unroll 6
        for (std::int64_t row = 0; row < rows; ++row)
          __builtin_prefetch(next_a + row * stride + begin, 0, 3);
    }
    if constexpr (fetches == Fetches::out || fetches == Fetches::both)
#pragma GCC unroll 4
      for (std::int64_t v = 0; v < vectors; v += 64 / register_bytes)
        __builtin_prefetch(next_out + begin / steps * out_stride + v * lanes, 1, 3);
    if constexpr (copies_rows) {
      if (begin + steps <= inner_count) {
#pragma GCC unroll 8
        for (std::int64_t step = 0; step < steps; ++step) add_next();
        continue;
      }
    } else {
      walk.step();
    }
    const std::int64_t end = std::min(inner_count, begin + steps);
    for (std::int64_t inner = begin; inner < end; ++inner) add_next();
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
  const T* panel;
  FetchWalk<T> walk;
};

template <class T, int vectors, RowsIn rows_in, Fetches fetches>
void multiply_tiles(const BlockProduct<T>& of, PanelTask<T> task) {
  const ContractSizes& s = of.sizes;
  const std::int64_t stride = rows_in == RowsIn::transposed ? s.a_inner_stride : s.a_row_stride;
  const std::int64_t present =
      std::min(vectors * TileSimd<T>::lanes, of.columns.last - task.column);
  const auto tile = [&]<int count, Fetches own>(std::integral_constant<int, count>,
                                                std::integral_constant<Fetches, own>,
                                                std::int64_t row) {
    const T* const a =
        rows_in == RowsIn::strip
            ? of.strips + (row - task.rows.first) / block_tile_rows * block_strip_elements<T>
            : of.a + row * s.a_row_stride + task.inner.first * s.a_inner_stride;
    T* const out = of.out + row * s.n + task.column;
    if constexpr (copies_rows) task.walk.step();
    // Where a is transposed, the next tile's elements lie beside this one's, mostly in lines that
    // are there.
    block_tile<T, count, vectors, rows_in, own>(
        task.inner.last - task.inner.first, a, stride, task.panel, present,
        of.accumulate || task.inner.first > 0, out, s.n,
        a + (rows_in == RowsIn::transposed ? 2 : 1) * block_tile_rows * s.a_row_stride,
        out + block_tile_rows * s.n, task.walk);
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

/// What this panel asks for of the next panels of b that are packed at once, as lines to walk: an
/// even share of them. They end with its tiles, where rows are copied a step for each tile, else
/// one for each vector of inner indices. Where rows are copied and b is transposed nothing is: each
/// column of it is one stretch of memory, and asking for it twice costs 3 %.
template <class T>
FetchWalk<T> walk_to_next_group(const BlockProduct<T>& of, const PanelTask<T>& task) {
  const ContractSizes& s = of.sizes;
  const bool has_rows = s.b_column_stride == 1;
  if (copies_rows && !has_rows) return FetchWalk<T>{};
  constexpr std::int64_t width = block_group * block_columns<T>;
  const std::int64_t inner_count = task.inner.last - task.inner.first;
  const std::int64_t num_columns = of.columns.last - of.columns.first;
  const std::int64_t at = task.column - of.columns.first, group = at / width * width;
  const auto place = static_cast<int>((at - group) / block_columns<T>);
  const auto places =
      static_cast<int>(ceil_divide(std::min(width, num_columns - group), block_columns<T>));
  const bool is_last = group + width >= num_columns;
  const std::int64_t inner = is_last ? task.inner.last : task.inner.first;
  const std::int64_t column = of.columns.first + (is_last ? 0 : group + width);
  const std::int64_t rows = std::min(inner_count, s.k - inner);
  if (rows <= 0) return FetchWalk<T>{};
  const std::int64_t columns = std::min(width, of.columns.last - column);
  const T* const from = of.b + inner * s.b_inner_stride + column * s.b_column_stride;
  const std::int64_t stride = has_rows ? s.b_inner_stride : s.b_column_stride;
  const Range share = range_of(place, places, has_rows ? rows : columns, 1);
  FetchWalk<T> walk{from + share.first * stride, stride, has_rows ? columns : rows,
                    share.last - share.first, 0};
  const std::int64_t tiles = ceil_divide(task.rows.last - task.rows.first, block_tile_rows);
  const std::int64_t steps = copies_rows ? 1 : ceil_divide(inner_count, TileSimd<T>::lanes);
  walk.lines_at_once =
      ceil_divide(walk.rows * ceil_divide(walk.length, line_elements<T>), tiles * steps);
  return walk;
}

/// One panel, `vectors` vectors wide. What is asked for meanwhile: the next rows of out and the
/// next panels of b. Where rows lie in the matrix, those of out only where they are first written,
/// and with the first panel of these rows the next rows of a, which later panels find in a cache.
template <class T, int vectors, RowsIn rows_in>
void multiply_panel(const BlockProduct<T>& of, PanelTask<T> task) {
  task.walk = walk_to_next_group(of, task);
  const bool reads_a_first = task.column == of.columns.first;
  const bool writes_first = task.inner.first == 0;
  if constexpr (rows_in == RowsIn::strip)
    multiply_tiles<T, vectors, rows_in, Fetches::out>(of, task);
  else if (reads_a_first && writes_first)
    multiply_tiles<T, vectors, rows_in, Fetches::both>(of, task);
  else if (reads_a_first)
    multiply_tiles<T, vectors, rows_in, Fetches::a>(of, task);
  else if (writes_first)
    multiply_tiles<T, vectors, rows_in, Fetches::out>(of, task);
  else
    multiply_tiles<T, vectors, rows_in, Fetches::neither>(of, task);
}

/// Copies some strips of a transposed matrix, all rows of an inner index after another, of which
/// four are asked for ahead: so long stretches are read.
template <class T>
void pack_strips_of_columns(const T* a, std::int64_t stride, std::int64_t inner_count,
                            std::int64_t num_strips, T* strips) {
  constexpr std::int64_t lanes = Simd<T>::lanes, ahead = 4;
  const std::int64_t rows = num_strips * block_tile_rows;
  for (std::int64_t inner = 0; inner < inner_count; ++inner, a += stride) {
    for (std::int64_t row = 0; row < rows; row += line_elements<T>)
      __builtin_prefetch(a + ahead * stride + row, 0, 3);
    for (std::int64_t strip = 0; strip < num_strips; ++strip)
      for (std::int64_t row = 0; row < block_tile_rows; row += lanes)
        Simd<T>::store(Simd<T>::load(a + strip * block_tile_rows + row),
                       strips + strip * block_strip_elements<T> + inner * block_tile_rows + row);
  }
}

/// Copies a strip of six rows, and asks for those of the next one.
template <class T>
void pack_strip_of_rows(const T* a, std::int64_t stride, std::int64_t inner_count, T* strip) {
  constexpr std::int64_t lanes = Simd<T>::lanes;
  std::int64_t inner = 0;
  for (; inner + lanes <= inner_count; inner += lanes) {
    if (inner % line_elements<T> == 0)
#pragma GCC unroll 6
      for (std::int64_t row = block_tile_rows; row < 2 * block_tile_rows; ++row)
        __builtin_prefetch(a + row * stride + inner, 0, 3);
    for (std::int64_t row = (block_tile_rows - 1) / lanes * lanes; row >= 0; row -= lanes)
      transpose_square<Simd<T>>(a + row * stride + inner, stride, T{1},
                                strip + inner * block_tile_rows + row, block_tile_rows);
  }
  for (; inner < inner_count; ++inner)
    for (std::int64_t row = 0; row < block_tile_rows; ++row)
      strip[inner * block_tile_rows + row] = a[row * stride + inner];
}

/// Copies rows of a to strips. Vectors are wider than a strip: rows after it are read too, where
/// there are such, and what is written beyond an inner index of it the next one overwrites.
template <class T>
void pack_strips(const BlockProduct<T>& of, Range inner, Range rows) {
  const ContractSizes& s = of.sizes;
  constexpr std::int64_t lanes = Simd<T>::lanes;
  constexpr std::int64_t surplus = ceil_divide(block_tile_rows, lanes) * lanes - block_tile_rows;
  const std::int64_t count = inner.last - inner.first;
  const std::int64_t readable = std::min(rows.last, s.m - surplus) - rows.first;
  const std::int64_t by_vectors = std::max<std::int64_t>(0, readable / block_tile_rows);
  const T* const a = of.a + rows.first * s.a_row_stride + inner.first * s.a_inner_stride;
  if (s.is_a_transposed())
    pack_strips_of_columns(a, s.a_inner_stride, count, by_vectors, of.strips);
  else
    for (std::int64_t strip = 0; strip < by_vectors; ++strip)
      pack_strip_of_rows(a + strip * block_tile_rows * s.a_row_stride, s.a_row_stride, count,
                         of.strips + strip * block_strip_elements<T>);
  for (std::int64_t row = by_vectors * block_tile_rows; row < rows.last - rows.first; ++row)
    for (std::int64_t i = 0; i < count; ++i)
      of.strips[row / block_tile_rows * block_strip_elements<T> + i * block_tile_rows +
                row % block_tile_rows] = a[row * s.a_row_stride + i * s.a_inner_stride];
}

/// Packs the panels of a group: of columns from `first` on, which end where its columns do.
template <class T>
void pack_group(const BlockProduct<T>& of, Range inner, std::int64_t first) {
  const ContractSizes& s = of.sizes;
  constexpr std::int64_t lanes = TileSimd<T>::lanes;
  const std::int64_t last = std::min(of.columns.last, first + block_group * block_columns<T>);
  const std::int64_t count = inner.last - inner.first;
  const T* const from = of.b + inner.first * s.b_inner_stride + first * s.b_column_stride;
  std::int64_t packed = 0;
  if (s.b_column_stride == 1) {  // row by row of b through all whole panels
    constexpr std::int64_t ahead = 8;
    const std::int64_t whole = (last - first) / block_columns<T>;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t panel = 0; copies_rows && panel < whole; ++panel)
        __builtin_prefetch(from + (i + ahead) * s.b_inner_stride + panel * block_columns<T>, 0, 3);
      for (std::int64_t panel = 0; panel < whole; ++panel)
        for (std::int64_t at = 0; at < block_columns<T>; at += lanes)
          TileSimd<T>::store(
              TileSimd<T>::load(from + i * s.b_inner_stride + panel * block_columns<T> + at),
              of.panels + panel * block_panel_elements<T> + i * block_columns<T> + at);
    }
    packed = whole;
  }
  for (; first + packed * block_columns<T> < last; ++packed) {
    const std::int64_t column = packed * block_columns<T>;
    const std::int64_t present = std::min(block_columns<T>, last - first - column);
    with_constant<block_tile_vectors>(
        ceil_divide(present, lanes), [&]<int vectors>(std::integral_constant<int, vectors>) {
          pack_block<T, vectors>(from + column * s.b_column_stride, s.b_inner_stride,
                                 s.b_column_stride, count, present,
                                 of.panels + packed * block_panel_elements<T>);
        });
  }
}

/// True if rows are read where they lie although others are copied: copying them takes a sixth of
/// the time under 8 panels and 5 % under 32, and six of them do not fall into one set of a cache.
template <class T>
bool leaves_rows(const BlockProduct<T>& of) {
  constexpr std::int64_t most_columns = 32 * block_columns<T>, most_bytes = 3072;
  return !of.sizes.is_a_transposed() && of.columns.last - of.columns.first <= most_columns &&
         of.sizes.a_row_stride * static_cast<std::int64_t>(sizeof(T)) <= most_bytes;
}

/// All columns for some rows and inner indices.
template <class T>
void multiply_rows(const BlockProduct<T>& of, Range inner, Range rows) {
  constexpr std::int64_t lanes = TileSimd<T>::lanes;
  const bool copies = copies_rows && !leaves_rows(of);
  if (copies) pack_strips(of, inner, rows);
  for (std::int64_t column = of.columns.first; column < of.columns.last;
       column += block_columns<T>) {
    const std::int64_t place = (column - of.columns.first) / block_columns<T> % block_group;
    if (place == 0) pack_group(of, inner, column);
    const PanelTask<T> task{inner, rows, column, of.panels + place * block_panel_elements<T>,
                            FetchWalk<T>{}};
    const std::int64_t vectors =
        ceil_divide(std::min(block_columns<T>, of.columns.last - column), lanes);
    with_constant<block_tile_vectors>(vectors, [&]<int count>(std::integral_constant<int, count>) {
      if (!copies && !of.sizes.is_a_transposed())
        multiply_panel<T, count, RowsIn::matrix>(of, task);
      else if constexpr (copies_rows)
        multiply_panel<T, count, RowsIn::strip>(of, task);
      else
        multiply_panel<T, count, RowsIn::transposed>(of, task);
    });
  }
}

/// Computes it. Sums go over `block_inner` inner indices at once, evenly cut, so that their order
/// depends on k alone.
template <class T>
void multiply_block(const BlockProduct<T>& of) {
  const std::int64_t num_rows = of.rows.last - of.rows.first;
  const auto row_blocks = static_cast<int>(ceil_divide(num_rows, block_rows<T>));
  const auto inner_blocks = static_cast<int>(ceil_divide(of.sizes.k, block_inner));
  for (int row_block = 0; row_block < row_blocks; ++row_block) {
    const Range rows = range_of(row_block, row_blocks, num_rows, block_tile_rows);
    for (int block = 0; block < inner_blocks; ++block)
      multiply_rows(of, range_of(block, inner_blocks, of.sizes.k, 1),
                    {of.rows.first + rows.first, of.rows.first + rows.last});
  }
}

}  // namespace fourfold::kernels::cpu
