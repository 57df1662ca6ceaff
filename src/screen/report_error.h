// How an error is shown.
#pragma once

#include <string>

namespace fourfold::screen {

/// One message on standard error, after all that was printed before. Empty: another rank has said
/// it.
void report_error(const std::string& message);

}  // namespace fourfold::screen
