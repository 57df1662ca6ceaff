// Small products of matrices held in registers: the inner loops of contract and attention. The
// right operand is packed into panels first, in the type of the sums. Not a BLAS: no threads, no
// blocking for caches; the callers tile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/cpu/parallel.h"

namespace fourfold::kernels::cpu {

/// A vector register of 32 bytes (AVX2; two registers elsewhere), or of as many as are asked for.
template <class T, std::int64_t bytes = 32>
struct Simd {
  typedef T Vector __attribute__((vector_size(bytes)));
  static constexpr std::int64_t lanes = bytes / static_cast<std::int64_t>(sizeof(T));
  static Vector load(const T* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
  }
  /// For floats alone: numbers in bf16, which are the upper halves of floats.
  static Vector load(const BFloat16* from)
    requires(std::is_same_v<T, float> && lanes == 8)
  {
    typedef std::uint16_t Halves __attribute__((vector_size(16)));
    typedef std::uint32_t Words __attribute__((vector_size(32)));
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    const Words words = __builtin_convertvector(halves, Words) << 16;
    Vector vector;
    std::memcpy(&vector, &words, sizeof vector);
    return vector;
  }
  static void store(const Vector& vector, T* to) { std::memcpy(to, &vector, sizeof vector); }
  /// a[0], b[0], a[1], b[1] ... of the lower or of the upper halves.
  static Vector interleaved_low(const Vector& a, const Vector& b) {
    if constexpr (lanes == 16)
      return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    else if constexpr (lanes == 8)
      return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    else
      return __builtin_shufflevector(a, b, 0, 4, 1, 5);
  }
  static Vector interleaved_high(const Vector& a, const Vector& b) {
    if constexpr (lanes == 16)
      return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                     31);
    else if constexpr (lanes == 8)
      return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    else
      return __builtin_shufflevector(a, b, 2, 6, 3, 7);
  }
};

/// Registers of a tile, its rows, and how many panels it may take at once. With AVX2 6 x 2
/// accumulators, 2 operands and a broadcast fill 15 of 16 registers; with AVX-512 12 x 2 (two
/// panels of one register) and as many others 27 of 32.
#ifdef __AVX512F__
inline constexpr std::int64_t register_bytes = 64, tile_rows = 12;
inline constexpr int tile_panels = 2;
#else
inline constexpr std::int64_t register_bytes = 32, tile_rows = 6;
inline constexpr int tile_panels = 1;
#endif
template <class T>
using TileSimd = Simd<T, register_bytes>;

/// Columns of a panel, 64 bytes of them.
template <class T>
inline constexpr std::int64_t panel_columns = 2 * Simd<T>::lanes;

template <class T>
constexpr std::int64_t padded_columns(std::int64_t columns) {
  return ceil_divide(columns, panel_columns<T>) * panel_columns<T>;
}

/// Left operand: element (row, inner) at data[row * row_stride + inner * inner_stride].
template <class T>
struct Left {
  const T* data;
  std::int64_t row_stride, inner_stride;
};

/// Right operand in panels: element (inner, column) at data[column / W * panel_stride + inner * W +
/// column % W], with W = panel_columns. Columns are padded with zeros to whole panels.
template <class T>
struct Panels {
  const T* data;
  std::int64_t panel_stride;
};

/// to[c * to_stride + r] = scale * from[r * from_stride + c] for a square of as many rows and
/// columns as a vector of Lanes, a Simd, has lanes: interleaving the rows' halves once for each
/// power of two transposes.
template <class Lanes, class Stored, class T>
void transpose_square(const Stored* from, std::int64_t from_stride, T scale, T* to,
                      std::int64_t to_stride) {
  using V = typename Lanes::Vector;
  constexpr std::int64_t lanes = Lanes::lanes;
  V rows[lanes], mixed[lanes];
  for (std::int64_t r = 0; r < lanes; ++r) rows[r] = scale * Lanes::load(from + r * from_stride);
  for (std::int64_t round = 1; round < lanes; round *= 2) {
    for (std::int64_t r = 0; r < lanes / 2; ++r) {
      mixed[2 * r] = Lanes::interleaved_low(rows[r], rows[r + lanes / 2]);
      mixed[2 * r + 1] = Lanes::interleaved_high(rows[r], rows[r + lanes / 2]);
    }
    for (std::int64_t r = 0; r < lanes; ++r) rows[r] = mixed[r];
  }
  for (std::int64_t c = 0; c < lanes; ++c) Lanes::store(rows[c], to + c * to_stride);
}

/// Packs scale * source, element (inner, column) at source[inner * inner_stride + column *
/// column_stride], to panels with panel_stride = inner_count * W.
template <class Stored, class T>
void pack_panels(const Stored* source, std::int64_t inner_stride, std::int64_t column_stride,
                 std::int64_t inner_count, std::int64_t columns, T scale, T* panels) {
  constexpr std::int64_t width = panel_columns<T>;
  for (std::int64_t first = 0; first < columns; first += width) {
    T* panel = panels + first * inner_count;
    const Stored* from = source + first * column_stride;
    const std::int64_t present = std::min(width, columns - first);
    if (present < width) std::fill_n(panel, inner_count * width, T{0});
    if (present == width && column_stride == 1) {
      for (std::int64_t inner = 0; inner < inner_count; ++inner)
        for (std::int64_t column = 0; column < width; ++column)
          panel[inner * width + column] =
              scale * static_cast<T>(from[inner * inner_stride + column]);
    } else {
      std::int64_t begin = 0;
      if (present == width && inner_stride == 1) {
        constexpr std::int64_t lanes = Simd<T>::lanes;
        for (; begin + lanes <= inner_count; begin += lanes)
          for (std::int64_t column = 0; column < width; column += lanes)
            transpose_square<Simd<T>>(from + begin + column * column_stride, column_stride, scale,
                                      panel + begin * width + column, width);
      }
      for (std::int64_t column = 0; column < present; ++column)
        for (std::int64_t inner = begin; inner < inner_count; ++inner)
          panel[inner * width + column] =
              scale * static_cast<T>(from[inner * inner_stride + column * column_stride]);
    }
  }
}

