// A product of matrices by tiles in shared memory. Each factor brings its tiles itself, from a
// stored matrix here, from patches of pictures in patch_tiles.cuh. M, N, K:
// out (M, N) = a (M, K) b (K, N). The sums of an element go along K in order, however tiles are cut
// and brought.
#pragma once

#include "kernels/cuda/rows.h"
#include "kernels/cuda/warp_product.cuh"

namespace fourfold::kernels::cuda {

inline constexpr int product_rows = 64, product_columns = 64;
inline constexpr int product_warps = product_rows / 16;
inline constexpr unsigned product_threads = product_warps * warp_lanes;
/// How much of K a tile has: 64 bytes.
template <class T>
inline constexpr int product_depth = 4 * pack_size<T>;
/// So many tiles of each factor are in shared memory: one is used while the others arrive.
inline constexpr int product_stages = 3;

/// Which of its elements a factor has side by side in memory, and a tile of it in shared memory:
/// neighbours along K, or neighbouring rows of a (columns of b), which `index` counts.
enum class Contiguous : std::uint8_t { inner, index };

/// Where the packs lie that a thread brings to a tile: always two, at the same place of two lines.
/// A line is a row of the tile in shared memory.
template <class T, Contiguous contiguous>
struct TilePacks {
  static constexpr int count = 2;
  static constexpr int line_elements =
      contiguous == Contiguous::inner ? product_depth<T> : product_rows;
  static constexpr int lines = contiguous == Contiguous::inner ? product_rows : product_depth<T>;
  static constexpr int stride = shared_stride(line_elements, sizeof(T));
  static constexpr int packs_of_line = line_elements / pack_size<T>;
  static constexpr int line_step = static_cast<int>(product_threads) / packs_of_line;
  static_assert(product_rows == product_columns && count * line_step == lines);

  /// The first element of the packs in their lines.
  __device__ static int element() {
    return static_cast<int>(threadIdx.x) % packs_of_line * pack_size<T>;
  }
  __device__ static int line(int i) {
    return static_cast<int>(threadIdx.x) / packs_of_line + i * line_step;
  }
  __device__ static int place(int i) { return line(i) * stride + element(); }
};

// A factor of T is a struct with
//   count, depth   rows of a or columns of b; K
//   contiguous     a constant
//   Tiles          what a thread knows of its packs (TilePacks): Tiles(factor, first, inner) stands
//                  at the tile that begins there; step() goes to the next tile along K
//     is_there(i), at(i)   pack i where packs are whole: true if it is not zeros; where it lies
//     gather(i)            pack i element by element, zeros beyond the factor's end

/// The first `count` elements of a pack that begins at `from`, zeros in place of the others.
template <class T>
__device__ Pack<T> first_of_pack(const T* from, std::int64_t count) {
  Pack<T> pack;
#pragma unroll
  for (int e = 0; e < pack_size<T>; ++e)
    if (e < count) pack.set(e, from[e]);
  return pack;
}

/// Lines of `stride` elements: a line is of one index (inner), or of one place along K (index).
template <class T, Contiguous side>
struct StoredMatrix {
  static constexpr Contiguous contiguous = side;
  const T* data;
  std::int64_t count, depth, stride;

  /// True if no pack of a tile lies across an end of the matrix, or at no multiple of 16 bytes.
  bool has_whole_packs() const {
    const std::int64_t along = side == Contiguous::inner ? depth : count;
    return are_aligned(data) && stride % pack_size<T> == 0 && along % pack_size<T> == 0;
  }

  class Tiles {
    using Packs = TilePacks<T, side>;
    static constexpr bool is_inner = side == Contiguous::inner;

