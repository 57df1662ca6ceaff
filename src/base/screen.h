// Where lines go that people read while something runs: a terminal, a file, both (screen/log.h).
// Texts may have styles (base/styled_text.h); whoever shows them takes those out that it cannot
// show.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fourfold {

enum class Level : std::uint8_t { debug, info, warning, error };

/// One entry of a line of figures.
struct Cell {
  std::string text;
  /// The smaller, the sooner it is left out where the line is too long.
  int importance = 0;
};

/// The cells with bars between them, as many as fit in so many columns, in their order; all of them
/// for 0 columns. Lines align when equal cells have equal widths. The most important one stays.
std::string fit(std::span<const Cell> cells, int columns);

class Screen {
 public:
  virtual ~Screen() = default;

  /// Several lines at once are several lines.
  virtual void say(Level level, std::string_view text) = 0;
  /// A line of figures, fitted.
  virtual void row(std::span<const Cell> cells) = 0;

  /// True if there is a line that can be drawn anew; and its width.
  virtual bool is_live() const { return false; }
  virtual int columns() const { return 0; }
  /// True if letters beyond ASCII can be shown.
  virtual bool is_unicode() const { return false; }
  /// Puts the text in that line; empty removes it. From any thread.
  virtual void status(std::string_view /*text*/) {}
};

}  // namespace fourfold
