// Product of matrices by own register tiles: what "vector" falls back to where no library is
// wanted. Panels of b are packed once for each block of rows, k in blocks that stay in the
// second-level cache.
#include "kernels/contract_sizes.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

constexpr std::int64_t rows_at_once = 96;
constexpr std::int64_t inner_at_once = 256;

/// One panel of columns of out, for rows [first_row, first_row + rows).
template <class T>
void multiply_block(const T* a, const T* b, const ContractSizes& sizes, bool accumulate,
                    std::int64_t first_row, std::int64_t rows, std::int64_t first_column, T* panel,
                    T* out_MN) {
  const std::int64_t columns = std::min(panel_columns<T>, sizes.n - first_column);
  T* out = out_MN + first_row * sizes.n + first_column;
  for (std::int64_t inner = 0; inner < sizes.k; inner += inner_at_once) {
    const std::int64_t count = std::min(inner_at_once, sizes.k - inner);
    pack_panels(b + inner * sizes.b_inner_stride + first_column * sizes.b_column_stride,
                sizes.b_inner_stride, sizes.b_column_stride, count, columns, T{1}, panel);
    const Left<T> left{a + first_row * sizes.a_row_stride + inner * sizes.a_inner_stride,
                       sizes.a_row_stride, sizes.a_inner_stride};
    const auto all = [count](auto...) { return Inner{0, count}; };
    tile_product(rows, columns, all, left, Panels<T>{panel, 0}, accumulate || inner > 0, out,
                 sizes.n);
  }
}

template <class T>
void multiply(const T* a, const T* b, const ContractSizes& sizes, bool accumulate, int threads,
              std::byte* memory, T* out_MN) {
  const std::int64_t row_blocks = (sizes.m + rows_at_once - 1) / rows_at_once;
  const std::int64_t column_blocks = (sizes.n + panel_columns<T> - 1) / panel_columns<T>;
  Scratch scratch(memory);
  T* panels = scratch.take<T>(threads * inner_at_once * panel_columns<T>);
  for_parts(team_size(threads, sizes.m * sizes.n), [&](int part) {
    const int parts = team_size(threads, sizes.m * sizes.n);
    const Range range = range_of(part, parts, row_blocks * column_blocks, 1);
    for (std::int64_t block = range.first; block < range.last; ++block) {
      const std::int64_t first_row = block / column_blocks * rows_at_once;
      multiply_block(a, b, sizes, accumulate, first_row,
                     std::min(rows_at_once, sizes.m - first_row),
                     block % column_blocks * panel_columns<T>,
                     panels + part * inner_at_once * panel_columns<T>, out_MN);
    }
  });
}

}  // namespace

Run prepare_row(const op::Contract& op, const Problem& problem) {
  const ContractSizes sizes = contract_sizes(op, problem.shapes);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, accumulate = op.accumulate, threads = problem.threads](Tensors operands,
                                                                          Workspace workspace) {
      sizes.for_each_product(operands[0].as<T>(), operands[1].as<T>(), operands[2].as<T>(),
                             [&](const T* a, const T* b, T* out) {
                               multiply<T>(a, b, sizes, accumulate, threads, workspace.data(), out);
                             });
    };
  });
}

std::int64_t workspace_bytes(const op::Contract&, const Problem& problem) {
  // A panel of either type has 64 bytes a row.
  return problem.threads * inner_at_once * panel_columns<float> *
         static_cast<std::int64_t>(sizeof(float));
}

}  // namespace fourfold::kernels::cpu
