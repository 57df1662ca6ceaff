// Sums over the rows of a matrix, one for each column, in a fixed order: gradients of biases, gains
// and positions.
#pragma once

#include "kernels/cpu/parallel.h"

namespace fourfold::kernels::cpu {

/// out[c] (+)= sum over rows of term(row, c). Threads share columns; rows go in order, four at a
/// time, so the result does not depend on the number of threads.
template <class T, class Term>
void sum_columns(std::int64_t rows, std::int64_t columns, bool accumulate, int threads, Term term,
                 T* out) {
  for_ranges(columns, team_size(threads, rows * columns), element_grain,
             [&](std::int64_t first, std::int64_t last) {
               if (!accumulate) std::fill(out + first, out + last, T{0});
               std::int64_t row = 0;
               for (; row + 4 <= rows; row += 4) {
#pragma omp simd
                 for (std::int64_t c = first; c < last; ++c)
                   out[c] +=
                       (term(row, c) + term(row + 1, c)) + (term(row + 2, c) + term(row + 3, c));
               }
               for (; row < rows; ++row) {
#pragma omp simd
                 for (std::int64_t c = first; c < last; ++c) out[c] += term(row, c);
               }
             });
}

}  // namespace fourfold::kernels::cpu
