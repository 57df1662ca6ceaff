// Rows 1 to 5 of the robustness catalogue (tests/README.md): what is wrong before a run begins.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/text.h"
#include "config/resume_class.h"
#include "config/schema.h"
#include "config/suggest.h"
#include "job/config_source.h"
#include "job/job.h"
#include "job/settle.h"
#include "support/command.h"
#include "support/command_cost.h"
#include "support/hostile_files.h"
#include "support/in_process.h"
#include "support/long_run.h"
#include "system/nasty_scalars.h"
#include "verify/verify.h"

namespace fourfold {
namespace {

using test::Cost;
using test::cost_of;
using test::Outcome;
using test::run_here;

class Rows : public FolderTest {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  /// A file that holds one key, below its sections.
  std::string file_with(const std::string& key, const std::string& value) const {
    std::string text, indent;
    const std::vector<std::string> names = split(key, '.');
    for (std::size_t i = 0; i + 1 < names.size(); ++i) {
      text += indent + names[i] + ":\n";
      indent += "  ";
    }
    return write("a.yaml", text + indent + names.back() + ": " + value + "\n");
  }
};

/// The leaf with two neighbours swapped that differ, and with a letter in the middle left out.
std::string swapped(std::string leaf) {
  for (std::size_t i = leaf.size() / 2; i + 1 < leaf.size(); ++i)
    if (leaf[i] != leaf[i + 1]) {
      std::swap(leaf[i], leaf[i + 1]);
      return leaf;
    }
  return leaf + "x";
}
std::string dropped(std::string leaf) {
  return leaf.size() < 2 ? leaf + "x" : leaf.erase(leaf.size() / 2, 1);
}

/// A section that has no such key.
std::string wrong_section(const std::string& leaf) {
  for (const std::string& section : config::sections())
    if (config::find_key(section + "." + leaf) == nullptr) return section;
  return "model";
}

using Row1 = Rows;
TEST_F(Row1, three_typos_of_every_known_key_end_with_2_and_the_right_suggestion) {
  for (const config::Key& key : config::keys()) {
    const std::string section(config::section_of(key.path)), leaf(config::leaf_of(key.path));
    const std::string before = section.empty() ? "" : section + ".";
    for (const std::string& typo :
         {before + swapped(leaf), before + dropped(leaf), wrong_section(leaf) + "." + leaf}) {
      if (config::find_key(typo) != nullptr) continue;  // a letter makes it another key
      const Outcome outcome = run_here({"config", "check", file_with(typo, "1")});
      EXPECT_EQ(outcome.code, 2) << typo;
      EXPECT_NE(outcome.text.find(format("unknown key '{}'", typo)), std::string::npos)
          << outcome.text;
      const config::Suggestion meant = config::suggest(typo);
      EXPECT_NE(outcome.text.find(meant.text), std::string::npos) << typo << "\n" << outcome.text;
      if (typo.ends_with(".tokens")) continue;  // what other tools call tokens is no key, but steps
      EXPECT_EQ(meant.text, format("did you mean '{}'?", meant.key)) << typo;
      // One as near as the key itself: there may be two.
      EXPECT_LE(edit_distance(config::leaf_of(meant.key), config::leaf_of(typo)),
                edit_distance(leaf, config::leaf_of(typo)))
          << typo << " is taken for " << meant.key;
    }
  }
}

/// A key of each type, in the order of the letters in nasty_scalars.h.
const std::array<std::string, 6> typed = {"lr_schedule.warmup_steps",
                                          "optimizer.weight_decay",
                                          "model.bias",
                                          "kernels",
                                          "run.name",
                                          "log.interval"};

using Row2 = Rows;
TEST_F(Row2, a_hundred_nasty_scalars_are_taken_by_their_type_alone) {
  constexpr std::string_view letters = "wnbcta";
  EXPECT_GE(test::nasty_scalars.size(), 100U);
  for (const test::NastyScalar& nasty : test::nasty_scalars)
    for (std::size_t i = 0; i < typed.size(); ++i) {
      file_with(typed[i], nasty.text);
      std::ofstream(path("a.yaml"), std::ios::app)
          << "data: {format: synthetic}\n"
          << (typed[i].starts_with("model.") ? "" : "model: {vocab_size: 64}\n");
      const bool takes = nasty.takers.find(letters[i]) != std::string::npos;
      Outcome outcome =
          run_here({"config", "check", path("a.yaml"), "--set", "model.vocab_size=64"});
      EXPECT_EQ(outcome.code, takes ? 0 : 2) << typed[i] << ": " << nasty.text << "\n"
                                             << outcome.text;
      if (!takes) {
        EXPECT_NE(outcome.text.find("error: "), std::string::npos) << nasty.text;
      }
    }
}

TEST_F(Row2, duplicates_are_refused_in_files_and_between_spellings) {
  const std::string file = write("a.yaml", "train:\n  steps: 5\n  steps: 6\n");
  const Outcome outcome = run_here({"config", "check", file});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.text.find("a.yaml:3:3: error: duplicate key 'steps'"), std::string::npos)
      << outcome.text;
}

using Row3 = Rows;
TEST_F(Row3, bombs_are_refused_within_64_mib) {
  const Cost usual = cost_of({"config", "check", write("a.yaml", test::plain_config)});
  ASSERT_EQ(usual.code, 0);
  for (const auto& [name, text] : test::config_bombs(path("a.yaml"))) {
    const Cost cost = cost_of({"config", "check", write("a.yaml", text)});
    EXPECT_EQ(cost.code, 2) << name;
    EXPECT_LT(cost.peak_bytes - usual.peak_bytes, std::int64_t{64} << 20) << name;
  }
}

/// Widths, heads, vocabularies and batches that hardly any grid divides.
const std::array<std::string, 6> odd_models = {
    "hidden_size: 30, num_attention_heads: 3, vocab_size: 37, num_layers: 1",
    "hidden_size: 35, num_attention_heads: 5, vocab_size: 101, num_layers: 1, tied_head: false",
    "hidden_size: 22, num_attention_heads: 11, vocab_size: 64, num_layers: 1",
    "hidden_size: 96, num_attention_heads: 6, vocab_size: 97, num_layers: 1, ffn_hidden_size: 90",
    "hidden_size: 64, num_attention_heads: 1, vocab_size: 7, num_layers: 1",
    "hidden_size: 13, num_attention_heads: 1, vocab_size: 13, num_layers: 1, bias: false"};
/// Grids x, y, z, data with a product of at most 16.
constexpr std::size_t num_grids = 204;
constexpr std::array<int, 6> odd_batches = {12, 6, 16, 15, 24, 7};

using Row4 = Rows;
TEST_F(Row4, every_grid_of_up_to_16_ranks_trains_or_ends_with_5_and_grids_that_work) {
  const bool all = is_long_run();
  std::size_t planned = 0, refused = 0, compiled = 0, number = 0;
  for (std::size_t i = 0; i < odd_models.size(); ++i) {
    const std::string file =
        write("a.yaml",
              format("data: {{format: synthetic, seq_length: 4}}\nmodel: {{{}, "
                     "max_position_embeddings: 4}}\ntrain: {{global_batch_size: {}, steps: 1}}\n",
                     odd_models[i], odd_batches[i]));
    for (int x = 1; x <= 16; ++x)
      for (int y = 1; x * y <= 16; ++y)
        for (int z = 1; x * y * z <= 16; ++z)
          for (int data = 1; x * y * z * data <= 16; ++data) {
            SCOPED_TRACE(format("model {} x {} y {} z {} data {}", i, x, y, z, data));
            const job::ConfigSource source{
                {file},
                {format("parallel.tensor={{x: {}, y: {}, z: {}}}", x, y, z),
                 format("parallel.data={}", data)}};
            // Every third model and grid, or all; a tenth, or all, also compiled and proved.
            if (!all && ++number % 3 != 0) continue;
            const bool proves = all || number % 30 == 0;
            try {
              config::Settled settled = job::settle(job::load_config(source), {});
              if (proves) {
                const job::Job job = job::prepare(std::move(settled));
                EXPECT_EQ(job.ranks(), x * y * z * data);
                const auto faults = verify::verify(job.bundle());
                EXPECT_TRUE(faults.empty()) << faults.front().message;
                ++compiled;
              } else {
                job::plan_run(std::move(settled));
              }
              ++planned;
            } catch (const UserError& error) {
              EXPECT_EQ(error.code(), ExitCode::does_not_fit) << error.what();
              EXPECT_NE(std::string(error.what()).find("nearest grids that work: parallel.tensor"),
                        std::string::npos)
                  << error.what();
              ++refused;
            }
          }
  }
  std::printf("%zu grids planned, %zu of them proved, %zu refused\n", planned, compiled, refused);
  EXPECT_EQ(planned + refused, odd_models.size() * num_grids / (all ? 1 : 3));
  EXPECT_GT(planned, 50U);
  EXPECT_GT(refused, 200U);
}

/// The grids that an error names, as options.
std::vector<std::vector<std::string>> named_grids(const std::string& text) {
  std::vector<std::vector<std::string>> grids;
  const std::string begin = "parallel.tensor = ", middle = " with parallel.data = ";
  for (auto at = text.find(begin, text.find("nearest grids")); at != std::string::npos;
       at = text.find(begin, at + 1)) {
    const auto second = text.find(middle, at);
    const auto end = text.find_first_not_of("0123456789", second + middle.size());
    grids.push_back(
        {"--set", "parallel.tensor=" + text.substr(at + begin.size(), second - at - begin.size()),
         "--set",
         "parallel.data=" + text.substr(second + middle.size(), end - second - middle.size())});
  }
  return grids;
}

TEST_F(Row4, the_grids_that_are_named_work) {
  const std::string file =
      write("a.yaml",
            "data: {format: synthetic}\nmodel: {vocab_size: 64, hidden_size: 96, "
            "num_attention_heads: 6}\ntrain: {global_batch_size: 12}\n");
  for (const std::string grid : {"parallel.tensor={y: 5}", "parallel.tensor={x: 7, z: 2}",
                                 "parallel.data=16", "parallel.tensor={z: 5}"}) {
    const Outcome outcome = run_here({"plan", file, "--set", grid});
    EXPECT_EQ(outcome.code, 5) << outcome.text;
    const auto grids = named_grids(outcome.text);
    EXPECT_EQ(grids.size(), 3U) << outcome.text;
    for (const std::vector<std::string>& sets : grids) {
      std::vector<std::string> words{"verify", file};
      words.insert(words.end(), sets.begin(), sets.end());
      EXPECT_EQ(run_here(words).code, 0) << sets[1] << " " << sets[3];
    }
  }
}

/// Another good value of a key.
std::string other_value(const std::string& key) {
  if (key == "optimizer.betas") return "[0.8, 0.99]";
  if (key == "optimizer.shard") return "states";
  if (key == "lr_schedule.kind") return "linear";
  if (key == "lr_schedule.warmup_steps") return "3";
  if (key == "lr_schedule.decay_steps") return "77";
  if (key == "lr_schedule.min_lr") return "1e-6";
  if (key == "optimizer.eps") return "1e-7";
  if (key == "optimizer.nesterov") return "true";
  return "0.5";
}

using Row5 = Rows;
TEST_F(Row5, each_setting_of_optimizer_and_schedule_may_change_as_its_class_says) {
  const std::string config = FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml";
  const auto begin = [&](const std::string& optimizer) {
    return std::vector<std::string>{"train", config,
                                    "--set", "run.dir=" + path(optimizer),
                                    "--set", "optimizer.name=" + optimizer,
                                    "--set", "train.steps=20",
                                    "--set", "sample.tokens=0",
                                    "--set", "eval.batches=1"};
  };
  for (const char* optimizer : {"adamw", "sgd"}) {
    std::vector<std::string> first = begin(optimizer);
    first.insert(first.end(), {"--stop-at", "1"});
    ASSERT_EQ(run_here(first).code, 0);
  }
  std::size_t tried = 0;
  for (const config::Key& key : config::keys()) {
    const bool is_meant = (key.path.starts_with("optimizer.") && key.path != "optimizer.name") ||
                          key.path.starts_with("lr_schedule.");
    if (!is_meant) continue;
    const bool is_of_sgd = key.path == "optimizer.momentum" || key.path == "optimizer.nesterov";
    std::vector<std::string> again = begin(is_of_sgd ? "sgd" : "adamw");
    again.insert(again.end(), {"--dry-run", "--set", key.path + "=" + other_value(key.path)});
    const Outcome outcome = run_here(again);
    switch (config::resume_class(key.path)) {
      case config::ResumeClass::free:
        // A warm-up that was over begins again: the rate of the next step leaps.
        if (key.path == "lr_schedule.warmup_steps") {
          EXPECT_EQ(outcome.code, 2) << outcome.text;
          EXPECT_NE(outcome.text.find("if you mean it, pass --override lr_schedule"),
                    std::string::npos)
              << outcome.text;
          again.insert(again.end(), {"--override", "lr_schedule"});
          EXPECT_EQ(run_here(again).code, 0);
          break;
        }
        EXPECT_EQ(outcome.code, 0) << key.path << "\n" << outcome.text;
        break;
      case config::ResumeClass::overridable:
        EXPECT_EQ(outcome.code, 2) << key.path;
        EXPECT_NE(outcome.text.find("if you mean it, pass --override " + key.path),
                  std::string::npos)
            << outcome.text;
        again.insert(again.end(), {"--override", key.path});
        EXPECT_EQ(run_here(again).code, 0) << key.path;
        break;
      case config::ResumeClass::fixed:
        EXPECT_EQ(outcome.code, 2) << key.path;
        EXPECT_NE(outcome.text.find("fits only the former"), std::string::npos) << outcome.text;
        break;
    }
    ++tried;
  }
  EXPECT_EQ(tried, 12U);
}

}  // namespace
}  // namespace fourfold
