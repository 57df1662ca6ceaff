#include "config/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "config/print.h"
#include "config/suggest.h"
#include "config/value.h"
#include "unit/config/scratch.h"

namespace fourfold::config {
namespace {

TEST(Schema, paths_are_unique_and_sections_stand_together) {
  std::set<std::string> paths, seen;
  for (const Key& key : keys()) EXPECT_TRUE(paths.insert(key.path).second) << key.path;
  for (const std::string& section : sections()) EXPECT_TRUE(seen.insert(section).second) << section;
}

TEST(Schema, the_list_of_keys_is_frozen) {
  const std::vector<std::string> expected = {"run.name",
                                             "run.dir",
                                             "run.seed",
                                             "run.threads",
                                             "model.kind",
                                             "model.num_layers",
                                             "model.num_attention_heads",
                                             "model.hidden_size",
                                             "model.ffn_hidden_size",
                                             "model.max_position_embeddings",
                                             "model.vocab_size",
                                             "model.dropout",
                                             "model.bias",
                                             "model.tied_head",
                                             "model.layer_norm_epsilon",
                                             "model.init_stddev",
                                             "data.format",
                                             "data.path",
                                             "data.tokenizer",
                                             "data.split",
                                             "data.seq_length",
                                             "train.steps",
                                             "train.global_batch_size",
                                             "train.micro_batch_size",
                                             "optimizer.name",
                                             "optimizer.lr",
                                             "optimizer.betas",
                                             "optimizer.eps",
                                             "optimizer.weight_decay",
                                             "optimizer.grad_clip",
                                             "lr_schedule.kind",
                                             "lr_schedule.warmup_steps",
                                             "lr_schedule.decay_steps",
                                             "lr_schedule.min_lr",
                                             "memory.activation_checkpointing",
                                             "precision.compute",
                                             "eval.interval_steps",
                                             "eval.batches",
                                             "log.interval",
                                             "sample.prompt",
                                             "sample.tokens",
                                             "sample.temperature",
                                             "sample.top_k",
                                             "kernels"};
  std::vector<std::string> paths;
  for (const Key& key : keys()) paths.push_back(key.path);
  EXPECT_EQ(paths, expected);
}

TEST(Schema, every_key_has_a_default_and_a_meaning) {
  for (const Key& key : keys()) {
    EXPECT_TRUE(key.meaning.ends_with(".")) << key.path;
    EXPECT_NE(default_words(key), "") << key.path;
    EXPECT_EQ(key.fallback.empty(), !key.derived_words.empty()) << key.path;
    Config config;
    EXPECT_NO_THROW(store_fallback(key, config)) << key.path;
  }
}

TEST(Schema, names_in_other_tools_lead_to_one_key_and_are_no_keys) {
  std::set<std::string> seen;
  for (const Key& key : keys())
    for (const std::string& other : key.elsewhere) {
      EXPECT_TRUE(seen.insert(other).second) << other;
      EXPECT_EQ(find_key(other), nullptr) << other;
      EXPECT_EQ(suggest(other).key, key.path) << other;
      EXPECT_EQ(suggest("model." + other).key,
                other.find('.') == std::string::npos ? key.path : suggest("model." + other).key);
    }
}

/// A key written with one letter less, and with two neighbours swapped.
std::vector<std::string> typos_of(std::string_view leaf) {
  std::vector<std::string> typos;
  for (std::size_t i = 0; i < leaf.size(); ++i) {
    std::string dropped(leaf), swapped(leaf);
    dropped.erase(i, 1);
    if (i + 1 < leaf.size()) std::swap(swapped[i], swapped[i + 1]);
    if (!dropped.empty()) typos.push_back(dropped);
    if (swapped != leaf) typos.push_back(swapped);
  }
  return typos;
}

TEST(Schema, every_typo_of_every_key_gets_the_right_suggestion) {
  for (const Key& key : keys()) {
    const std::string section(section_of(key.path));
    for (const std::string& typo : typos_of(leaf_of(key.path))) {
      const std::string path = section.empty() ? typo : section + "." + typo;
      if (find_key(path) == nullptr) {
        EXPECT_EQ(suggest(path).text, format("did you mean '{}'?", key.path)) << path;
      }
    }
  }
}

TEST(Schema, every_typo_of_every_section_gets_the_right_suggestion) {
  for (const std::string& section : sections())
    for (const std::string& typo : typos_of(section))
      EXPECT_EQ(suggest(typo).text, format("did you mean '{}'?", section)) << typo;
}

TEST(Schema, a_typo_in_a_file_is_reported_at_its_place_with_the_suggestion) {
  for (const Key& key : keys()) {
    const std::string typo = typos_of(leaf_of(key.path)).front();
    const std::string section(section_of(key.path));
    const std::string text = section.empty() ? typo + ": 1\n" : section + ":\n  " + typo + ": 1\n";
    const std::string report = problems_of(text);
    EXPECT_NE(report.find(section.empty() ? "a.yaml:1:1: error: unknown key"
                                          : "a.yaml:2:3: error: unknown key"),
              std::string::npos)
        << report;
    EXPECT_NE(report.find(format("did you mean '{}'?", key.path)), std::string::npos) << report;
  }
}

TEST(Schema, explaining_a_key_says_all_that_the_table_says) {
  for (const Key& key : keys()) {
    const std::string text = explain(key.path);
    for (const std::string& part :
         {key.path, key.meaning, type_words(key), default_words(key), key.unit})
      EXPECT_NE(text.find(part), std::string::npos) << text;
    const std::string section(section_of(key.path));
    if (!section.empty()) {
      EXPECT_NE(explain(section).find(key.meaning), std::string::npos);
    }
  }
}

TEST(Schema, explaining_an_unknown_key_suggests_one) {
  try {
    explain("model.n_layer");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_STREQ(error.what(), "unknown key 'model.n_layer'; did you mean 'model.num_layers'?");
  }
}

TEST(Schema, the_readme_of_configs_has_the_table_of_keys) {
  const std::string path = std::string(FOURFOLD_SOURCE_DIR) + "/configs/README.md";
  const std::string begin = "<!-- keys: made from the schema by tests/unit/config -->\n",
                    end = "<!-- end of keys -->";
  std::string text = read_file(path);
  const auto first = text.find(begin) + begin.size(), last = text.find(end);
  ASSERT_NE(last, std::string::npos);
  ASSERT_NE(first, std::string::npos + begin.size());
  if (std::getenv("FOURFOLD_UPDATE_GOLDEN") != nullptr) {
    write_file_atomic(path, text.substr(0, first) + keys_markdown() + text.substr(last));
    return;
  }
  EXPECT_EQ(text.substr(first, last - first), keys_markdown())
      << "run this test with FOURFOLD_UPDATE_GOLDEN=1 to write the table anew";
}

}  // namespace
}  // namespace fourfold::config
