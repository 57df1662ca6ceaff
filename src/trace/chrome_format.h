// Timelines in the trace-event format that Perfetto and chrome://tracing show (Chromium's "Trace
// Event Format"), and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trace/timeline.h"

namespace fourfold::trace {

/// One process for each rank, one thread for each of its streams and one for the steps. Complete
/// events carry all of a Work in their args, with GFLOP/s and GB/s besides; flow events join those
/// who meet, in the order in which they came, and a sender with its receiver. Times are
/// microseconds with three decimals, so that nothing is lost. One event a line. Where the same
/// steps were `predicted` too, the processes of these ranks stand below, and are called so.
std::string to_chrome_json(const Timeline& timeline, const Timeline* predicted = nullptr);

/// Reads what to_chrome_json wrote, whatever has since become of the order of its events; events of
/// other kinds are passed over. Errors: UserError(bad_data), one line that begins with `file`.
Timeline parse_chrome_json(std::string_view text, std::string_view file);

/// The same with what the file has of a prediction.
struct TimelineFile {
  Timeline timeline;
  std::optional<Timeline> predicted;
};
TimelineFile parse_timeline_file(std::string_view text, std::string_view file);

}  // namespace fourfold::trace
