#include "command_line/carry_out.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace fourfold::command_line {
namespace {

std::optional<SimulateArguments> simulated;
std::string script_shown;

const Actions actions{.simulate = [](const SimulateArguments& arguments) { simulated = arguments; },
                      .completion = [](const std::string& script) { script_shown = script; }};

void say(std::vector<std::string> words) {
  words.insert(words.begin(), "fourfold");
  std::vector<char*> line;
  for (std::string& word : words) line.push_back(word.data());
  carry_out(
      static_cast<int>(line.size()), line.data(), [](const auto&) { return std::nullopt; },
      actions);
}

std::string refusal_of(const std::vector<std::string>& words) {
  try {
    say(words);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

TEST(CarryOut, the_action_of_the_command_gets_what_its_options_say) {
  simulated.reset();
  say({"simulate", "a.yaml", "b.yaml", "--set", "x=1", "--ranks", "8", "--format", "json"});
  ASSERT_TRUE(simulated.has_value());
  EXPECT_EQ(simulated->config.files, (std::vector<std::string>{"a.yaml", "b.yaml"}));
  EXPECT_EQ(simulated->config.sets, std::vector<std::string>{"x=1"});
  EXPECT_EQ(simulated->ranks, 8);
  EXPECT_TRUE(simulated->is_json);
  EXPECT_FALSE(simulated->all_ranks);
}

TEST(CarryOut, completion_knows_the_commands_and_their_options) {
  say({"completion", "bash"});
  for (const char* word : {"simulate", "--sweep", "reduce_scatter"})
    EXPECT_NE(script_shown.find(word), std::string::npos) << word;
}

TEST(CarryOut, a_mistaken_word_calls_nothing_and_is_told_its_nearest) {
  simulated.reset();
  EXPECT_NE(refusal_of({"simulat", "a.yaml"}).find("did you mean 'simulate'?"), std::string::npos);
  EXPECT_NE(refusal_of({"simulate", "a.yaml", "--swep", "1"}).find("did you mean '--sweep'?"),
            std::string::npos);
  EXPECT_FALSE(simulated.has_value());
}

TEST(CarryOut, a_refusal_names_the_command_that_was_understood) {
  EXPECT_NE(refusal_of({"config"}).find("fourfold config needs a subcommand: check, show"),
            std::string::npos);
  EXPECT_NE(refusal_of({"simulate"}).find("(fourfold simulate --help says more)"),
            std::string::npos);
}

}  // namespace
}  // namespace fourfold::command_line
