// Files that extend others.
#include <filesystem>
#include <map>

#include "base/format.h"
#include "config/schema.h"
#include "unit/config/scratch.h"

namespace fourfold::config {
namespace {

const std::string synthetic = "data: {format: synthetic}\nmodel: {vocab_size: 64}\n";

/// Files of this map alone, by path.
FileReader in_memory(std::map<std::string, std::string> files) {
  return [files](const std::string& path) -> std::variant<std::string, FileFault> {
    const auto found = files.find(path);
    if (found == files.end()) return FileFault{"cannot be read: No such file", "check the path"};
    return found->second;
  };
}

Config load_files(const std::map<std::string, std::string>& texts,
                  const std::vector<std::string>& files,
                  const std::vector<std::string>& sets = {}) {
  return load(files, sets, in_memory(texts));
}

std::string report_of(const std::map<std::string, std::string>& texts,
                      const std::vector<std::string>& files,
                      const std::vector<std::string>& sets = {}) {
  try {
    load_files(texts, files, sets);
    return "";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    return error.what();
  }
}

void expect_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\n" << text;
}

TEST(Extends, a_file_wins_over_what_it_extends_through_several_levels) {
  const std::map<std::string, std::string> texts = {
      {"runs/a.yaml", "train: {steps: 3}\nextends: ../b.yaml\n"},
      {"b.yaml", "extends: base/c.yaml\ntrain: {steps: 2, global_batch_size: 6}\n"},
      {"base/c.yaml", synthetic + "train: {steps: 1, global_batch_size: 4}\nlog: {interval: 7}\n"}};
  const Config config = load_files(texts, {"runs/a.yaml"});
  EXPECT_EQ(config.train.steps, 3);
  EXPECT_EQ(config.plan.global_batch_size, 6);
  EXPECT_EQ(config.train.log_interval, 7);
  EXPECT_EQ(config.name, "a");
}

TEST(Extends, each_value_remembers_where_it_was_given) {
  const std::map<std::string, std::string> texts = {
      {"dir/a.yaml", "extends: b.yaml\ntrain:\n  steps: 3\n"},
      {"dir/b.yaml", synthetic + "train:\n  steps: 1\n  global_batch_size: 4\n"}};
  const Config config = load_files(texts, {"dir/a.yaml"}, {"optimizer.lr=1", "run.seed=2"});
  const auto place = [&](const char* key) { return config.origins.find(key)->place; };
  EXPECT_EQ(place("train.steps"), "dir/a.yaml:3");
  EXPECT_EQ(place("train.global_batch_size"), "dir/b.yaml:5");
  EXPECT_EQ(place("model.vocab_size"), "dir/b.yaml:2");
  EXPECT_EQ(place("run.seed"), "--set #2");
  EXPECT_EQ(place("model.bias"), "default");
  EXPECT_EQ(place("model.ffn_hidden_size"), "derived");
  EXPECT_EQ(place("run.name"), "derived");
}

TEST(Extends, a_circle_is_refused_with_its_chain) {
  expect_all(report_of({{"a.yaml", "extends: b.yaml\n"},
                        {"b.yaml", "extends: sub/c.yaml\n"},
                        {"sub/c.yaml", "extends: ../b.yaml\n"}},
                       {"a.yaml"}),
             {"sub/c.yaml:1:10: error: files extend each other in a circle: "
              "b.yaml -> sub/c.yaml -> b.yaml",
              "remove one 'extends'"});
  expect_all(report_of({{"a.yaml", "extends: ./a.yaml\n"}}, {"a.yaml"}),
             {"a.yaml:1:10:", "a.yaml -> a.yaml"});
}

TEST(Extends, links_do_not_hide_a_circle) {
  const Scratch scratch;
  const std::string a = scratch.write("a.yaml", "extends: b.yaml\n");
  std::filesystem::create_symlink(a, std::filesystem::path(a).parent_path() / "b.yaml");
  try {
    load(std::vector<std::string>{a}, {});
    FAIL();
  } catch (const UserError& error) {
    expect_all(error.what(), {"in a circle"});
  }
}

TEST(Extends, a_base_of_two_files_is_read_for_each_and_its_problems_are_told_once) {
  const std::map<std::string, std::string> texts = {
      {"a.yaml", "extends: base.yaml\ntrain: {steps: 5}\n"},
      {"b.yaml", "extends: base.yaml\n"},
      {"base.yaml", synthetic + "train: {steps: 1}\n"},
      {"bad.yaml", "modle: 1\n"},
      {"c.yaml", "extends: bad.yaml\n"},
      {"d.yaml", "extends: bad.yaml\n"}};
  EXPECT_EQ(load_files(texts, {"a.yaml", "b.yaml"}).train.steps, 1);
  EXPECT_EQ(count_problems(report_of(texts, {"c.yaml", "d.yaml"}, {"data.path=x"})), 1U);
}

TEST(Extends, wrong_values_are_refused_at_their_places) {
  for (const auto& [text, expected] : std::map<std::string, std::string>{
           {"extends: no.yaml\n", "a.yaml:1:10: error: no.yaml cannot be read: No such file"},
           {"extends:\n", "a.yaml:1:1: error: extends: expected the path of one file; got nothing"},
           {"extends: ''\n", "a.yaml:1:10: error: extends: expected the path of one file; got ''"},
           {"extends: [b.yaml]\n", "a.yaml:1:10: error: extends: expected the path of one file"},
           {"extends: {a: b}\n", "got a map"},
           {"extends: b.yaml\nextends: c.yaml\n", "a.yaml:2:1: error: duplicate key 'extends'"},
           {"model: {extends: b.yaml}\n", "it stands at the top of a file"},
           {"extend: b.yaml\n", "did you mean 'extends'?"}})
    expect_all(report_of({{"a.yaml", text}, {"b.yaml", synthetic}}, {"a.yaml"}), {expected});
  expect_all(report_of({{"a.yaml", synthetic}}, {"a.yaml"}, {"extends=b.yaml"}),
             {"--set #1: error: unknown key 'extends'", "it stands at the top of a file"});
}

TEST(Extends, a_chain_has_an_end) {
  std::map<std::string, std::string> texts;
  for (int i = 0; i < 40; ++i) texts[format("{}.yaml", i)] = format("extends: {}.yaml\n", i + 1);
  expect_all(report_of(texts, {"0.yaml"}), {"more than 16 files extend each other"});
}

TEST(Extends, problems_of_all_files_are_told_together) {
  const std::string report = report_of({{"a.yaml", "extends: b.yaml\nmodel: {bias: yes}\n"},
                                        {"b.yaml", "extends: no.yaml\nmodel: {n_layer: 1}\n"}},
                                       {"a.yaml", "missing.yaml"}, {"train.steps=x"});
  EXPECT_EQ(count_problems(report), 5U) << report;
  expect_all(report, {"a.yaml:2:", "b.yaml:1:10:", "b.yaml:2:9:", "missing.yaml: error: cannot",
                      "--set #1: error:"});
}

TEST(Extends, a_relation_that_does_not_hold_names_the_places_of_all_its_keys) {
  expect_all(report_of({{"a.yaml", "extends: b.yaml\nmodel:\n  hidden_size: 130\n"},
                        {"b.yaml", synthetic}},
                       {"a.yaml"}, {"model.num_attention_heads=4"}),
             {"--set #1: error: model.hidden_size = 130 is not divisible by",
              "\n      model.hidden_size is set at a.yaml:3:16"});
  expect_all(report_of({{"a.yaml", synthetic + "train: {micro_batch_size: 5}\n"}}, {"a.yaml"}),
             {"a.yaml:3:27: error: train.global_batch_size = 12 is not",
              "\n      train.global_batch_size is not set; 12 is its default"});
  expect_all(report_of({{"a.yaml", synthetic + "lr_schedule: {warmup_steps: 9, decay_steps: 5}\n"}},
                       {"a.yaml"}),
             {"\n      lr_schedule.warmup_steps is set at a.yaml:3:29"});
}

}  // namespace
}  // namespace fourfold::config
