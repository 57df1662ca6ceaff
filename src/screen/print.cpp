#include "screen/print.h"

#include <unistd.h>

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <string>

#include "base/styled_text.h"

namespace fourfold::screen {
namespace {

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void print(const char* words, ...) {
  std::va_list values, again;
  va_start(values, words);
  va_copy(again, values);
  const int size = std::vsnprintf(nullptr, 0, words, values);
  va_end(values);
  std::string text(static_cast<std::size_t>(size > 0 ? size : 0), '\0');
  std::vsnprintf(text.data(), text.size() + 1, words, again);
  va_end(again);
  write(without_controls(text));
}

void print_text(std::string_view text) {
  write(::isatty(STDOUT_FILENO) != 0 ? without_controls(text) : std::string(text));
}

void tell(const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", without_controls(message).c_str());
}

void report_error(const std::string& message) {
  std::fflush(stdout);
  if (message.empty()) return;
  // A list of problems with their places says "error" in each line already.
  const bool marked = message.find("error: ") != std::string::npos;
  std::fprintf(stderr, "%s%s\n", marked ? "" : "error: ", without_controls(message).c_str());
}

}  // namespace fourfold::screen
