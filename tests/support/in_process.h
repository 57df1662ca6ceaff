// Runs the program's commands inside the test, where hundreds are wanted. Header only.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/command_line.h"

namespace fourfold::test {

/// The words of a command line; those in '...' may hold spaces.
inline std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  bool is_quoted = false;
  for (const std::string& part : split(line, '\'')) {
    if (is_quoted) {
      words.push_back(part);
    } else {
      for (const std::string& word : split(part, ' '))
        if (!word.empty()) words.push_back(word);
    }
    is_quoted = !is_quoted;
  }
  return words;
}

struct Outcome {
  int code;
  std::string text;         // of standard error
  std::string output = {};  // standard output
};

/// What `fourfold WORDS` does, without any variable of the environment.
inline Outcome run_here(std::vector<std::string> words) {
  words.insert(words.begin(), "fourfold");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = cli::run(static_cast<int>(argv.size()), argv.data(),
                            [](const std::string&) { return std::nullopt; });
  std::string output = testing::internal::GetCapturedStdout();
  return {code, testing::internal::GetCapturedStderr(), std::move(output)};
}
inline Outcome run_here(const std::string& arguments) {
  return run_here(words_of(arguments));
}

}  // namespace fourfold::test
