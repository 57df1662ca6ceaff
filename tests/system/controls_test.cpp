// Control characters that stand in files command no terminal: whatever a command prints of a file,
// it prints without them.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "support/pseudo_terminal.h"
#include "support/tiny_training.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

/// Clears a terminal, rings and goes back over what was written; as text, and as JSON and YAML have
/// it.
constexpr const char* evil = "\x1b[2Jevil\x07\r";
constexpr const char* escaped = "\\u001b[2Jevil\\u0007\\r";

class Controls : public TinyTraining {
 protected:
  /// The command says something of the file, and nothing that commands a terminal.
  CommandResult expect_safe(const std::string& words) const {
    SCOPED_TRACE(words);
    CommandResult result = run_fourfold(words);
    EXPECT_FALSE(result.text.empty());
    for (const char c : result.text)
      EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ' || c == '\n') << result.text;
    return result;
  }
  void expect_shown(const std::string& words) const {
    const CommandResult result = expect_safe(words);
    EXPECT_TRUE(has(result, "[2Jevil")) << words << ": does not show what the test has put there\n"
                                        << result.text;
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    write_file_atomic(path(name), text);
  }
  void replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string all = text(name);
    const std::size_t at = all.find(from);
    ASSERT_NE(at, std::string::npos) << name << " has no " << from;
    all.replace(at, from.size(), to);
    write(name, all);
  }
};

TEST_F(Controls, of_manifests_reach_no_terminal) {
  trained("run", "--stop-at 8");
  const std::string file = save("run", 8) + "/manifest.json";
  checkpoint::Manifest manifest = checkpoint::parse_manifest(read_file(file), file);
  for (std::string* text : {&manifest.version, &manifest.grid, &manifest.data}) *text += evil;
  write_file_atomic(file, checkpoint::to_text(manifest));
  const std::string run = path("run");
  expect_shown("ckpt ls " + run);
  expect_safe("ckpt info --step 8 " + run);
  expect_safe("ckpt verify " + run);
  expect_shown(training("run"));
  expect_safe("report " + run + " -o " + path("page.html"));
  EXPECT_EQ(text("page.html").find('\x1b'), std::string::npos);
  manifest.tensors[0].name += evil;
  write_file_atomic(file, checkpoint::to_text(manifest));
  for (const std::string command :
       {"ckpt ls ", "ckpt info ", "ckpt verify ", "generate --tokens 2 --prompt 1 --step 8 "})
    expect_safe(command + run);
  expect_safe(training("run"));
}

TEST_F(Controls, of_configurations_and_records_reach_no_terminal) {
  trained("run", "--stop-at 8");
  write("evil.yaml", text("tiny.yaml") + "log: {level: \"" + escaped + "\"}\n");
  expect_safe("config check " + path("evil.yaml"));
  const std::string set = "--set 'data.path=\"" + std::string(escaped) + "\"' ";
  for (const std::string command : {"config check ", "config show ", "plan ", "train --dry-run "})
    expect_safe(command + set + "--set data.format=text " + path("tiny.yaml"));
  expect_shown("config diff " + path("tiny.yaml") + " " + path("run") + " '" + evil + "'");
  write("run/lock", "{\"host\":\"" + std::string(escaped) + "\",\"pid\":77}\n");
  expect_shown(training("run"));
  expect_shown(training("run", "--dry-run"));
  fs::remove(path("run/lock"));
  write("run/sessions/1/session.json", std::string("{\"session\":\"") + escaped + "\"}");
  expect_safe(training("run", "--set optimizer.lr=1e-4 --override optimizer.lr"));
  expect_safe("config diff " + path("tiny.yaml") + " " + path("run"));
}

TEST_F(Controls, of_texts_and_models_that_write_them_reach_no_terminal) {
  std::string text_of_data;
  for (int i = 0; i < 200; ++i) text_of_data += std::string(evil) + "\x1b[1m\n";
  write("text.txt", text_of_data);
  expect_shown("data inspect " + path("text.txt"));
  run_fourfold("data tokenize " + path("text.txt") + " -o " + path("set") + " --tokenizer char");
  expect_shown("data inspect " + path("set"));
  expect_safe("data verify " + path("set"));
  const std::string sets = format(
      " --set data.path={} --set data.format=text --set data.tokenizer=char --set sample.tokens=64 "
      "--set train.steps=2 --set model.vocab_size=0",
      path("text.txt"));
  test::PseudoTerminal terminal(100);
  const std::string train = format("{} {} {}", FOURFOLD_BINARY, training("run"), sets);
  ASSERT_EQ(terminal.run(train, {{"NO_COLOR", "1"}}), 0) << terminal.written();
  const std::string shown = terminal.written();
  EXPECT_NE(shown.find("sample (64 tokens"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("\x1b[2J"), std::string::npos);
  EXPECT_EQ(shown.find('\x07'), std::string::npos);
  const std::string generate = format("{} generate {} --tokens 200", FOURFOLD_BINARY, path("run"));
  const CommandResult piped = run_command(generate);
  EXPECT_NE(piped.text.find('\x1b'), std::string::npos) << "a pipe gets each byte";
  test::PseudoTerminal other(100);
  ASSERT_EQ(other.run(generate, {}), 0);
  EXPECT_EQ(other.written().find('\x1b'), std::string::npos) << other.written();
}

TEST_F(Controls, of_files_of_other_tools_reach_no_terminal) {
  trained("run", "--trace 1 --set train.steps=4");
  replace("run/traces/steps.json", "\"name\":\"", std::string("\"name\":\"") + escaped);
  expect_safe("trace summary " + path("run"));
  const CommandResult program = run_fourfold("program " + path("tiny.yaml") + " --program all");
  write("program.txt", program.text);
  replace("program.txt", "program train", std::string("program train") + evil);
  expect_safe("verify --text " + path("program.txt"));
  ASSERT_EQ(run_fourfold("export " + path("run") + " -o " + path("hf")).code, 0);
  replace("hf/config.json", "\"model_type\":\"gpt2\"",
          std::string("\"model_type\":\"") + escaped + "\"");
  expect_shown("import " + path("hf") + " -o " + path("imported"));
}

}  // namespace
}  // namespace fourfold
