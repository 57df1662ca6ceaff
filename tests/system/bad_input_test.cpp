// Each bad configuration and command line ends with its exit code, tells all its problems at once,
// each with its place and what would work. In one process, because there are many; some again
// through the program itself.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/format.h"
#include "base/text.h"
#include "support/in_process.h"
#include "system/bad_inputs.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;
using test::BadInput;
using test::Outcome;
using test::run_here;

/// A folder with a.yaml and a pipe, which is the current one meanwhile.
class Folder {
 public:
  explicit Folder(const std::string& text) : before_(fs::current_path()) {
    std::string pattern = (fs::temp_directory_path() / "fourfold-bad-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
    fs::current_path(dir_);
    EXPECT_EQ(::mkfifo("pipe", 0600), 0);
    std::ofstream("a.yaml", std::ios::binary) << text;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    fs::current_path(before_);
    fs::remove_all(dir_);
  }

 private:
  fs::path dir_, before_;
};

/// Lines that begin a problem.
std::size_t count_problems(const std::string& text) {
  std::size_t count = 0;
  for (const std::string& line : split(text, '\n'))
    if (line.starts_with("error: ") || line.find(": error: ") != std::string::npos) ++count;
  return count;
}

void expect_told(const BadInput& input, const Outcome& outcome) {
  EXPECT_EQ(outcome.code, input.code) << outcome.text;
  EXPECT_EQ(count_problems(outcome.text), input.problems) << outcome.text;
  for (const std::string& part : input.says)
    EXPECT_NE(outcome.text.find(part), std::string::npos) << "expected: " << part << "\n"
                                                          << outcome.text;
}

/// In one process.
void expect_all_told(const std::vector<BadInput>& inputs) {
  for (const BadInput& input : inputs) {
    SCOPED_TRACE(input.arguments + "\n" + input.text.substr(0, 300));
    const Folder folder(input.text);
    expect_told(input, run_here(input.arguments));
    for (const auto& entry : fs::directory_iterator("."))
      EXPECT_TRUE(entry.path().filename() == "a.yaml" || entry.path().filename() == "pipe")
          << entry.path() << " is left behind";
  }
}

TEST(BadInput, mistakes_of_yaml_have_places_and_remedies) {
  expect_all_told(test::yaml_mistakes);
}
TEST(BadInput, mistaken_keys_have_places_and_remedies) {
  expect_all_told(test::key_mistakes);
}
TEST(BadInput, mistaken_values_have_places_and_remedies) {
  expect_all_told(test::value_mistakes);
}
TEST(BadInput, values_that_do_not_go_together_have_the_places_of_all_and_remedies) {
  expect_all_told(test::relation_mistakes);
}
TEST(BadInput, mistakes_of_set_have_places_and_remedies) {
  expect_all_told(test::set_mistakes);
}
TEST(BadInput, mistaken_files_are_named_with_remedies) {
  expect_all_told(test::file_mistakes);
}
TEST(BadInput, mistaken_command_lines_have_remedies) {
  expect_all_told(test::command_mistakes);
}
TEST(BadInput, many_problems_are_told_together) {
  expect_all_told({test::many});
}

/// What the program prints goes to standard error alone.
TEST(BadInput, the_program_itself_says_the_same) {
  for (const BadInput& input :
       {test::yaml_mistakes[0], test::yaml_mistakes[28], test::key_mistakes[3],
        test::relation_mistakes[0], test::set_mistakes[11], test::file_mistakes[2],
        test::command_mistakes[0], test::command_mistakes[1], test::many}) {
    SCOPED_TRACE(input.arguments + "\n" + input.text);
    const Folder folder(input.text);
    const std::string command = format("{} {} 2>&1 > stdout", FOURFOLD_BINARY, input.arguments);
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    Outcome outcome{0, ""};
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
      outcome.text.append(buffer.data(), n);
    const int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    expect_told(input, outcome);
    EXPECT_EQ(fs::file_size("stdout"), 0U);
  }
}

}  // namespace
}  // namespace fourfold
