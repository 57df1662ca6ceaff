// The gradient of attention on the device; op::AttentionGradient says what it computes. No T
// x T tensor and no atomic additions: one kernel has queries of its own and adds over keys, the
// other has keys of its own and adds over queries; both recompute the probabilities from lse. That
// is seven products instead of five, and the same bits in every run.
#include <algorithm>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_tiling.h"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

template <class T>
struct GradientTensors {
  const T *qkv, *y, *y_grad;
  const float* lse;
  const std::int32_t* document_starts;  // (B,T), or null
  T* qkv_grad;
  float* mean;  // (B,H,T), in the workspace
  bool aligned;
};

constexpr int mean_warps = 4;

/// mean[b,h,t] = y_grad[b,t,h] y[b,t,h], the sum over s of p times its gradient. As many lanes for
/// a row as it has packs of 16 bytes.
template <int width, class T>
__global__ void mean_gradients(GradientTensors<T> of, AttentionSizes sizes) {
  begin_kernel();
  constexpr int lanes = width / pack_size<T> < warp_lanes ? width / pack_size<T> : warp_lanes;
  constexpr int rows_at_once = mean_warps * warp_lanes / lanes;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * rows_at_once +
                           static_cast<int>(threadIdx.x) / lanes;  // of y, (b, t, h)
  const bool is_there = row < sizes.batch * sizes.time * sizes.heads;
  float sum = 0;
  for (std::int64_t d = lane_index() % lanes * pack_size<T>; is_there && d < sizes.width;
       d += lanes * pack_size<T>) {
    float y[pack_size<T>], y_grad[pack_size<T>];
    load_pack<T>(of.y + row * sizes.width + d, of.aligned, sizes.width - d, y);
    load_pack<T>(of.y_grad + row * sizes.width + d, of.aligned, sizes.width - d, y_grad);
    for (int i = 0; i < pack_size<T>; ++i) sum += y[i] * y_grad[i];
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
  const std::int64_t head = row % sizes.heads, token = row / sizes.heads;
  if (is_there && lane_index() % lanes == 0)
    of.mean[sizes.lse(token / sizes.time, head) + token % sizes.time] = sum;
}

/// Which rows a block keeps.
enum class Own : std::uint8_t { queries, keys };

/// lse and mean of the queries that belong to a warp's scores, 0 after the last one.
template <Own own, class Tiling>
class QueryFacts;

/// A query for each row: in registers.
template <class Tiling>
class QueryFacts<Own::queries, Tiling> {
 public:
  __device__ QueryFacts(const float* lse, const float* mean, int first, int time, const float*) {
#pragma unroll
    for (int rows = 0; rows < Tiling::row_tiles; ++rows)
      for (int half = 0; half < 2; ++half) {
        const int query = first + 16 * rows + row_of(2 * half);
        lse_[rows][half] = query < time ? log2_of_e * lse[query] : 0;
        mean_[rows][half] = query < time ? mean[query] : 0;
      }
  }
  __device__ float lse(int rows, int, int i) const { return lse_[rows][i / 2]; }
  __device__ float mean(int rows, int, int i) const { return mean_[rows][i / 2]; }

 private:
  float lse_[Tiling::row_tiles][2], mean_[Tiling::row_tiles][2];
};

/// A query for each column: in shared memory, beside their tile.
template <class Tiling>
class QueryFacts<Own::keys, Tiling> {
 public:
  __device__ QueryFacts(const float*, const float*, int, int, const float* shared)
      : shared_(shared) {}
  __device__ float lse(int, int place, int) const { return log2_of_e * shared_[place]; }
  __device__ float mean(int, int place, int) const { return shared_[Tiling::tile_rows + place]; }
  /// Begins to load those of a tile.
  __device__ static void load(const float* lse, const float* mean, int first, int time,
                              float* shared) {
    for (int i = static_cast<int>(threadIdx.x); i < 2 * Tiling::tile_rows;
         i += static_cast<int>(Tiling::threads)) {
      const float* const from = i < Tiling::tile_rows ? lse : mean;
      const int query = first + i % Tiling::tile_rows;
      copy_async<4>(shared + i, query < time ? from + query : from, query < time);
    }
  }

 private:
  const float* shared_;
};

/// With p the probabilities, k their dropout factors and s the scores:
///   v_grad = (p k)^T y_grad,   s_grad = p (k (y_grad v^T) - mean),
///   q_grad = scale s_grad k,   k_grad = scale s_grad^T q.
/// Blocks that own queries hold q and y_grad and go through k and v; those that own keys hold k and
/// v of a group and go through q and y_grad of its heads, one head after another, so that both
/// multiply own rows with other rows alike. The next tiles arrive while one is used.
template <Own own, class Tiling, class Dropout, class T>
__global__ void __launch_bounds__(Tiling::threads)
    attention_gradient(GradientTensors<T> of, AttentionSizes sizes, float scale, Dropout dropout) {
  begin_kernel();
  constexpr bool owns_queries = own == Own::queries;
  constexpr int width = Tiling::width, others = Tiling::tile_rows, stride = Tiling::row_stride;
  constexpr int row_tiles = Tiling::row_tiles, chunk = Tiling::chunk;
  constexpr int columns = width / Tiling::parts, buffers = Tiling::buffers;
  constexpr int score_parts = Tiling::score_parts, score_columns = width / score_parts;
  static_assert(score_parts == 1 || chunk == others, "parts are read before the next tile's");
  T* const own_score = reinterpret_cast<T*>(dynamic_shared());  // q or k
  T* const own_value = own_score + Tiling::own_elements;        // y_grad or v
  T* const tiles = own_value + Tiling::own_elements;            // of k and v, or q and y_grad
  float* const facts = reinterpret_cast<float*>(tiles + 2 * buffers * Tiling::tile_elements);
  float* const part_scores = facts + 2 * buffers * others;
  const int warp_row = 16 * row_tiles * (warp_index() / Tiling::parts);
  const int first_column = columns * (warp_index() % Tiling::parts);
  const int first_score_column = score_columns * (warp_index() % score_parts);

  const int own_tiles = sizes.tiles(Tiling::own_rows);
  const BlockHead at(own_tiles, owns_queries ? sizes.heads : sizes.groups);
  const int heads = owns_queries ? 1 : static_cast<int>(sizes.of_group);
  int head = at.head * heads;
  const int heads_end = head + heads;
  const Visible visible(sizes, of.document_starts, at.sample);
  KeptProbabilities<Dropout> kept(dropout, at);
  const std::int64_t qkv_row = sizes.qkv_row(), y_row = sizes.y_row();
  // Offsets: what is added to them stands in the arguments and takes no register.
  const std::int64_t at_keys = sizes.qkv(at.sample, 1, head);
  const auto part = [&](int index, int of_head) {
    return of.qkv + (index == 0 ? sizes.qkv(at.sample, 0, of_head)
                                : at_keys + (index - 1) * sizes.key_to_value());
  };
  const auto y_grad = [&](int of_head) { return of.y_grad + sizes.y(at.sample, of_head); };

  // The blocks with most other rows start first: the last queries, the first keys.
  const int first_own = (owns_queries ? own_tiles - 1 - at.tile : at.tile) * Tiling::own_rows;
  const int begin = owns_queries ? visible.first_key(first_own) / others * others
                                 : visible.first_query(first_own);
  const int end = owns_queries ? visible.keys_end(first_own + Tiling::own_rows - 1)
                               : visible.queries_end(first_own + Tiling::own_rows - 1);
  const Stretch own_rows{first_own + warp_row, 16 * row_tiles};
  const auto load_others = [&](int first, int buffer, int of_head) {
    T* const tile = tiles + 2 * buffer * Tiling::tile_elements;
    load_rows<Tiling, others>(part(owns_queries ? 1 : 0, of_head), qkv_row, first, sizes,
                              of.aligned, tile);
    load_rows<Tiling, others>(owns_queries ? part(2, of_head) : y_grad(of_head),
                              owns_queries ? qkv_row : y_row, first, sizes, of.aligned,
                              tile + Tiling::tile_elements);
    if constexpr (!owns_queries) {
      const std::int64_t at_lse = sizes.lse(at.sample, of_head);
      QueryFacts<own, Tiling>::load(of.lse + at_lse, of.mean + at_lse, first, visible.time,
                                    facts + 2 * buffer * others);
    }
    end_copy_group();
  };

  load_rows<Tiling, Tiling::own_rows>(part(owns_queries ? 0 : 1, head), qkv_row, first_own, sizes,
                                      of.aligned, own_score);
  load_rows<Tiling, Tiling::own_rows>(owns_queries ? y_grad(head) : part(2, head),
                                      owns_queries ? y_row : qkv_row, first_own, sizes, of.aligned,
                                      own_value);
  load_others(begin, 0, head);
  WarpSums<columns / 8> score_side[row_tiles], value_side[row_tiles];  // q_grad; k_grad and v_grad
  const std::int64_t at_lse = sizes.lse(at.sample, head);
  const QueryFacts<own, Tiling> fact(of.lse + at_lse, of.mean + at_lse, own_rows.first,
                                     visible.time, facts);
  int buffer = 0, first_other = begin;
  const auto next_head = [&] { return first_other + others < end ? head : head + 1; };
  const auto next_other = [&] { return first_other + others < end ? first_other + others : begin; };
  for (bool is_first = true; begin < end && head < heads_end; is_first = false) {
    if (buffers == 1 && !is_first) {
      __syncthreads();  // the tile before is no longer read
      load_others(first_other, buffer, head);
    }
    wait_for_copies<0>();
    __syncthreads();  // this tile is here, the one before is no longer read
    if (buffers == 2 && next_head() < heads_end) load_others(next_other(), buffer ^ 1, next_head());
    kept.go_to(head);
    const T* const tile = tiles + 2 * buffer * Tiling::tile_elements;
#pragma unroll 1
    for (int first = 0; first < others; first += chunk) {
      const Stretch other_rows{first_other + first, chunk};
      const Stretch& of_queries = owns_queries ? own_rows : other_rows;
      const Stretch& of_keys = owns_queries ? other_rows : own_rows;
      // All warps come to the barrier at which parts are summed.
      if (score_parts == 1 && !visible.some(of_queries, of_keys)) continue;
      const T* const other_score = tile + first * stride;
      const T* const other_value = other_score + Tiling::tile_elements;
      kept.template decide<row_tiles, chunk / 8>(own_rows.first, other_rows.first, owns_queries);
      WarpSums<chunk / 8> scores[row_tiles], value_products[row_tiles];
      const int own_corner = warp_row * stride + first_score_column;
      add_product<score_columns>(InnerContiguous<T>{own_score + own_corner, stride},
                                 InnerContiguous<T>{other_score + first_score_column, stride},
                                 scores);
      add_product<score_columns>(InnerContiguous<T>{own_value + own_corner, stride},
                                 InnerContiguous<T>{other_value + first_score_column, stride},
                                 value_products);
      if constexpr (score_parts > 1) {
        sum_over_parts<score_parts>(scores, part_scores);
        sum_over_parts<score_parts>(value_products, part_scores + Tiling::score_elements / 2);
      }
      const bool all = visible.all(of_queries, of_keys);
#pragma unroll
      for (int tile_of_8 = 0; tile_of_8 < chunk / 8; ++tile_of_8)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int other_row = other_rows.first + 8 * tile_of_8 + column_of(i);
          const int place = 2 * buffer * others + first + 8 * tile_of_8 + column_of(i);
#pragma unroll
          for (int rows = 0; rows < row_tiles; ++rows) {
            const int own_row = own_rows.first + 16 * rows + row_of(i);
            const int query = owns_queries ? own_row : other_row;
            const int key = owns_queries ? other_row : own_row;
            float& score = scores[rows].sum[tile_of_8][i];
            float& product = value_products[rows].sum[tile_of_8][i];
            const float p = exp2_approximate(scale * log2_of_e * score - fact.lse(rows, place, i));
            const float factor = kept.template factor<chunk / 8>(rows, tile_of_8, i);
            score = p * (factor * product - fact.mean(rows, place, i));
            product = p * factor;
            if (!all && !visible(query, key)) score = product = 0;
          }
        }
      WarpFactor<T> factors[row_tiles][chunk / 16];
      if constexpr (!owns_queries) {
        factors_of(value_products, factors);
        add_product(factors, IndexContiguous<T>{other_value + first_column, stride}, value_side);
      }
      factors_of(scores, factors);
      add_product(factors, IndexContiguous<T>{other_score + first_column, stride}, score_side);
    }
    const int next = next_head();
    first_other = next_other();
    head = next;
    buffer ^= buffers - 1;
  }
  wait_for_copies<0>();
  __syncthreads();  // own rows and tiles are no longer read
#pragma unroll
  for (int rows = 0; rows < row_tiles; ++rows)
#pragma unroll
    for (int tile_of_8 = 0; tile_of_8 < columns / 8; ++tile_of_8)
      for (int i = 0; i < 4; ++i) score_side[rows].sum[tile_of_8][i] *= scale;
  const auto store = [&](const WarpSums<columns / 8>(&sums)[row_tiles], int index, T* staging) {
    store_rows(sums, own_rows.first, first_column, qkv_row, sizes, of.aligned, stride,
               staging + warp_row * stride + first_column,
               of.qkv_grad + sizes.qkv(at.sample, index, at.head * heads));
  };
  store(score_side, owns_queries ? 0 : 1, own_score);
  if constexpr (!owns_queries) store(value_side, 2, own_value);
}

}  // namespace

