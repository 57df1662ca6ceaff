// What an output can show: colours, a line that moves, letters beyond ASCII. Facts only; log.h
// writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/launcher.h"

namespace fourfold::screen {

enum class ColorChoice : std::uint8_t { automatic, always, never };
/// The choice that "auto", "always" or "never" names.
ColorChoice color_choice(const std::string& word);

struct Terminal {
  static constexpr int none = -1;  // as a descriptor: what is printed does not go to a terminal
  int descriptor = 1;
  bool has_color = false;
  bool is_live = false;  // a line can be drawn anew
  bool is_unicode = false;

  /// The columns of a terminal, as it is now: windows change. 0: no terminal, lines may be of any
  /// length.
  int columns() const;
};

/// A choice other than automatic decides on colours; then NO_COLOR (no-color.org), then
/// CLICOLOR_FORCE, then whether the output is a terminal that can. `variable` gives the value of a
/// variable of the environment.
Terminal terminal_of(int descriptor, ColorChoice choice, const comm::Variable& variable);

}  // namespace fourfold::screen
