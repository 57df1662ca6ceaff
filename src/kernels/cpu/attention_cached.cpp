// Attention that continues a text, on CPU. One new token reads each cached row once; nothing is
// packed. B batch, T new tokens, H heads, D head width, P positions of the cache.
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

template <class T>
struct Call {
  AttentionSizes sizes;
  std::int64_t position, positions;
  const T* qkv;
  T* cache;
  T* y;
  /// Row 0 of a unit's keys (part 0) or values (part 1); rows are y_stride() apart.
  T* cached(std::int64_t unit, std::int64_t part) const {
    return cache +
           ((unit / sizes.heads * 2 + part) * positions * sizes.heads + unit % sizes.heads) *
               sizes.width;
  }
};

/// One query over the first `count` cached rows.
template <class T>
void attend_one(const Call<T>& call, std::int64_t unit, const T* query, std::int64_t count,
                T* scores_P, T* y) {
  const std::int64_t width = call.sizes.width, stride = call.sizes.y_stride();
  const T* keys = call.cached(unit, 0);
  const T* values = call.cached(unit, 1);
  const auto scale = static_cast<T>(call.sizes.scale());
  for (std::int64_t p = 0; p < count; ++p) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t d = 0; d < width; ++d) sum += query[d] * keys[p * stride + d];
    scores_P[p] = scale * sum;
  }
  const T inverse = 1 / exponentials(scores_P, 0, count).sum;
  std::fill_n(y, width, T{0});
  for (std::int64_t p = 0; p < count; ++p) {
    const T weight = scores_P[p] * inverse;
#pragma omp simd
    for (std::int64_t d = 0; d < width; ++d) y[d] += weight * values[p * stride + d];
  }
}

template <class T>
void continue_unit(const Call<T>& call, std::int64_t unit, T* scores_P) {
  const AttentionSizes& sizes = call.sizes;
  for (std::int64_t t = 0; t < sizes.time; ++t) {
    for (std::int64_t part = 0; part < 2; ++part)
      std::copy_n(call.qkv + sizes.qkv(unit, part + 1) + t * sizes.qkv_stride(), sizes.width,
                  call.cached(unit, part) + (call.position + t) * sizes.y_stride());
    attend_one(call, unit, call.qkv + sizes.qkv(unit, 0) + t * sizes.qkv_stride(),
               call.position + t + 1, scores_P, call.y + sizes.y(unit) + t * sizes.y_stride());
  }
}

template <class T>
std::int64_t thread_bytes(std::int64_t positions) {
  Scratch count(nullptr);
  count.take<T>(padded_columns<T>(positions));
  return count.used_bytes();
}

template <class T>
void attention_cached(const Call<T>& call, int threads, std::byte* workspace) {
  const std::int64_t work =
      call.sizes.units() * call.sizes.time * (call.position + call.sizes.time) * call.sizes.width;
  const int parts = team_size(threads, work);
  for_parts(parts, [&](int part) {
    Scratch scratch(workspace + part * thread_bytes<T>(call.positions));
    T* scores_P = scratch.take<T>(padded_columns<T>(call.positions));
    const Range units = range_of(part, parts, call.sizes.units(), 1);
    for (std::int64_t unit = units.first; unit < units.last; ++unit)
      continue_unit(call, unit, scores_P);
  });
}

}  // namespace

Run prepare_row(const op::AttentionCached& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, positions = op.positions, threads = problem.threads](Tensors operands,
                                                                        Workspace workspace) {
      const Call<T> call{sizes,
                         *operands[1].as<std::int32_t>(),
                         positions,
                         operands[0].as<T>(),
                         operands[2].as<T>(),
                         operands[3].as<T>()};
      attention_cached(call, threads, workspace.data());
    };
  });
}

std::int64_t workspace_bytes(const op::AttentionCached& op, const Problem& problem) {
  return problem.threads * (problem.dtype == DType::f64 ? thread_bytes<double>(op.positions)
                                                        : thread_bytes<float>(op.positions));
}

}  // namespace fourfold::kernels::cpu
