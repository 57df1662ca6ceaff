// Our own loops, compiled once for each level of instructions that the build has: the least that
// the whole program needs, and where FOURFOLD_ARCH names a level of x86-64 those above it. The best
// one that this CPU runs computes everything; libraries choose for themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu {

/// The loops of one level. Problems are as prepare() takes them (kernel.h).
struct OwnLoops {
  std::vector<std::string> (*instruction_sets)();  // that the compiler used: "avx2", "fma"
  Run (*prepare_vector)(const Problem& problem);
  std::int64_t (*vector_workspace_bytes)(const Problem& problem);
  Run (*prepare_winograd)(const Problem& problem);
  std::int64_t (*winograd_workspace_bytes)(const Problem& problem);
  Run (*prepare_attention_products)(const Problem& problem);
  std::int64_t (*attention_products_workspace_bytes)(const Problem& problem);
};

/// Those of the level that a file is compiled for.
const OwnLoops& loops_here();

struct Level {
  std::string name;  // "x86-64-v3"; "least" is what the whole program is compiled for
  const OwnLoops* loops = nullptr;
};
/// The levels of this build that this CPU runs, the least one first.
const std::vector<Level>& levels();
/// The best of them.
const OwnLoops& own_loops();

}  // namespace fourfold::kernels::cpu
