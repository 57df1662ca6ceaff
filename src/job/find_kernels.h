// What run.kernel_table says; and where it is `auto`, which kernels are fastest for this run on
// this machine, from its folder, from the user's cache, or measured now. Not the measuring itself
// (measure/).
#pragma once

#include <string>
#include <vector>

#include "job/job.h"

namespace fourfold::job {

/// The text of the file that run.kernel_table names; empty where it says `auto` or `builtin`.
/// Errors: UserError(bad_config).
std::string named_kernel_table(const std::string& value);

/// True where run.kernel_table is `auto` and fast kernels compute, of a CPU or of a GPU.
bool may_find_kernels(const Preparation& run);
/// True for a run that takes a table of its own: it may, and takes long enough to gain from ten
/// seconds of measuring.
bool wants_kernels(const Preparation& run);

/// What a table of the run would be measured on, for people: ranks with the same text share one.
std::string place_of_kernels(const Preparation& run);

/// Where tables come from.
struct KernelSources {
  std::string kept;          // the file of the run that goes on; empty: it begins
  std::string cache_folder;  // of the user (peak_cache.h); empty: nothing is kept
  double limit_s = 9;        // of measuring
  int gpu = 0;               // that measures, where one computes
};

struct FoundKernels {
  std::string table;                  // its text; empty: the built-in one
  std::string origin;                 // for people: "12 measured now in 4.1 s"
  std::vector<std::string> warnings;  // files that were passed over, a line each
};

/// The table of a run that goes on is kept as it is. Else it has the lines of the products and
/// convolutions of a step that the cache knows, and of those that are measured now; the cache knows
/// them from then on. On a GPU products alone have lines. What the limit leaves out is computed as
/// the built-in table says. A file that is damaged, of another machine or cannot be written is
/// passed over. Requires may_find_kernels, and a GPU that answers where one computes.
FoundKernels find_kernels(const Preparation& run, const KernelSources& sources);

}  // namespace fourfold::job
