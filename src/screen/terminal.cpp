#include "screen/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace fourfold::screen {
namespace {

/// As POSIX has it: the first of these that is set and not empty names the locale's letters.
bool speaks_utf8(const comm::Variable& variable) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = variable(name).value_or("");
    if (value.empty()) continue;
    std::erase(value, '-');
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return value.find("utf8") != std::string::npos;
  }
  return false;
}

bool wants_color(ColorChoice choice, bool is_able, const comm::Variable& variable) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  if (!variable("NO_COLOR").value_or("").empty()) return false;
  const std::string force = variable("CLICOLOR_FORCE").value_or("0");
  if (!force.empty() && force != "0") return true;
  return is_able;
}

}  // namespace

ColorChoice color_choice(const std::string& word) {
  if (word == "always") return ColorChoice::always;
  return word == "never" ? ColorChoice::never : ColorChoice::automatic;
}

int Terminal::columns() const {
  constexpr int usual = 80;
  winsize size{};
  if (isatty(descriptor) == 0) return 0;
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return usual;
  return size.ws_col;
}

Terminal terminal_of(int descriptor, ColorChoice choice, const comm::Variable& variable) {
  const bool is_able = isatty(descriptor) != 0 && variable("TERM").value_or("dumb") != "dumb";
  return {.descriptor = descriptor,
          .has_color = wants_color(choice, is_able, variable),
          .is_live = is_able,
          .is_unicode = speaks_utf8(variable)};
}

}  // namespace fourfold::screen
