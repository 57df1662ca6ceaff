// Where the elements of a rank's buffers lie in whole tensors, by what the program claims of them.
#pragma once

#include <cstddef>
#include <vector>

#include "verify/claims.h"
#include "verify/language.h"

namespace fourfold::verify {

/// Elements that follow one another in a buffer. The first `count` of them also follow one another
/// in the whole tensor, row-major, from `index` on; the `padding` after them are nowhere in it.
struct IndexRun {
  std::size_t begin = 0;  // in the buffer
  std::size_t count = 0, padding = 0;
  std::size_t index = 0;
};

/// All elements of a buffer in the order of memory. Requires cuts in whole blocks.
std::vector<IndexRun> index_runs(Claims& claims, BufferId id);

}  // namespace fourfold::verify
