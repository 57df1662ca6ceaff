#include "screen/terminal.h"

#include <gtest/gtest.h>

#include <map>

#include "support/pseudo_terminal.h"

namespace fourfold::screen {
namespace {

using Variables = std::map<std::string, std::string>;

comm::Variable environment(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

class OnTerminal : public ::testing::Test {
 protected:
  Terminal of(ColorChoice choice, const Variables& variables) {
    return terminal_of(terminal_.descriptor(), choice, environment(variables));
  }
  Terminal in_a_file(ColorChoice choice, const Variables& variables) {
    return terminal_of(file_, choice, environment(variables));
  }

  test::PseudoTerminal terminal_{97};
  int file_ = open("/dev/null", O_WRONLY);
};

TEST_F(OnTerminal, a_terminal_is_live_has_colours_and_a_width) {
  const Terminal terminal = of(ColorChoice::automatic, {{"TERM", "xterm"}});
  EXPECT_TRUE(terminal.is_live);
  EXPECT_TRUE(terminal.has_color);
  EXPECT_EQ(terminal.columns(), 97);
}

TEST_F(OnTerminal, a_file_is_none_of_it) {
  const Terminal terminal = in_a_file(ColorChoice::automatic, {{"TERM", "xterm"}});
  EXPECT_FALSE(terminal.is_live);
  EXPECT_FALSE(terminal.has_color);
  EXPECT_EQ(terminal.columns(), 0);
}

TEST_F(OnTerminal, a_dumb_terminal_gets_plain_lines) {
  for (const Variables& variables : {Variables{{"TERM", "dumb"}}, Variables{}}) {
    EXPECT_FALSE(of(ColorChoice::automatic, variables).is_live);
    EXPECT_FALSE(of(ColorChoice::automatic, variables).has_color);
  }
}

TEST_F(OnTerminal, the_option_decides_then_no_color_then_clicolor_force) {
  const Variables no = {{"TERM", "xterm"}, {"NO_COLOR", "1"}, {"CLICOLOR_FORCE", "1"}};
  EXPECT_FALSE(of(ColorChoice::automatic, no).has_color);
  EXPECT_TRUE(of(ColorChoice::always, no).has_color);
  EXPECT_FALSE(of(ColorChoice::never, {{"TERM", "xterm"}, {"CLICOLOR_FORCE", "1"}}).has_color);
  EXPECT_TRUE(in_a_file(ColorChoice::automatic, {{"CLICOLOR_FORCE", "1"}}).has_color);
  EXPECT_FALSE(in_a_file(ColorChoice::automatic, {{"CLICOLOR_FORCE", "0"}}).has_color);
  EXPECT_TRUE(of(ColorChoice::automatic, {{"TERM", "xterm"}, {"NO_COLOR", ""}}).has_color);
}

TEST_F(OnTerminal, letters_follow_the_first_variable_of_the_locale_that_is_set) {
  EXPECT_TRUE(of(ColorChoice::automatic, {{"LANG", "de_DE.UTF-8"}}).is_unicode);
  EXPECT_TRUE(of(ColorChoice::automatic, {{"LC_ALL", ""}, {"LC_CTYPE", "C.utf8"}}).is_unicode);
  EXPECT_FALSE(of(ColorChoice::automatic, {{"LC_ALL", "C"}, {"LANG", "de_DE.UTF-8"}}).is_unicode);
  EXPECT_FALSE(of(ColorChoice::automatic, {}).is_unicode);
}

}  // namespace
}  // namespace fourfold::screen
