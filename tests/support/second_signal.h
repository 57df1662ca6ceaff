// A run of one process that is asked twice to stop, a second apart and within one step. Header
// only.
#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "support/launched_job.h"

namespace fourfold::test {

/// How a run in `folder` ends that is asked to stop, asked the same within a second, and asked
/// again after it. Between the last two it is frozen, so that no step need be longer than the time
/// in which it says that it heard. Where a step ends before that, the run has saved (75), and
/// another one is tried.
inline int code_after_second_signal(const std::function<std::unique_ptr<LaunchedJob>()>& start,
                                    const std::string& folder, int signal) {
  int code = -1;
  for (int tries = 0; tries < 10; ++tries) {
    std::filesystem::remove_all(folder);
    const std::unique_ptr<LaunchedJob> job = start();
    const auto is_over = [&] { return job->wait(0).has_value(); };
    const auto training = [&] { return !text_of(folder + "/metrics.jsonl").empty() || is_over(); };
    const auto has_heard = [&] {
      return job->output().find("ask again to end it at once") != std::string::npos || is_over();
    };
    if (!wait_until(hang_s, training) || is_over()) return -1;
    kill(job->pid(), signal);
    if (!wait_until(hang_s, has_heard)) return -1;
    if (!is_over()) {
      kill(job->pid(), signal);
      kill(job->pid(), SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      kill(job->pid(), signal);
      kill(job->pid(), SIGCONT);
    }
    code = job->wait(hang_s).value_or(-1);
    if (code != 75) return code;
  }
  return code;
}

}  // namespace fourfold::test
