#include "verify/whole_index.h"

#include <algorithm>

namespace fourfold::verify {
namespace {

/// A buffer as tensors that stand one after another, each dense: one, or as many as it has blocks.
struct Dense {
  std::int64_t count = 1;
  Shape shape;                      // of each
  std::vector<std::int64_t> steps;  // by dim: how far the next one is in the local tensor
};
Dense dense_of(const Program& program, BufferId id) {
  const Buffer& buffer = program.buffer(id);
  Dense dense{1, program.local_shape(id), {}};
  dense.steps.resize(dense.shape.rank());
  if (!buffer.blocked) return dense;
  const std::size_t dim = buffer.blocked->dim;
  dense.steps[dim] = dense.shape[dim] = buffer.blocked->share;
  dense.count = buffer.size_bytes / size_bytes(buffer.dtype) /
                std::max<std::int64_t>(1, dense.shape.elements());
  return dense;
}

}  // namespace

std::vector<IndexRun> index_runs(Claims& claims, BufferId id) {
  const Program& program = claims.program();
  const Shape& global = program.buffer(id).global;
  if (global.rank() == 0) return {{0, 1, 0, 0}};
  const Shape local = program.local_shape(id);
  const Dense dense = dense_of(program, id);
  const std::size_t last = global.rank() - 1;
  std::vector<std::int64_t> first, sizes;  // of each dim: the first index, and what is no padding
  for (std::size_t dim = 0; dim <= last; ++dim) {
    first.push_back(claims.first(id, dim));
    sizes.push_back(std::min(local[dim], global[dim] - first[dim]));
  }
  std::vector<IndexRun> runs;
  std::size_t begin = 0;
  const std::int64_t rows = dense.shape.elements(0, last), columns = dense.shape[last];
  for (std::int64_t number = 0; number < dense.count; ++number)
    for (std::int64_t row = 0; row < rows; ++row, begin += static_cast<std::size_t>(columns)) {
      const std::int64_t start = number * dense.steps[last];
      std::int64_t rest = row, index = first[last] + start, stride = global[last],
                   count = std::clamp<std::int64_t>(sizes[last] - start, 0, columns);
      for (std::size_t dim = last; dim-- > 0;) {
        const std::int64_t at = number * dense.steps[dim] + rest % dense.shape[dim];
        rest /= dense.shape[dim];
        if (at >= sizes[dim]) count = 0;
        index += (first[dim] + at) * stride;
        stride *= global[dim];
      }
      runs.push_back({begin, static_cast<std::size_t>(count),
                      static_cast<std::size_t>(columns - count), static_cast<std::size_t>(index)});
    }
  return runs;
}

}  // namespace fourfold::verify
