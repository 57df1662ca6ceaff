// The gradient of causal attention on the device; op::AttentionGradient states the contract. No T x
// T tensor and no atomic additions: one kernel has queries of its own and adds over keys, the other
// has keys of its own and adds over queries; both recompute the probabilities from lse. That is
// seven products instead of five, and the same bits in every run.
#include "kernels/cuda/attention.cuh"
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

template <class Tiling, class T>
constexpr std::size_t shared_bytes =
    (2 * Tiling::own_elements + 2 * Tiling::tile_elements + Tiling::score_elements) * sizeof(T);

/// mean[b,h,t] = y_grad[b,t,h] y[b,t,h], the sum over s of p times its gradient. A warp for each.
template <class T>
__global__ void mean_gradients(GradientTensors<T> of, AttentionSizes sizes) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / warp_lanes) +
                           warp_index();  // of y, (b, t, h)
  if (row >= sizes.batch * sizes.time * sizes.heads) return;
  float sum = 0;
  for (std::int64_t d = lane_index(); d < sizes.width; d += warp_lanes)
    sum += to_float(of.y[row * sizes.width + d]) * to_float(of.y_grad[row * sizes.width + d]);
  sum = warp_sum(sum);
  const std::int64_t head = row % sizes.heads, token = row / sizes.heads;
  if (lane_index() == 0) of.mean[sizes.lse(token / sizes.time, head) + token % sizes.time] = sum;
}

/// Which rows a block keeps.
enum class Own : std::uint8_t { queries, keys };

/// The other rows that a block's own ones meet.
struct OtherRows {
  std::int64_t begin, end;
};

template <Own own, class Tiling>
__device__ OtherRows other_rows(const Visible& visible, std::int64_t first_own) {
  constexpr int tile = Tiling::tile_rows;
  if (own == Own::keys) return {first_own / tile * tile, visible.time};
  return {visible.first_key(first_own) / tile * tile,
          min(first_own + Tiling::own_rows, visible.time)};
}

/// Stores the gradient of a warp's own rows.
template <class Tiling, class T>
__device__ void store_rows(const WarpSums<Tiling::width / 8>& sums, std::int64_t first_row,
                           const AttentionSizes& sizes, T* to) {
#pragma unroll
  for (int tile = 0; tile < Tiling::width / 8; ++tile)
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = first_row + row_of(i);
      const int d = 8 * tile + column_of(i);
      if (row < sizes.time && d < sizes.width)
        to[row * sizes.qkv_row() + d] = from_float<T>(sums.sum[tile][i]);
    }
}

