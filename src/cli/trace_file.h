// Where a trace is that a person names.
#pragma once

#include <string>

namespace fourfold::cli {

/// A folder stands for the trace of the run in it. Errors: UserError(bad_data) for a run without.
std::string trace_file_of(const std::string& path);

}  // namespace fourfold::cli
