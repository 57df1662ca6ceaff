// Pages about runs, through the binary.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/descriptor.h"
#include "base/file.h"
#include "support/command.h"

namespace fourfold {
namespace {

class Report : public FolderTest {
 protected:
  void train(const std::string& name, const std::string& more) const {
    std::string text;
    for (int i = 0; i < 200; ++i) text += format("The quick brown fox {} jumps.\n", i % 7);
    write_file_atomic(path("fox.txt"), text);
    const CommandResult result = run_fourfold(
        format("train configs/gpt-shakespeare-char.yaml --set data.path={} --set run.dir={} --set "
               "run.name={} --set train.steps=8 --set lr_schedule.warmup_steps=2 --set "
               "model.hidden_size=32 --set model.num_layers=1 --set data.seq_length=16 --set "
               "sample.tokens=20 --set eval.batches=1 --set train.global_batch_size=4 {}",
               path("fox.txt"), path(name), name, more));
    ASSERT_EQ(result.code, 0) << result.text;
  }
  static std::size_t count_of(const std::string& text, const std::string& word) {
    std::size_t count = 0;
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
    return count;
  }
  /// The page about these runs.
  std::string page(const std::string& runs) const {
    const CommandResult result = run_fourfold(format("report {} -o {}", runs, path("page.html")));
    EXPECT_EQ(result.code, 0) << result.text;
    return read_file(path("page.html"));
  }
};

TEST_F(Report, two_runs_are_compared_on_a_page_that_needs_nothing_else) {
  train("fast", "--set optimizer.lr=3e-3");
  train("slow", "--set optimizer.lr=1e-4");
  const std::string text = page(path("fast") + " " + path("slow"));
  for (const char* word : {"<!DOCTYPE html>", "2 runs compared", "validation as dots",
                           "Validation loss", "Gradient norm", "Learning rate", "Tokens per second",
                           "Step time", "optimizer.lr", "0.003", "0.0001", "Samples", "Checkpoints",
                           "host.cpu", "prefers-color-scheme", "line c0", "line c1"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
  for (const char* word : {"http:", "https:", "src=", "<link", "url("})
    EXPECT_EQ(text.find(word), std::string::npos) << word;
  EXPECT_EQ(count_of(text, "<script"), 1U);
}

TEST_F(Report, the_page_runs_its_own_script_and_allows_no_other) {
  train("run", "");
  page(path("run"));
  write_file_atomic(path("check.py"), R"(
import base64, hashlib, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
script = re.search(r"<script type=.module.>(.*)</script>", page, re.S).group(1)
print("sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode())
)");
  const CommandResult hash =
      run_command(format("python3 {} {}", path("check.py"), path("page.html")));
  ASSERT_EQ(hash.code, 0) << hash.text;
  const std::string policy =
      format("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src '{}'\"",
             hash.text.substr(0, hash.text.find('\n')));
  EXPECT_NE(read_file(path("page.html")).find(policy), std::string::npos)
      << "write this into page_script.h: " << hash.text;
}

TEST_F(Report, the_sessions_of_a_run_are_listed_and_marked_where_they_begin) {
  const std::string constant = "--set lr_schedule.kind=constant ";
  train("run", constant + "--set optimizer.lr=3e-3 --stop-at 3");
  EXPECT_EQ(page(path("run")).find("<h2>Sessions"), std::string::npos);
  train("run", constant + "--set optimizer.lr=1e-4 --override optimizer.lr");
  const std::string text = page(path("run"));
  for (const char* words :
       {"<h2>Sessions</h2>", "<td>1 to 3</td>", "<td>4 to 8</td>",
        "<div>optimizer.lr: 0.003&nbsp;&rarr; 0.0001</div>", "--override optimizer.lr</code>",
        "session 2 begins after step 3\noptimizer.lr: 0.003 -&gt; 0.0001",
        "Dashed lines show where a later session of a run begins."})
    EXPECT_NE(text.find(words), std::string::npos) << words;
  const std::size_t curve = text.find("<figcaption>Loss");
  EXPECT_LT(text.find("class=\"mark c0\"", curve), text.find("</figure>", curve));
}

TEST_F(Report, a_session_whose_steps_were_done_again_is_told_and_not_marked) {
  const std::string saves = "--set checkpoint.interval_steps=2 --set checkpoint.keep=9 ";
  train("run", saves);
  for (const char* step : {"4", "2"})
    train("run", format("{} --resume {}/checkpoints/step-00000000{}", saves, path("run"), step));
  const std::string text = page(path("run"));
  EXPECT_NE(text.find("<td>1 to 2, and to 8 what a later one did again</td>"), std::string::npos)
      << text;
  EXPECT_NE(text.find("<td>5 to 8, which later ones did again</td>"), std::string::npos) << text;
  EXPECT_NE(text.find("session 3 begins after step 2"), std::string::npos);
  EXPECT_EQ(text.find("session 2 begins"), std::string::npos);
}

/// What a browser makes of the page, for an address that ends so.
TEST_F(Report, a_browser_draws_the_axes_and_the_stretch_that_the_address_asks_for) {
  const char* browser = std::getenv("FOURFOLD_BROWSER");
  if (browser == nullptr) GTEST_SKIP() << "set FOURFOLD_BROWSER to a chromium";
  train("run", "--set train.steps=64");
  page(path("run"));
  const auto drawn = [&](const std::string& address) {
    const CommandResult result =
        run_command(format("{} --headless --no-sandbox --dump-dom 'file://{}#{}' 2> {}", browser,
                           path("page.html"), address, path("errors.txt")));
    EXPECT_EQ(result.code, 0) << result.text;
    return result.text.substr(0, result.text.find("<figcaption>Validation"));
  };
  const auto mark = [](const std::string& words) { return format(">{}</text>", words); };
  const std::string whole = drawn("");
  EXPECT_NE(whole.find("<div class=\"switches\">"), std::string::npos) << "the script has run";
  EXPECT_NE(whole.find(mark("60")), std::string::npos);
  EXPECT_NE(whole.find(mark("step")), std::string::npos);
  const std::string stretch = drawn("from=20&to=24");
  EXPECT_NE(stretch.find(mark("22")), std::string::npos);
  EXPECT_EQ(stretch.find(mark("60")), std::string::npos);
  const std::string tokens = drawn("x=items&loss=log");
  EXPECT_NE(tokens.find(mark("tokens")), std::string::npos);
  EXPECT_NE(tokens.find(mark("4000")), std::string::npos) << "64 steps of 4 samples of 16 tokens";
  const auto curve = [](const std::string& text) {
    return text.substr(text.find("<polyline class=\"line c0\""), 200);
  };
  EXPECT_NE(curve(tokens), curve(drawn("x=items"))) << "a logarithm bends the curve";
}

/// The device is a terminal of the test's own: a program that replaced it would do no harm, as the
/// folder of terminals takes no files.
TEST_F(Report, a_device_a_pipe_and_a_folder_are_not_replaced_by_the_page) {
  const Descriptor terminal(posix_openpt(O_RDWR | O_NOCTTY));
  ASSERT_TRUE(terminal.number() >= 0 && unlockpt(terminal.number()) == 0);
  train("run", "");
  std::filesystem::create_directory(path("folder"));
  ASSERT_EQ(run_command("mkfifo " + path("pipe")).code, 0);
  ASSERT_EQ(run_command(format("ln -s {} {}", ptsname(terminal.number()), path("terminal"))).code,
            0);
  for (const char* name : {"folder", "pipe", "terminal"}) {
    const CommandResult result = run_fourfold(format("report {} -o {}", path("run"), path(name)));
    EXPECT_EQ(result.code, 6) << result.text;
    EXPECT_NE(result.text.find("expected a file, or nothing"), std::string::npos) << result.text;
  }
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  EXPECT_TRUE(std::filesystem::is_character_file(path("terminal")));
}

TEST_F(Report, a_page_is_made_anew_and_no_other_file_is_replaced) {
  train("run", "");
  page(path("run"));
  page(path("run"));
  for (const std::string& name : {path("run/model.safetensors"), path("fox.txt")}) {
    const std::string before = read_file(name);
    const CommandResult result = run_fourfold(format("report {} -o {}", path("run"), name));
    EXPECT_EQ(result.code, 11) << result.text;
    EXPECT_NE(result.text.find("is there already, and is no page"), std::string::npos)
        << result.text;
    EXPECT_TRUE(read_file(name) == before) << name;
  }
}

TEST_F(Report, a_limit_on_the_size_of_files_is_a_storage_error) {
  train("run", "");
  for (const std::string& command :
       {format("report {} -o {}", path("run"), path("page.html")),
        format("train {}/config.resolved.yaml --set run.dir={} --set model.hidden_size=128 --set "
               "model.ffn_hidden_size=512",
               path("run"), path("other"))}) {
    const CommandResult result =
        run_command(format("(ulimit -f 20; {} {} 2>&1)", FOURFOLD_BINARY, command));
    EXPECT_EQ(result.code, 6) << result.text;
    EXPECT_NE(result.text.find("File too large"), std::string::npos) << result.text;
  }
  EXPECT_FALSE(std::filesystem::exists(path("page.html")));
}

TEST_F(Report, what_is_missing_or_torn_is_said_and_the_rest_is_shown) {
  train("run", "");
  write_file_atomic(path("run/metrics.jsonl"),
                    read_file(path("run/metrics.jsonl")) + "{\"step\": 9, \"lo");
  write_file_atomic(path("run/env.json"), "{");
  write_file_atomic(path("run/sample.txt"), "<script>alert(1)</script>");
  std::filesystem::remove(path("run/config.resolved.yaml"));
  const std::string text = page(path("run"));
  for (const char* word : {"left out: 1", "config.resolved.yaml is missing",
                           "env.json:1:", "&lt;script&gt;alert", "line c0"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
  EXPECT_EQ(count_of(text, "<script"), 1U) << "the page's own";
  std::filesystem::remove(path("run/metrics.jsonl"));
  write_file_atomic(path("run/config.resolved.yaml"), "model: [");
  EXPECT_NE(page(path("run")).find("there is no metrics.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace fourfold
