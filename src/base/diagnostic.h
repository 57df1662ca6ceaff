// A problem at a place in a text that the user wrote, and how it is shown. Not an error by itself:
// many are collected and thrown together.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace fourfold {

struct Diagnostic {
  std::string file;  // or "--set #2"
  std::size_t line =
      0;  // from 1; 0: the text has no lines worth counting, or the place is not known
  std::size_t column = 0;  // from 1, in bytes of `source_line`; 0: not known
  std::size_t width = 1;   // bytes to underline
  std::string message;     // what was read and what was expected
  std::string hint;        // what to do; may be empty
  std::string source_line;
  std::vector<std::string> notes = {};  // further lines, such as the other places involved
};

/// gpt.yaml:14:3: error: unknown key 'model.num_layer'
///    14 |   num_layer: 2
///       |   ^~~~~~~~~ did you mean 'model.num_layers'?
/// The notes follow, a line each. Long source lines are cut around the place; control characters
/// print as '?'. Ends without a newline.
std::string print(const Diagnostic& problem);

/// All of them, one after the other (after the fiftieth only their number), as one error.
[[noreturn]] void throw_together(std::span<const Diagnostic> problems, ExitCode code);

/// The line of the text, counted from 1, without its end; empty when there is none.
std::string_view line_of(std::string_view text, std::size_t line);

}  // namespace fourfold