   public:
    __device__ Tiles(const StoredMatrix& of, std::int64_t first, std::int64_t inner) {
      const std::int64_t line = (is_inner ? first : inner) + Packs::line(0);
      const std::int64_t element = (is_inner ? inner : first) + Packs::element();
      data_ = of.data + line * of.stride + element;
      line_distance_ = Packs::line_step * of.stride;
      tile_distance_ = is_inner ? product_depth<T> : product_depth<T> * of.stride;
      lines_left_ = (is_inner ? of.count : of.depth) - line;
      elements_left_ = (is_inner ? of.depth : of.count) - element;
    }
    __device__ void step() {
      data_ += tile_distance_;
      (is_inner ? elements_left_ : lines_left_) -= product_depth<T>;
    }
    __device__ bool is_there(int i) const {
      return elements_left_ > 0 && lines_left_ > i * Packs::line_step;
    }
    __device__ const T* at(int i) const { return data_ + i * line_distance_; }
    __device__ Pack<T> gather(int i) const {
      return is_there(i) ? first_of_pack(at(i), elements_left_) : Pack<T>();
    }

   private:
    const T* data_;
    std::int64_t line_distance_, tile_distance_, lines_left_, elements_left_;
  };
};

/// How a product is cut: blocks count the tiles of one side first, then those of the other, then
/// stretches of K, each of which writes a product of its own, one after another. The side with
/// fewer tiles comes first, so that blocks that run together read the same tiles of the other.
struct ProductCut {
  unsigned row_tiles, column_tiles;
  std::int64_t stretch;  // elements of K, a multiple of a tile's

  template <class T>
  static ProductCut of(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                       std::int64_t stretches) {
    return {static_cast<unsigned>(ceil_divide(rows, product_rows)),
            static_cast<unsigned>(ceil_divide(columns, product_columns)),
            ceil_divide(ceil_divide(depth, product_depth<T>), stretches) * product_depth<T>};
  }
  LaunchShape launch(std::int64_t stretches) const {
    LaunchShape shape;
    shape.blocks_x = row_tiles * column_tiles * static_cast<unsigned>(stretches);
    shape.threads = product_threads;
    return shape;
  }
};

/// Begins to bring the running thread's packs of a tile.
template <bool whole, class T, Contiguous contiguous, class Tiles>
__device__ void bring_packs(const Tiles& tiles, T* to) {
  using Packs = TilePacks<T, contiguous>;
#pragma unroll
  for (int i = 0; i < Packs::count; ++i)
    if constexpr (whole)
      copy_async<16>(to + Packs::place(i), tiles.at(i), tiles.is_there(i));
    else
      store_words(tiles.gather(i).words, to + Packs::place(i));
}

/// A tile in shared memory as warps read it, from line or element `index` on.
template <class T, Contiguous contiguous>
__device__ auto factor_of_tile(const T* tile, int index) {
  constexpr int stride = TilePacks<T, contiguous>::stride;
  if constexpr (contiguous == Contiguous::inner)
    return InnerContiguous<T>{tile + index * stride, stride};
  else
    return IndexContiguous<T>{tile + index, stride};
}

/// Where a product goes: it is stored or added to what is there, or its column's bias is added to
/// what was stored.
template <class Out>
struct ProductOutput {
  Out* out_MN;
  bool accumulate = false;
  const Out* bias_N = nullptr;  // null where there is none; never with `accumulate`