/// With p the probabilities, k their dropout factors and s the scores:
///   v_grad = (p k)^T y_grad,   s_grad = scale p (k (y_grad v^T) - mean),
///   q_grad = s_grad k,         k_grad = s_grad^T q.
/// Blocks that own queries hold q and y_grad and go through k and v; those that own keys hold k and
/// v and go through q and y_grad, so that both multiply own rows with other rows alike.
template <Own own, class Tiling, class T>
__global__ void __launch_bounds__(Tiling::threads)
    attention_gradient(GradientTensors<T> of, AttentionSizes sizes, float scale,
                       AttentionDropout dropout) {
  constexpr int width = Tiling::width, others = Tiling::tile_rows, stride = Tiling::row_stride;
  T* const own_score = reinterpret_cast<T*>(dynamic_shared());  // q or k
  T* const own_value = own_score + Tiling::own_elements;        // y_grad or v
  T* const other_score = own_value + Tiling::own_elements;
  T* const other_value = other_score + Tiling::tile_elements;
  const int warp_row = 16 * warp_index();
  T* const weights = other_value + Tiling::tile_elements + warp_row * Tiling::score_stride;

  const BlockHead at(sizes);
  const Visible visible{sizes.time, of.document_starts == nullptr
                                        ? nullptr
                                        : of.document_starts + at.sample * sizes.time};
  KeptProbabilities kept(dropout, at);
  const std::int64_t qkv_row = sizes.qkv_row(), y_row = sizes.y_row();
  const T* const queries = of.qkv + sizes.qkv(at.sample, 0, at.head);
  const T* const keys = of.qkv + sizes.qkv(at.sample, 1, at.head);
  const T* const values = of.qkv + sizes.qkv(at.sample, 2, at.head);
  const T* const y_grad = of.y_grad + sizes.y(at.sample, at.head);
  const float* const lse = of.lse + sizes.lse(at.sample, at.head);
  const float* const mean = of.mean + sizes.lse(at.sample, at.head);

  constexpr bool owns_queries = own == Own::queries;
  const std::int64_t first_own = static_cast<std::int64_t>(blockIdx.x) * Tiling::own_rows;
  load_rows<Tiling>(owns_queries ? queries : keys, qkv_row, first_own, Tiling::own_rows, sizes,
                    of.aligned, own_score);
  load_rows<Tiling>(owns_queries ? y_grad : values, owns_queries ? y_row : qkv_row, first_own,
                    Tiling::own_rows, sizes, of.aligned, own_value);

  WarpSums<width / 8> score_side, value_side;  // q_grad; or k_grad and v_grad
  const OtherRows range = other_rows<own, Tiling>(visible, first_own);
  for (std::int64_t first_other = range.begin; first_other < range.end; first_other += others) {
    __syncthreads();  // the last tile is no longer read
    load_rows<Tiling>(owns_queries ? keys : queries, qkv_row, first_other, others, sizes,
                      of.aligned, other_score);
    load_rows<Tiling>(owns_queries ? values : y_grad, owns_queries ? qkv_row : y_row, first_other,
                      others, sizes, of.aligned, other_value);
    __syncthreads();

    WarpSums<others / 8> scores, value_products;
    warp_product<width>(InnerContiguous<T>{own_score + warp_row * stride, stride},
                        InnerContiguous<T>{other_score, stride}, scores);
    warp_product<width>(InnerContiguous<T>{own_value + warp_row * stride, stride},
                        InnerContiguous<T>{other_value, stride}, value_products);
#pragma unroll
    for (int tile = 0; tile < others / 8; ++tile)
      for (int i = 0; i < 4; ++i) {
        const std::int64_t own_row = first_own + warp_row + row_of(i);
        const std::int64_t other_row = first_other + 8 * tile + column_of(i);
        const std::int64_t query = owns_queries ? own_row : other_row;
        const std::int64_t key = owns_queries ? other_row : own_row;
        float p = 0, score_grad = 0;
        if (visible(query, key)) {
          p = expf(scale * scores.sum[tile][i] - lse[query]);
          const float factor = kept.factor(query, key);
          score_grad = scale * p * (factor * value_products.sum[tile][i] - mean[query]);
          p *= factor;
        }
        scores.sum[tile][i] = score_grad;
        if (!owns_queries)
          weights[row_of(i) * Tiling::score_stride + 8 * tile + column_of(i)] = from_float<T>(p);
      }
    const InnerContiguous<T> of_weights{weights, Tiling::score_stride};
    if (!owns_queries) {
      __syncwarp();
      warp_product<others>(of_weights, IndexContiguous<T>{other_value, stride}, value_side);
      __syncwarp();
    }
#pragma unroll
    for (int tile = 0; tile < others / 8; ++tile)
      for (int i = 0; i < 4; ++i)
        weights[row_of(i) * Tiling::score_stride + 8 * tile + column_of(i)] =
            from_float<T>(scores.sum[tile][i]);
    __syncwarp();
    warp_product<others>(of_weights, IndexContiguous<T>{other_score, stride}, score_side);
    __syncwarp();
  }
  const std::int64_t first_row = first_own + warp_row;
  store_rows<Tiling>(score_side, first_row, sizes,
                     of.qkv_grad + sizes.qkv(at.sample, owns_queries ? 0 : 1, at.head));
  if (!owns_queries)
    store_rows<Tiling>(value_side, first_row, sizes,
                       of.qkv_grad + sizes.qkv(at.sample, 2, at.head));
}

constexpr int mean_warps = 4;

}  // namespace

std::int64_t workspace_bytes(const op::AttentionGradient&, const Problem& problem) {
  return problem.shapes[2].elements() * static_cast<std::int64_t>(sizeof(float));
}

Enqueue prepare_row(const op::AttentionGradient& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0]);
  const AttentionDropout dropout(op, problem.shapes[0]);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.width)));
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_head_width(sizes.width, [&](auto width) -> Enqueue {
      using Tiling = AttentionTiling<T, decltype(width)::value>;
      const LaunchShape shape = attention_launch<Tiling>(sizes, shared_bytes<Tiling, T>);
      allow_shared_memory(attention_gradient<Own::queries, Tiling, T>, shape.shared_bytes);
      allow_shared_memory(attention_gradient<Own::keys, Tiling, T>, shape.shared_bytes);
      LaunchShape mean_shape;
      mean_shape.threads = mean_warps * warp_lanes;
      mean_shape.blocks_x =
          static_cast<unsigned>(ceil_divide(sizes.batch * sizes.time * sizes.heads, mean_warps));
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
            sizes.width % pack_size<T> == 0 && are_aligned(operands[0].data, operands[3].data)};
        const AttentionDropout of_call = dropout.at(operands, seed);
        launch(mean_gradients<T>, mean_shape, stream, of, sizes);
        launch(attention_gradient<Own::queries, Tiling, T>, shape, stream, of, sizes, scale,
               of_call);
        launch(attention_gradient<Own::keys, Tiling, T>, shape, stream, of, sizes, scale, of_call);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
