#include "base/diagnostic.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fourfold {
namespace {

Diagnostic example() {
  return {"gpt.yaml",
          14,
          3,
          9,
          "unknown key 'model.num_layer'",
          "did you mean 'model.num_layers'?",
          "  num_layer: 2"};
}

TEST(Diagnostic, shows_the_source_line_with_a_caret_and_the_hint) {
  EXPECT_EQ(print(example()),
            "gpt.yaml:14:3: error: unknown key 'model.num_layer'\n"
            "   14 |   num_layer: 2\n"
            "      |   ^~~~~~~~~ did you mean 'model.num_layers'?");
}

TEST(Diagnostic, without_lines_only_the_source_is_shown) {
  Diagnostic problem = example();
  problem.file = "--set #2";
  problem.line = 0;
  problem.column = 1;
  problem.source_line = "num_layer=2";
  EXPECT_EQ(print(problem),
            "--set #2: error: unknown key 'model.num_layer'\n"
            "      | num_layer=2\n"
            "      | ^~~~~~~~~ did you mean 'model.num_layers'?");
}

TEST(Diagnostic, without_a_source_the_hint_stands_below) {
  Diagnostic problem = example();
  problem.line = 0;
  problem.source_line = "";
  EXPECT_EQ(
      print(problem),
      "gpt.yaml: error: unknown key 'model.num_layer'\n      did you mean 'model.num_layers'?");
}

TEST(Diagnostic, a_long_hint_gets_its_own_line) {
  Diagnostic problem = example();
  problem.hint = std::string(120, 'h');
  EXPECT_NE(print(problem).find("^~~~~~~~~\n      hhh"), std::string::npos);
}

TEST(Diagnostic, a_long_source_line_is_cut_around_the_place) {
  Diagnostic problem = example();
  problem.source_line = std::string(1'000'000, 'x') + "HERE" + std::string(1'000'000, 'x');
  problem.column = 1'000'001;
  problem.width = 4;
  const std::string text = print(problem);
  EXPECT_LT(text.size(), 500U);
  const auto here = text.find("HERE"), caret = text.find("^~~~");
  ASSERT_NE(here, std::string::npos);
  EXPECT_EQ(here - text.rfind('\n', here), caret - text.rfind('\n', caret));
}

TEST(Diagnostic, columns_count_letters_not_bytes) {
  Diagnostic problem = example();
  problem.source_line = "n: \"\u00e9\u00e9\" x";
  problem.column = 11;  // of x, in bytes
  problem.width = 1;
  const std::string text = print(problem);
  EXPECT_NE(text.find("gpt.yaml:14:9:"), std::string::npos) << text;
  EXPECT_NE(text.find("\n      |         ^"), std::string::npos) << text;
}

TEST(Diagnostic, control_characters_never_reach_the_terminal) {
  Diagnostic problem = example();
  problem.message += "\x1b[31m\n";
  problem.source_line += "\x1b";
  for (const char byte : print(problem)) EXPECT_TRUE(byte == '\n' || byte >= ' ');
}

TEST(Diagnostic, many_problems_are_one_error_and_its_length_is_limited) {
  try {
    throw_together(std::vector<Diagnostic>(60, example()), ExitCode::bad_config);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_TRUE(std::string(error.what()).ends_with("... and 10 more"));
  }
}

TEST(Diagnostic, lines_are_counted_from_one) {
  EXPECT_EQ(line_of("a\r\nb\n", 1), "a");
  EXPECT_EQ(line_of("a\r\nb\n", 2), "b");
  EXPECT_EQ(line_of("a\r\nb\n", 3), "");
  EXPECT_EQ(line_of("a", 9), "");
}

}  // namespace
}  // namespace fourfold
