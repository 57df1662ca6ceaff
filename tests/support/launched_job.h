// A command that starts other processes, such as mpirun: what it prints, how it ends, and which of
// its processes are left. Header only.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fourfold::test {

/// How long a test waits for what is sure to come in the end: the end of a job, a line, a file.
/// Only what hangs takes so long, however slow or busy the machine is, and then the test still ends
/// before ctest ends it (tests/CMakeLists.txt) and says what the job printed.
constexpr double hang_s = 900;

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Asks again and again, for up to `seconds`; whether the answer was yes in the end. At first
/// often, as most jobs are short.
inline bool wait_until(double seconds, const std::function<bool()>& is_true) {
  const auto begin = std::chrono::steady_clock::now();
  while (!is_true()) {
    const double waited_s = seconds_since(begin);
    if (waited_s > seconds) return false;
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::clamp(waited_s / 20, 0.001, 0.02)));
  }
  return true;
}

/// All of a file, empty where it cannot be read; also of files in /proc, which have no size, and
/// whose process may end meanwhile (a stream would throw then).
inline std::string text_of(const std::string& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = read(file, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  close(file);
  return text;
}

/// A variable of the environment that a process began with.
inline std::optional<std::string> variable_of(pid_t pid, const std::string& name) {
  const std::string all = '\0' + text_of("/proc/" + std::to_string(pid) + "/environ");
  const std::string before = '\0' + name + "=";
  const std::size_t place = all.find(before);
  if (place == std::string::npos) return std::nullopt;
  return all.substr(place + before.size()).c_str();
}

inline bool has_command(const std::string& name) {
  return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0;
}

/// ASAN_OPTIONS of programs that use an MPI library, which keeps memory when it ends
/// (open-mpi/ompi#12584).
inline std::string leaks_allowed() {
  const char* options = std::getenv("ASAN_OPTIONS");
  return std::string(options ? options : "") + ":detect_leaks=0";
}

/// ASAN_OPTIONS of programs before which a library is loaded: the sanitizer's own one wants to be
/// the first, and here its interceptors are found after it.
inline std::string preload_allowed() {
  const char* options = std::getenv("ASAN_OPTIONS");
  return std::string(options ? options : "") + ":verify_asan_link_order=0";
}

/// The beginning of a command line that starts ranks on this machine.
inline std::vector<std::string> mpirun(int ranks) {
  return {"env",
          "ASAN_OPTIONS=" + leaks_allowed(),
          "mpirun",
          "-np",
          std::to_string(ranks),
          "--oversubscribe",
          "--bind-to",
          "none",
          "--allow-run-as-root"};
}

/// One command. It and all that it started, whatever their process groups, end with this object.
class LaunchedJob {
 public:
  using Environment = std::map<std::string, std::string>;

  /// `folder` is this job's own: it receives standard output and error, and what the launcher
  /// leaves.
  LaunchedJob(std::vector<std::string> words, std::string folder, Environment environment = {})
      : folder_(std::move(folder)) {
    // Descendants inherit the environment, and so are known by it.
    environment[mark_name] = folder_;
    // Open MPI's files, also those that a killed rank does not remove.
    environment.try_emplace("OMPI_MCA_orte_tmpdir_base", folder_);
    environment.try_emplace("OMPI_MCA_btl_vader_backing_directory", folder_);
    environment.try_emplace("ASAN_OPTIONS", leaks_allowed());
    pid_ = fork();
    if (pid_ == 0) become(words, environment);
  }
  ~LaunchedJob() {
    if (!code_) {
      // A launcher that is asked tidies up after itself.
      kill(pid_, SIGTERM);
      wait(3);
    }
    for (int round = 0; round < 100 && !processes().empty(); ++round) {
      for (const pid_t pid : processes()) kill(pid, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!code_) waitpid(pid_, nullptr, 0);
  }
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;

  /// The command itself.
  pid_t pid() const { return pid_; }

  /// What it printed so far, on both streams together.
  std::string output() const { return text_of(output_file()); }

  /// The exit code, 128 + N where signal N ended it; nothing if it still runs after `seconds`.
  std::optional<int> wait(double seconds) {
    wait_until(seconds, [&] {
      int status = 0;
      if (!code_ && waitpid(pid_, &status, WNOHANG) == pid_)
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      return code_.has_value();
    });
    return code_;
  }

  /// What lives of the job: the command and its descendants, also those that have left it.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    DIR* const all = opendir("/proc");
    if (all == nullptr) return found;
    while (const dirent* entry = readdir(all)) {
      const auto pid = static_cast<pid_t>(std::atoi(entry->d_name));
      if (pid > 0 && pid != getpid() && variable_of(pid, mark_name) == folder_)
        found.push_back(pid);
    }
    closedir(all);
    return found;
  }

  /// The process of each rank that lives, as Open MPI numbered it.
  std::map<int, pid_t> ranks() const {
    std::map<int, pid_t> found;
    for (const pid_t pid : processes())
      if (const auto rank = variable_of(pid, "OMPI_COMM_WORLD_RANK")) found[std::stoi(*rank)] = pid;
    return found;
  }

 private:
  static constexpr const char* mark_name = "FOURFOLD_TEST_JOB";

  std::string output_file() const { return folder_ + "/output.txt"; }

  [[noreturn]] void become(std::vector<std::string>& words, const Environment& environment) const {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // for a test that is itself killed, at its time limit
    setpgid(0, 0);
    // Whoever starts tests in the background has SIGINT ignored, which a shell then cannot trap.
    std::signal(SIGINT, SIG_DFL);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const int output = open(output_file().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }

  std::string folder_;
  pid_t pid_ = 0;
  std::optional<int> code_;
};

}  // namespace fourfold::test
