// What a UserError says and how the process would end.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace fourfold {

/// Runs `action` and returns the text of the UserError(code) that it must throw.
template <class Action>
std::string user_error(ExitCode code, Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected a UserError, none was thrown";
  return {};
}

/// Fails unless `text` holds all the words.
inline void expect_words(const std::string& text, std::initializer_list<std::string> words) {
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "\"" << word << "\" is missing in: " << text;
}

}  // namespace fourfold
