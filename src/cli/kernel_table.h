// The file of run.kernel_table: which CPU this is, and what the file says for a run here.
#pragma once

#include <string>
#include <vector>

#include "machine/kernel_table.h"

namespace fourfold::cli {

/// Model of this CPU and the instruction sets that the kernels were compiled for: where both are
/// the same, so are the best kernels.
std::string kernel_cpu();

/// Choices of a table's text for so many threads; none for an empty text. `path` is for messages.
/// Errors: UserError(bad_config) for a wrong table, or one measured elsewhere.
std::vector<machine::Choice> measured_choices(const std::string& text, const std::string& path,
                                              int threads);

}  // namespace fourfold::cli
