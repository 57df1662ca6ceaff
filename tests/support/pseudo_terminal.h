// A terminal that nobody looks at: of any width, for what a program writes to it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/styled_text.h"

namespace fourfold::test {

class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short columns) : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    grantpt(master_);
    unlockpt(master_);
    inner_ = open(ptsname(master_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const winsize size{24, columns, 0, 0};
    ioctl(inner_, TIOCSWINSZ, &size);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  ~PseudoTerminal() {
    close(master_);
    if (inner_ >= 0) close(inner_);
  }

  /// Where a program writes.
  int descriptor() const { return inner_; }

  /// What was written so far, as it was written.
  std::string written() {
    std::array<char, 4096> buffer{};
    for (pollfd ready{master_, POLLIN, 0}; poll(&ready, 1, 50) > 0;) {
      const ssize_t count = read(master_, buffer.data(), buffer.size());
      if (count <= 0) break;
      text_.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return text_;
  }

  /// Runs a shell command with this terminal as its output, with the variables besides; its exit
  /// code.
  int run(const std::string& command, const std::map<std::string, std::string>& variables) {
    const pid_t child = fork();
    if (child == 0) {
      dup2(inner_, STDOUT_FILENO);
      dup2(inner_, STDERR_FILENO);
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) written();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int master_, inner_ = -1;
  std::string text_;
};

/// The lines that a person sees once all of this was written: carriage returns and erased lines
/// carried out, colours left out.
inline std::vector<std::string> seen_lines(const std::string& written) {
  constexpr std::string_view erase = "\x1b[K";
  std::vector<std::string> lines(1);
  std::size_t column = 0;
  const std::string text = written;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, erase.size(), erase) == 0) {
      lines.back().resize(std::min(column, lines.back().size()));
      at += erase.size();
    } else if (text[at] == '\r') {
      column = 0;
      ++at;
    } else if (text[at] == '\n') {
      lines.emplace_back();
      column = 0;
      ++at;
    } else {
      if (column < lines.back().size()) lines.back().resize(column);
      lines.back() += text[at++];
      column = lines.back().size();
    }
  }
  for (std::string& line : lines) line = without_styles(line);
  return lines;
}

}  // namespace fourfold::test
