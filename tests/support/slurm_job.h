// A job of scripts/slurm/generic.sbatch on a real Slurm, which the test starts on this machine.
// Header only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "support/launched_job.h"
#include "support/long_run.h"

namespace fourfold::test {

/// What a command prints.
inline std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), n);
  pclose(pipe);
  return text;
}

/// How often each thing is tried; more where FOURFOLD_SLURM_TRIES says so.
inline int tries_of_each() {
  const char* const given = std::getenv("FOURFOLD_SLURM_TRIES");
  return given == nullptr ? 5 : std::atoi(given);
}

/// Installs Slurm where it is missing: only with FOURFOLD_LONG.
class SlurmTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_long_run())
      GTEST_SKIP() << "may install Slurm and takes half a minute; set FOURFOLD_LONG";
    // Short, for it becomes part of the names of sockets.
    dir_ = std::filesystem::temp_directory_path() / format("fourfold-slurm-{}", getpid());
    std::filesystem::create_directories(path("up"));
    up_ = std::make_unique<LaunchedJob>(
        std::vector<std::string>{FOURFOLD_SOURCE_DIR "/tests/support/slurm-up", path("slurm")},
        path("up"), start_environment());
    const auto code = up_->wait(hang_s);
    if (code == 77) GTEST_SKIP() << up_->output();
    ASSERT_EQ(code, 0) << up_->output();
    is_up_ = true;
  }
  void TearDown() override {
    if (is_up_) {
      EXPECT_EQ(output_of(FOURFOLD_SOURCE_DIR "/tests/support/slurm-up --down " + path("slurm")),
                "");
    }
    up_.reset();
    if (!dir_.empty()) std::filesystem::remove_all(dir_);
  }

  /// For slurm-up.
  virtual LaunchedJob::Environment start_environment() const { return {}; }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  /// What a client of Slurm prints. Its tasks bear the mark of `up_`, which ends them at last.
  std::string client(const std::string& command) const {
    return output_of(format(". {}/environment && export FOURFOLD_TEST_JOB={} && cd {} && {}",
                            path("slurm"), path("up"), path(""), command));
  }

  /// Submits the script for two nodes with two ranks each; the job's number. `variables` go
  /// to its environment, `options` to sbatch.
  std::string submit(const std::string& run, const std::string& settings,
                     const std::string& variables = "", const std::string& options = "") {
    const std::string said =
        client(format("FOURFOLD={} {} sbatch --nodes=2 --ntasks-per-node=2 --cpus-per-task=2 "
                      "--job-name={} {} {}/scripts/slurm/generic.sbatch {} --set run.dir={} "
                      "--set 'parallel.tensor={{x: 2, z: 2}}' --set train.micro_batch_size=2 {}",
                      FOURFOLD_BINARY, variables, run, options, FOURFOLD_SOURCE_DIR,
                      FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml", path(run), settings));
    const std::string before = "Submitted batch job ";
    EXPECT_TRUE(said.starts_with(before)) << said;
    return std::string(trim(said.substr(before.size())));
  }
  /// The log, under the name that the script gives it.
  std::string log_of(const std::string& run, const std::string& job) const {
    return text_of(format("{}/{}-{}.out", dir_.string(), run, job));
  }
  bool has_ended(const std::string& job) const {
    return trim(client("squeue -h -j " + job)).empty();
  }
  bool has_state(const std::string& job, const std::string& words) const {
    return client("scontrol show job " + job).find(words) != std::string::npos;
  }
  /// The processes of the ranks; 0 for one that is not there.
  std::vector<pid_t> ranks_of(const std::string& run) const {
    std::vector<pid_t> found(4, 0);
    for (const pid_t pid : up_->processes()) {
      const std::string line = text_of(format("/proc/{}/cmdline", pid));
      const auto rank = variable_of(pid, "PMIX_RANK");
      if (rank && line.find("run.dir=" + path(run)) != line.npos &&
          line.starts_with(FOURFOLD_BINARY))
        found.at(static_cast<std::size_t>(std::stoi(*rank))) = pid;
    }
    return found;
  }
  /// Does nothing where the rank is not there.
  void send(const std::string& run, int rank, int signal) const {
    const pid_t process = ranks_of(run).at(static_cast<std::size_t>(rank));
    if (process > 0) kill(process, signal);
  }
  pid_t controller() const {
    return static_cast<pid_t>(std::stoi(text_of(path("slurm") + "/slurmctld.pid")));
  }

  std::filesystem::path dir_;
  std::unique_ptr<LaunchedJob> up_;
  bool is_up_ = false;
};

}  // namespace fourfold::test
