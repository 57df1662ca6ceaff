// Which CPU or GPU this is to a table of kernels, and what such a table says for a run here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "machine/kernel_table.h"

namespace fourfold::measure {

/// Model of this CPU and the instruction sets that the kernels were compiled for: where both are
/// the same, so are the best kernels.
std::string kernel_cpu();

/// Reads the table of a CPU, of whichever one. Errors: UserError(bad_config).
machine::KernelTable parse_cpu_table(const std::string& text, const std::string& path);

/// Choices of a table's text for so many threads; none for an empty text. `path` is for messages.
/// Errors: UserError(bad_config) for a wrong table, or one measured elsewhere.
std::vector<machine::Choice> measured_choices(const std::string& text, const std::string& path,
                                              int threads);

/// Name of the first GPU and the versions of the libraries that compute on it: where all are the
/// same, so are their algorithms. None where no GPU answers.
std::optional<std::string> kernel_device();

/// Reads the table of a GPU, of whichever one. Errors: UserError(bad_config).
machine::KernelTable parse_device_table(const std::string& text, const std::string& path);

/// The same for a run on a GPU, which may be planned where there is none.
std::vector<machine::Choice> measured_device_choices(const std::string& text,
                                                     const std::string& path);

}  // namespace fourfold::measure
