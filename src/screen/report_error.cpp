#include "screen/report_error.h"

#include <cstdio>

#include "base/styled_text.h"

namespace fourfold::screen {

void report_error(const std::string& message) {
  std::fflush(stdout);
  if (message.empty()) return;
  // A list of problems with their places says "error" in each line already.
  const bool marked = message.find("error: ") != std::string::npos;
  std::fprintf(stderr, "%s%s\n", marked ? "" : "error: ", without_controls(message).c_str());
}

}  // namespace fourfold::screen
