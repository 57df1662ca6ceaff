#include "cli/completion.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fourfold::cli {
namespace {

CommandSpec example() {
  const OptionSpec set{{"--set"}, "overrides a key", true, {}},
      color{{"--color"}, "the reader's colours", true, {"auto", "always", "never"}},
      output{{"--output", "-o"}, "a file", true, {}};
  return {"fourfold",
          "",
          {},
          {{"train", "Train", {set, color}, {}},
           {"config", "Look", {}, {{"new", "Make", {output}, {}, {"a-shell"}}}}}};
}

TEST(Completion, every_shell_is_told_all_commands_options_and_keys) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(
        shell, example(), {{"model.layers", {}}, {"run.dir", {}}, {"run.device", {"cpu", "cuda"}}});
    for (const char* word : {"train", "cuda", "a-shell", "config", "new", "set", "color", "output",
                             "always", "model.layers=", "run.dir="})
      EXPECT_NE(script.find(word), std::string::npos) << shell << ": " << word << "\n" << script;
  }
}

TEST(Completion, quotes_in_meanings_are_quoted) {
  EXPECT_NE(completion_script("fish", example(), {}).find("'the reader'\\''s colours'"),
            std::string::npos);
}

TEST(Completion, another_shell_is_refused_with_those_there_are) {
  try {
    completion_script("tcsh", example(), {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_NE(std::string(error.what()).find("bash, zsh or fish"), std::string::npos);
  }
}

}  // namespace
}  // namespace fourfold::cli
