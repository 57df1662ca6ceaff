// A body that may end its process, run in one of its own. Header only.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace fourfold::test {

/// What the body returns as the code of a process, or the code with which the process ends before:
/// 128 + N where signal N ended it.
inline int code_of_child(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace fourfold::test
