// What a command takes of its process. Header only.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace fourfold::test {

struct Cost {
  int code = 0;
  double cpu_s = 0;
  std::int64_t peak_bytes = 0;  // resident
};

/// Runs our binary with these words in the top folder of the sources; nobody sees what it says.
inline Cost cost_of(const std::vector<std::string>& words) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<const char*> arguments = {"fourfold"};
    for (const std::string& word : words) arguments.push_back(word.c_str());
    arguments.push_back(nullptr);
    if (chdir(FOURFOLD_SOURCE_DIR) != 0 || std::freopen("/dev/null", "w", stdout) == nullptr ||
        std::freopen("/dev/null", "w", stderr) == nullptr)
      _exit(126);
    execv(FOURFOLD_BINARY, const_cast<char* const*>(arguments.data()));
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss * 1024};
}

}  // namespace fourfold::test
