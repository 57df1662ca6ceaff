// Attention that continues a text, on CPU. One new token reads each cached row once; nothing is
// packed. B batch, T new tokens, H heads, D head width, P positions of the cache, which has a key
// and a value for each group of heads.
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// Scratch of one thread, for elements stored as T.
template <class T>
struct TokenScratch {
  Sum<T>*scores_P, *sums_D;
  TokenScratch(Scratch& scratch, std::int64_t positions, std::int64_t width)
      : scores_P(scratch.take<Sum<T>>(padded_columns<Sum<T>>(positions))),
        sums_D(scratch.take<Sum<T>>(width)) {}
};

template <class T>
struct Call {
  AttentionSizes sizes;
  std::int64_t position, positions;
  const T* qkv;
  T* cache;
  T* y;
  /// Row 0 of the keys (part 0) or values (part 1) of a group of a sample.
  T* cached(std::int64_t group, std::int64_t part) const {
    const std::int64_t sample = group / sizes.groups;
    return cache + (sample * 2 + part) * positions * cache_stride() +
           group % sizes.groups * sizes.width;
  }
  std::int64_t cache_stride() const { return sizes.groups * sizes.width; }
};

/// One query over the first `count` cached rows.
template <class T>
void attend_one(const Call<T>& call, std::int64_t group, const T* query, std::int64_t count,
                const TokenScratch<T>& own, T* y) {
  using S = Sum<T>;
  const std::int64_t width = call.sizes.width, stride = call.cache_stride();
  const auto [scores_P, sums_D] = own;
  const T* keys = call.cached(group, 0);
  const T* values = call.cached(group, 1);
  const auto scale = static_cast<S>(call.sizes.scale());
  for (std::int64_t p = 0; p < count; ++p) {
    S sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t d = 0; d < width; ++d) sum += summed(query[d]) * summed(keys[p * stride + d]);
    scores_P[p] = scale * sum;
  }
  const S inverse = 1 / exponentials(scores_P, 0, count).sum;
  std::fill_n(sums_D, width, S{0});
  for (std::int64_t p = 0; p < count; ++p) {
    const S weight = scores_P[p] * inverse;
#pragma omp simd
    for (std::int64_t d = 0; d < width; ++d) sums_D[d] += weight * summed(values[p * stride + d]);
  }
  for (std::int64_t d = 0; d < width; ++d) store(y[d], sums_D[d]);
}

template <class T>
void continue_group(const Call<T>& call, std::int64_t group, const TokenScratch<T>& own) {
  const AttentionSizes& sizes = call.sizes;
  const std::int64_t first = group * sizes.of_group, end = first + sizes.of_group;
  for (std::int64_t t = 0; t < sizes.time; ++t) {
    for (std::int64_t part = 0; part < 2; ++part)
      std::copy_n(call.qkv + sizes.qkv(first, part + 1) + t * sizes.qkv_stride(), sizes.width,
                  call.cached(group, part) + (call.position + t) * call.cache_stride());
    for (std::int64_t unit = first; unit < end; ++unit)
      attend_one(call, group, call.qkv + sizes.qkv(unit, 0) + t * sizes.qkv_stride(),
                 call.position + t + 1, own, call.y + sizes.y(unit) + t * sizes.y_stride());
  }
}

template <class T>
std::int64_t token_bytes(std::int64_t positions, std::int64_t width) {
  Scratch count(nullptr);
  TokenScratch<T>(count, positions, width);
  return count.used_bytes();
}

template <class T>
void attention_cached(const Call<T>& call, int threads, std::byte* workspace) {
  const std::int64_t work =
      call.sizes.units() * call.sizes.time * (call.position + call.sizes.time) * call.sizes.width;
  const int parts = team_size(threads, work);
  for_parts(parts, [&](int part) {
    Scratch scratch(workspace + part * token_bytes<T>(call.positions, call.sizes.width));
    const TokenScratch<T> own(scratch, call.positions, call.sizes.width);
    const Range groups = range_of(part, parts, call.sizes.unit_groups(), 1);
    for (std::int64_t group = groups.first; group < groups.last; ++group)
      continue_group(call, group, own);
  });
}

}  // namespace

Run prepare_row(const op::AttentionCached& op, const Problem& problem) {
  const AttentionSizes sizes = attention_sizes(problem);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
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
  const std::int64_t width = attention_sizes(problem).width;
  // A score and a sum in bf16 have the bytes of those in f32.
  return problem.threads * (problem.dtype == DType::f64 ? token_bytes<double>(op.positions, width)
                                                        : token_bytes<float>(op.positions, width));
}

}  // namespace fourfold::kernels::cpu