std::int64_t workspace_bytes(const op::AttentionGradient&, const Problem& problem) {
  return problem.shapes[2].elements() * static_cast<std::int64_t>(sizeof(float));
}

Enqueue prepare_row(const op::AttentionGradient& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0], op.grouped, op.causal);
  const AttentionDropout dropout(op, problem.shapes[0]);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.width)));
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_head_width(sizes.width, [&](auto width) -> Enqueue {
      using Tiling = GradientTiling<sizeof(T), decltype(width)::value>;
      const LaunchShape shape = attention_launch<Tiling>(sizes, sizes.heads),
                        of_groups = attention_launch<Tiling>(sizes, sizes.groups);
      const auto of_queries = []<class Dropout>(As<Dropout>) {
        return attention_gradient<Own::queries, Tiling, Dropout, T>;
      };
      const auto of_keys = []<class Dropout>(As<Dropout>) {
        return attention_gradient<Own::keys, Tiling, Dropout, T>;
      };
      allow_shared_memory(of_queries(As<NoDropout>{}), shape.shared_bytes);
      allow_shared_memory(of_queries(As<AttentionDropout>{}), shape.shared_bytes);
      allow_shared_memory(of_keys(As<NoDropout>{}), shape.shared_bytes);
      allow_shared_memory(of_keys(As<AttentionDropout>{}), shape.shared_bytes);
      constexpr int packs = std::min(decltype(width)::value / pack_size<T>, warp_lanes);
      LaunchShape mean_shape;
      mean_shape.threads = mean_warps * warp_lanes;
      mean_shape.blocks_x = static_cast<unsigned>(
          ceil_divide(sizes.batch * sizes.time * sizes.heads, mean_warps * warp_lanes / packs));
      return [=, documents = op.documents](Tensors operands, Workspace workspace, Stream stream) {
        const std::size_t seed = documents ? 5 : 4, out = seed + (dropout.drops ? 2 : 0);
        const GradientTensors<T> of{
            operands[0].as<T>(),
            operands[1].as<T>(),
            operands[3].as<T>(),
            operands[2].as<float>(),
            documents ? operands[4].as<std::int32_t>() : nullptr,
            operands[out].as<T>(),
            reinterpret_cast<float*>(workspace.data()),
            sizes.width % pack_size<T> == 0 && are_aligned(operands[0].data, operands[1].data,
                                                           operands[3].data, operands[out].data)};
        const AttentionDropout bound = dropout.at(operands, seed);
        launch(mean_gradients<decltype(width)::value, T>, mean_shape, stream, of, sizes);
        launch_attention(of_queries, shape, stream, bound, of, sizes, scale);
        launch_attention(of_keys, of_groups, stream, bound, of, sizes, scale);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
