#include "cli/parse.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace fourfold::cli {
namespace {

/// One option of each kind.
struct Everything {
  std::string word, shown = "usual";
  bool flag = false, is_told = false;
  std::int64_t number = 7;
  std::optional<std::int64_t> least;
  std::optional<double> share;
  std::vector<std::string> names, pair, choices;
};

std::optional<Everything> done;

void list_options(OptionList& options, Everything& given) {
  options.add("WORD", given.word, "A word", {.is_required = true, .one_of = "one,two"});
  options.add("--shown", given.shown, "Shown", {.shows_default = true});
  options.add("--flag", given.flag, "A flag");
  options.add("--number", given.number, "A number",
              {.shows_default = true, .within = Whole{1, 9}, .excludes = "--flag"});
  options.add("--least", given.least, "At least 2", {.within = Least{2}, .needs = "--number"});
  options.add("--share", given.share, "A share", {.within = Real{0, 1}});
  options.add("-n,--names", given.names, "Names", {.takes_one = true});
  options.tell(given.is_told);
  options.add("--pair", given.pair, "A pair", {.count = 2, .value_name = "A B"});
  options.add("--choices", given.choices, "Choices", {.separator = ',', .one_of = "red,blue"});
}

std::string fault_of(const Everything& given) {
  return given.word == "two" && given.share ? "--share: does not go with two" : "";
}

void keep(const Everything& given) {
  done = given;
}

/// Commands of the test, or all that there are.
const Command* parsed(std::vector<std::string> line, void (*add)(Commands&), Commands& commands) {
  add(commands);
  line.insert(line.begin(), "fourfold");
  return parse(commands, line);
}

void add_some(Commands& commands) {
  commands.add({"later", After{"do all"}, "Comes by its name after `group`, not here", ""},
               list_options, keep);
}

void add_everything(Commands& commands) {
  commands.add_group({"do", After{}, "Does things", ""});
  commands.add({"do all", After{}, "Does all", "do all one"}, list_options, keep, fault_of);
}

Commands no_commands() {
  return Commands({{}, [](const std::string&) { return std::nullopt; }});
}

void say(const std::vector<std::string>& words, void (*add)(Commands&) = add_everything) {
  done.reset();
  Commands commands = no_commands();
  if (const Command* command = parsed(words, add, commands)) command->run();
}

std::string refusal_of(const std::vector<std::string>& words,
                       void (*add)(Commands&) = add_everything) {
  try {
    say(words, add);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

void expect_said(const std::string& text, const std::string& wanted) {
  EXPECT_NE(text.find(wanted), std::string::npos) << text;
}

TEST(Parse, the_action_of_the_command_gets_what_its_options_say) {
  say({"do", "all", "one", "--least", "3", "--number", "9", "--share=0.5", "-n", "a", "--names",
       "b", "--choices", "red,blue"});
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->word, "one");
  EXPECT_EQ(done->shown, "usual");
  EXPECT_FALSE(done->flag);
  EXPECT_EQ(done->number, 9);
  EXPECT_EQ(done->least, 3);
  EXPECT_EQ(done->share, 0.5);
  EXPECT_EQ(done->names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(done->choices, (std::vector<std::string>{"red", "blue"}));
  EXPECT_TRUE(done->is_told);
  say({"do", "all", "one", "--flag", "--names", "x"});
  ASSERT_TRUE(done.has_value());
  EXPECT_TRUE(done->flag);
  EXPECT_FALSE(done->is_told);
}

TEST(Parse, each_bound_of_an_option_refuses_what_is_beyond_it) {
  expect_said(refusal_of({"do", "all"}), "WORD is required");
  expect_said(refusal_of({"do", "all", "three"}), "three not in {one,two}");
  expect_said(refusal_of({"do", "all", "one", "--number", "10"}), "10 not in range");
  expect_said(refusal_of({"do", "all", "one", "--number", "2", "--least", "1"}),
              "expected a number of at least 2; got 1");
  expect_said(refusal_of({"do", "all", "one", "--least", "2"}), "requires --number");
  expect_said(refusal_of({"do", "all", "one", "--flag", "--number", "2"}),
              "--flag excludes --number");
  expect_said(refusal_of({"do", "all", "one", "--share", "2"}), "2 not in range");
  expect_said(refusal_of({"do", "all", "one", "--choices", "red,green"}),
              "green not in {red,blue}");
  expect_said(refusal_of({"do", "all", "one", "--pair", "a"}), "--pair");
}

TEST(Parse, options_that_do_not_go_together_are_refused_before_anything_is_done) {
  const std::string text = refusal_of({"do", "all", "two", "--share", "1"});
  expect_said(text, "error: --share: does not go with two");
  expect_said(text, "(fourfold do all --help says more)");
  EXPECT_FALSE(done.has_value());
}

TEST(Parse, a_mistaken_word_calls_nothing_and_is_told_its_nearest) {
  expect_said(refusal_of({"dO"}), "did you mean 'do'?");
  expect_said(refusal_of({"do", "all", "one", "--flagg"}), "did you mean '--flag'?");
  EXPECT_FALSE(done.has_value());
}

TEST(Parse, a_refusal_names_the_command_that_was_understood) {
  expect_said(refusal_of({"do"}), "fourfold do needs a subcommand: all");
  expect_said(refusal_of({"config"}, add_commands), "fourfold config needs a subcommand: check");
}

TEST(Parse, help_shows_words_bounds_and_the_example) {
  testing::internal::CaptureStdout();
  say({"help", "do", "all"});
  const std::string help = testing::internal::GetCapturedStdout();
  EXPECT_FALSE(done.has_value());
  for (const char* words : {"Does all", "WORD TEXT:{one,two} REQUIRED", "--shown TEXT=usual",
                            "--number INT in [1 - 9]=7 Excludes: --flag", "--pair A B x 2",
                            "Example:\n  fourfold do all one"})
    expect_said(help, words);
}

TEST(Commands, follow_each_other_as_they_say_and_by_name_where_they_say_the_same) {
  Commands commands = no_commands();
  for (const auto& [path, after] : std::vector<std::pair<std::string, std::string>>{
           {"d", "b"}, {"c", "b"}, {"b", "a"}, {"e", "c"}, {"a", ""}, {"a z", ""}})
    commands.add_group({path, After{after}, "", ""});
  std::string order;
  for (const Command* command : commands.below("")) order += name_of(*command);
  EXPECT_EQ(order, "abced");
  ASSERT_EQ(commands.below("a").size(), 1U);
  EXPECT_EQ(name_of(*commands.below("a")[0]), "z");
}

TEST(Commands, one_that_follows_none_is_our_mistake) {
  Commands commands = no_commands();
  add_some(commands);
  EXPECT_THROW(commands.below(""), InternalError);
}

TEST(Commands, all_there_are_have_words_an_example_and_are_known_to_completion) {
  Commands commands = no_commands();
  add_commands(commands);
  const std::string script = completion_script("bash", commands.spec(), {});
  std::size_t count = 0;
  for (const Command* command : commands.below("")) {
    std::vector<const Command*> all{command};
    for (const Command* below : commands.below(command->words.path)) all.push_back(below);
    for (const Command* one : all) {
      EXPECT_FALSE(one->words.meaning.empty()) << one->words.path;
      EXPECT_TRUE(one->words.example.starts_with(one->words.path) ||
                  !commands.below(one->words.path).empty())
          << one->words.path << ": " << one->words.example;
      expect_said(script, "'" + one->words.path + "'");
      ++count;
    }
  }
  EXPECT_GE(count, 33U);
  for (const char* word : {"simulate", "--sweep", "reduce_scatter", "perlmutter-40gb"})
    expect_said(script, word);
}

}  // namespace
}  // namespace fourfold::cli