/// `rows` rows of some panels of out, which are `panel_stride` apart; `columns` of its columns
/// exist.
template <class T, int rows, int panels>
void register_tile(std::int64_t inner_count, const Left<T>& left, const T* panel,
                   std::int64_t panel_stride, std::int64_t columns, bool accumulate, T* out,
                   std::int64_t out_stride) {
  using V = typename TileSimd<T>::Vector;
  constexpr std::int64_t lanes = TileSimd<T>::lanes, width = panel_columns<T>;
  constexpr int vectors = width / lanes, all = panels * vectors;
  V sums[rows][all] = {};
  for (std::int64_t inner = 0; inner < inner_count; ++inner) {
    V right[all];
    for (int v = 0; v < all; ++v)
      right[v] = TileSimd<T>::load(panel + v / vectors * panel_stride + inner * width +
                                   v % vectors * lanes);
    const T* column = left.data + inner * left.inner_stride;
#pragma GCC unroll 12
    for (int row = 0; row < rows; ++row) {
      const T factor = column[row * left.row_stride];
      for (int v = 0; v < all; ++v) sums[row][v] += factor * right[v];
    }
  }
  if (columns == panels * width) {
    // Two loops without a branch: with one inside the accumulators go through memory.
    if (accumulate)
#pragma GCC unroll 12
      for (int row = 0; row < rows; ++row)
        for (int v = 0; v < all; ++v)
          sums[row][v] += TileSimd<T>::load(out + row * out_stride + v * lanes);
#pragma GCC unroll 12
    for (int row = 0; row < rows; ++row)
      for (int v = 0; v < all; ++v)
        TileSimd<T>::store(sums[row][v], out + row * out_stride + v * lanes);
    return;
  }
  T spill[rows][panels * width];
  std::memcpy(spill, sums, sizeof spill);
  for (int row = 0; row < rows; ++row) {
    T* to = out + row * out_stride;
    for (std::int64_t c = 0; c < columns; ++c)
      to[c] = accumulate ? to[c] + spill[row][c] : spill[row][c];
  }
}

/// Calls body with `value`, which is from 1 to `most`, as a constant.
template <int most, class Body>
void with_constant(std::int64_t value, const Body& body) {
  if constexpr (most > 1) {
    if (value < most) return with_constant<most - 1>(value, body);
  }
  body(std::integral_constant<int, most>{});
}

/// The inner indices that a register tile sums over: where one operand is known to be zero, the
/// rest is left out.
struct Inner {
  std::int64_t begin, end;
  bool operator==(const Inner&) const = default;
};

/// How often tile_product calls `before_tile`.
template <class T>
constexpr std::int64_t tile_count(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t width = tile_panels * panel_columns<T>;
  return ceil_divide(rows, tile_rows) * ceil_divide(columns, width);
}
struct AsksForNothing {
  void operator()() const {}
};

/// out (rows, columns) (+)= left (rows, inner) panels (inner, columns). inner_of(first row, end of
/// rows, first column) says what the tile of one panel sums over; a tile without any is not
/// written. Panels whose tiles sum over the same are taken together. before_tile() may ask for
/// memory.
template <class T, class InnerOf, class BeforeTile = AsksForNothing>
void tile_product(std::int64_t rows, std::int64_t columns, InnerOf inner_of, const Left<T>& left,
                  const Panels<T>& panels, bool accumulate, T* out, std::int64_t out_stride,
                  BeforeTile&& before_tile = {}) {
  constexpr std::int64_t width = panel_columns<T>, most = tile_panels * width;
  for (std::int64_t first = 0; first < columns; first += most) {
    for (std::int64_t row = 0; row < rows; row += tile_rows) {
      const std::int64_t present_rows = std::min(tile_rows, rows - row);
      before_tile();
      const auto tiles = [&]<int count>(std::integral_constant<int, count>, std::int64_t begin,
                                        const Inner& inner) {
        const T* panel = panels.data + begin / width * panels.panel_stride + inner.begin * width;
        const Left<T> part{left.data + row * left.row_stride + inner.begin * left.inner_stride,
                           left.row_stride, left.inner_stride};
        const std::int64_t present = std::min(count * width, columns - begin);
        with_constant<static_cast<int>(tile_rows)>(
            present_rows, [&]<int present_count>(std::integral_constant<int, present_count>) {
              register_tile<T, present_count, count>(inner.end - inner.begin, part, panel,
                                                     panels.panel_stride, present, accumulate,
                                                     out + row * out_stride + begin, out_stride);
            });
      };
      const Inner inner = inner_of(row, row + present_rows, first);
      if constexpr (tile_panels == 2) {
        if (first + most <= columns && inner.begin < inner.end &&
            inner == inner_of(row, row + present_rows, first + width)) {
          tiles(std::integral_constant<int, 2>{}, first, inner);
          continue;
        }
      }
      for (std::int64_t begin = first; begin < std::min(columns, first + most); begin += width)
        if (const Inner own = inner_of(row, row + present_rows, begin); own.begin < own.end)
          tiles(std::integral_constant<int, 1>{}, begin, own);
    }
  }
}

}  // namespace fourfold::kernels::cpu