  __device__ void take(std::int64_t place, std::int64_t column, float sum) const {
    Out& element = out_MN[place];
    if (bias_N != nullptr) sum = stored<Out>(sum) + to_float(bias_N[column]);
    element = from_float<Out>(accumulate ? to_float(element) + sum : sum);
  }
};

/// `whole`: all packs of both factors are (see StoredMatrix::has_whole_packs).
template <class T, bool whole, class A, class B, class Out>
__global__ void __launch_bounds__(product_threads)
    tiled_product(A a, B b, ProductCut cut, ProductOutput<Out> output) {
  begin_kernel();
  constexpr int a_elements =
                    TilePacks<T, A::contiguous>::lines * TilePacks<T, A::contiguous>::stride,
                b_elements =
                    TilePacks<T, B::contiguous>::lines * TilePacks<T, B::contiguous>::stride,
                stage_elements = a_elements + b_elements;
  // As bytes: shared memory holds nothing that has to be constructed.
  alignas(16) __shared__ std::byte memory[product_stages * stage_elements * sizeof(T)];
  T* const tiles = reinterpret_cast<T*>(memory);
  const bool rows_first = cut.row_tiles <= cut.column_tiles;
  const unsigned side = rows_first ? cut.row_tiles : cut.column_tiles;
  const unsigned first = blockIdx.x % side, rest = blockIdx.x / side;
  const unsigned other_side = rows_first ? cut.column_tiles : cut.row_tiles;
  const unsigned second = rest % other_side, number = rest / other_side;  // of the stretch
  const std::int64_t first_row = std::int64_t{product_rows} * (rows_first ? first : second);
  const std::int64_t first_column = std::int64_t{product_columns} * (rows_first ? second : first);
  const std::int64_t first_inner = number * cut.stretch;
  const int steps = static_cast<int>(
      (min(a.depth - first_inner, cut.stretch) + product_depth<T> - 1) / product_depth<T>);
  const int warp_row = 16 * warp_index();
  typename A::Tiles a_tiles(a, first_row, first_inner);
  typename B::Tiles b_tiles(b, first_column, first_inner);
  const auto bring = [&](int stage) {
    T* const to = tiles + stage * stage_elements;
    bring_packs<whole, T, A::contiguous>(a_tiles, to);
    bring_packs<whole, T, B::contiguous>(b_tiles, to + a_elements);
    a_tiles.step(), b_tiles.step();
  };
  for (int step = 0; step < product_stages - 1; ++step) {
    if (step < steps) bring(step);
    end_copy_group();
  }
  WarpSums<product_columns / 8> sums[1];
  int stage = 0, free_stage = product_stages - 1;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<product_stages - 2>();
    __syncthreads();  // the tile has arrived, and that of the step before is no longer read
    if (step + product_stages - 1 < steps) bring(free_stage);
    end_copy_group();
    const T* const tile = tiles + stage * stage_elements;
    add_product<product_depth<T>>(factor_of_tile<T, A::contiguous>(tile, warp_row),
                                  factor_of_tile<T, B::contiguous>(tile + a_elements, 0), sums);
    free_stage = stage;
    stage = stage == product_stages - 1 ? 0 : stage + 1;
  }
#pragma unroll
  for (int tile = 0; tile < product_columns / 8; ++tile)
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = first_row + warp_row + row_of(i);
      const std::int64_t column = first_column + 8 * tile + column_of(i);
      if (row < a.count && column < b.count)
        output.take((number * a.count + row) * b.count + column, column, sums[0].sum[tile][i]);
    }
}

template <class T, class A, class B, class Out>
void enqueue_product(const A& a, const B& b, const ProductOutput<Out>& output, Stream stream,
                     std::int64_t stretches = 1) {
  const auto cut = ProductCut::of<T>(a.count, b.count, a.depth, stretches);
  const auto kernel = a.has_whole_packs() && b.has_whole_packs()
                          ? tiled_product<T, true, A, B, Out>
                          : tiled_product<T, false, A, B, Out>;
  launch(kernel, cut.launch(stretches), stream, a, b, cut, output);
}

/// out (+)= the sum of the products of all stretches, in order; `count` elements each.
template <class Out>
__global__ void add_products(const float* products, std::int64_t stretches, std::int64_t count,
                             bool accumulate, Out* out) {
  begin_kernel();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = products[i];
  for (std::int64_t stretch = 1; stretch < stretches; ++stretch)
    sum += products[stretch * count + i];
  out[i] = from_float<Out>(accumulate ? to_float(out[i]) + sum : sum);
}

/// For small products of long sums: K is cut into stretches, whose products lie in the workspace.
template <class T, class A, class B, class Out>
void enqueue_product_in_stretches(const A& a, const B& b, std::int64_t stretches, bool accumulate,
                                  Out* out_MN, Workspace workspace, Stream stream) {
  if (stretches == 1)
    return enqueue_product<T>(a, b, ProductOutput<Out>{out_MN, accumulate}, stream);
  constexpr unsigned threads = 256;
  auto* products = reinterpret_cast<float*>(workspace.data());
  enqueue_product<T>(a, b, ProductOutput<float>{products}, stream, stretches);
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(a.count * b.count, threads));
  shape.threads = threads;
  launch(add_products<Out>, shape, stream, products, stretches, a.count * b.count, accumulate,
         out_MN);
}

}  // namespace fourfold::kernels::cuda
