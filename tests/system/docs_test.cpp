// Every command that a page shows is run as it is written there, in a copy of the tree's layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "support/launched_job.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

struct Shown {
  std::string page;  // relative to the root
  int line = 0;
  std::string command;  // without its remark
};

/// The pages for users, in the order in which one reads them: what a page shows may need what an
/// earlier one made.
std::vector<std::string> pages() {
  return {"README.md", "configs/README.md", "data/README.md", "scripts/README.md",
          "tests/README.md"};
}

/// Lines of fenced blocks that begin with a program of ours or a launcher.
std::vector<Shown> commands_of(const std::string& page) {
  static const std::regex command("^(build/|scripts/|data/|mpirun |sbatch |ctest |cmake ).*");
  static const std::regex remark("\\s+#\\s.*$");
  std::vector<Shown> found;
  std::istringstream text(read_file(std::string(FOURFOLD_SOURCE_DIR "/") + page));
  bool is_code = false;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.starts_with("```"))
      is_code = !is_code;
    else if (is_code && std::regex_match(line, command))
      found.push_back({page, number, std::regex_replace(line, remark, "")});
  }
  return found;
}

/// Commands that other tests run, or that run the tests.
struct Elsewhere {
  const char* begins;
  const char* where;
};
constexpr Elsewhere elsewhere[] = {
    {"scripts/quickstart", "the README's first command builds the tree that this test belongs to"},
    {"scripts/test", "runs this test"},
    {"scripts/check", "scripts/test runs it first"},
    {"scripts/setup", "scripts/test runs it first"},
    {"scripts/build", "scripts/test runs it first"},
    {"scripts/gpu-check", "needs a GPU; test_bench_gpu.py has what it says of its figures"},
    {"scripts/bench-gpu", "needs a GPU; test_bench_gpu.py has what it says of its figures"},
    {"data/get-corpus", "installs a package"},
    {"sbatch ", "slurm_test.cpp"},
    {"ctest ", "runs this test"},
};

bool is_run_elsewhere(const std::string& command) {
  return std::any_of(std::begin(elsewhere), std::end(elsewhere),
                     [&](const Elsewhere& other) { return command.starts_with(other.begins); });
}

/// As written, but short: a run of a few steps shows that it starts, trains and ends.
std::string shortened(const std::string& command) {
  if (command.find("fourfold train ") == std::string::npos) return command;
  static const std::regex stop("--stop-at [0-9]+");
  return std::regex_replace(command, stop, "--stop-at 2") +
         " --set train.steps=3 --set eval.batches=1 --set sample.tokens=8";
}

class Docs : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / format("fourfold-docs-{}", getpid());
    fs::create_directories(folder_ / "data");
    const fs::path source(FOURFOLD_SOURCE_DIR);
    fs::create_directory_symlink(fs::path(FOURFOLD_BINARY).parent_path(), folder_ / "build");
    for (const char* room : {"configs", "scripts", "tests"})
      fs::create_directory_symlink(source / room, folder_ / room);
    write_file_atomic((folder_ / "data" / "bible.txt").string(), some_text());
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// In the place of the real one, which a test must not need.
  static std::string some_text() {
    std::string text;
    for (int verse = 1; verse <= 2000; ++verse)
      text += format("{}:{} In the beginning was line number {}; and it was so.\n", verse / 30 + 1,
                     verse % 30 + 1, verse);
    return text;
  }

  void run(const Shown& shown) {
    SCOPED_TRACE(format("{}:{}: {}", shown.page, shown.line, shown.command));
    const fs::path output = folder_ / format("job-{}", ++jobs_);
    fs::create_directories(output);
    test::LaunchedJob job(
        {"bash", "-c", format("cd '{}' && {}", folder_.string(), shortened(shown.command))},
        output.string(),
        {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
         {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
         {"OMPI_MCA_rmaps_base_oversubscribe", "1"}});
    const bool is_slow = std::string_view(FOURFOLD_SANITIZERS) != "";
    const std::optional<int> code = job.wait(is_slow ? 900 : 120);
    const bool needs_gpu = shown.command.find("run.device=cuda") != std::string::npos;
    const int without_gpu = static_cast<int>(ExitCode::environment);
    EXPECT_TRUE(code == 0 || (needs_gpu && code == without_gpu)) << job.output();
    const bool is_redirected = shown.command.find(" > ") != std::string::npos;
    EXPECT_TRUE(is_redirected || !job.output().empty());
  }

  fs::path folder_;
  int jobs_ = 0;
};

TEST_F(Docs, every_command_runs_as_written) {
  std::size_t count = 0;
  for (const std::string& page : pages())
    for (const Shown& shown : commands_of(page)) {
      if (is_run_elsewhere(shown.command)) continue;
      if (shown.command.starts_with("mpirun") && !test::has_command("mpirun")) continue;
      run(shown);
      ++count;
    }
  std::printf("%zu commands run as the pages show them\n", count);
  EXPECT_GE(count, 10U);
}

}  // namespace
}  // namespace fourfold
