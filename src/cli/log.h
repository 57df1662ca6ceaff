// What a run tells people: on standard output as plain lines, and with times in a file of the run
// directory. The one door to spdlog.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>

namespace fourfold::cli {

class Log {
 public:
  Log();
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// From now on every line also goes to this file, with date, time and level. Errors:
  /// UserError(storage).
  void keep(const std::string& path);

  /// Several lines at once are several lines of the log.
  void info(std::string_view text);
  void warn(std::string_view text);

  /// Whole lines written here are info lines; a line that begins with "warning: " is a warning.
  std::ostream& stream();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fourfold::cli
