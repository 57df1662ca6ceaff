// What commands print on standard output: the only way there, so that nothing that stands in a file
// can command a terminal. An error goes to standard error. What is seen while something runs:
// log.h, progress_line.h.
#pragma once

#include <string>
#include <string_view>

namespace fourfold::screen {

/// As printf. Control characters of all that is printed become '?', but for newlines.
[[gnu::format(printf, 1, 2)]] void print(const char* words, ...);

/// A text that was asked for, such as what a model writes, a program or a configuration: byte by
/// byte for files and pipes, without control characters for a terminal. Whole letters at a time.
void print_text(std::string_view text);

/// One line on standard error that is no error: what is said beside a text that was asked for.
void tell(const std::string& message);

/// One message on standard error, after all that was printed before. Empty: another rank has said
/// it.
void report_error(const std::string& message);

}  // namespace fourfold::screen
