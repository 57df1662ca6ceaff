// What a run tells people: on standard output, and with times in a file of the run directory. The
// one door to spdlog. Any thread may call.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/screen.h"
#include "screen/terminal.h"

namespace fourfold::screen {

/// "debug", "info", "warning", "error".
Level log_level(std::string_view word);

class Log : public Screen {
 public:
  /// Lines below the level are left out. `out` must outlive the log; the terminal is what it leads
  /// to.
  Log(Level level, const Terminal& terminal, std::FILE* out = stdout);
  /// Says what is still counted, removes the status line, and tells how many lines were lost:
  /// neither a reader that is slow or gone nor a full disk holds a run up.
  ~Log() override;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Every line also goes to this file, those said before too, whole, without styles, with date,
  /// time and level: after what an earlier start of the run has left there, or in its place.
  /// Errors: UserError(storage).
  enum class Existing { keep, replace };
  void keep(const std::string& path, Existing existing = Existing::keep);

  void set_level(Level level);

  void debug(std::string_view text) { say(Level::debug, text); }
  void info(std::string_view text) { say(Level::info, text); }
  void warn(std::string_view text) { say(Level::warning, text); }
  /// A warning of one of several ranks (rank_tag in warning_fold.h). The same text from further
  /// ranks is counted, and told in one line with the next line of figures or at the end.
  void warn_from(std::string_view tag, std::string_view text);

  void say(Level level, std::string_view text) override;
  void row(std::span<const Cell> cells) override;
  bool is_live() const override;
  int columns() const override;
  bool is_unicode() const override;
  void status(std::string_view text) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fourfold::screen
