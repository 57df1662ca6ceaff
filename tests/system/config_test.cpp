// `fourfold config ...` as a person uses it, and what a run keeps of its configuration.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "support/command.h"

namespace fourfold {
namespace {

using Outcome = CommandResult;

class ConfigCommands : public FolderTest {};

void expect_all(const Outcome& outcome, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const std::string& part : parts)
    EXPECT_NE(outcome.text.find(part), std::string::npos) << "expected: " << part << "\n"
                                                          << outcome.text;
}

/// The lines of metrics.jsonl without what differs between equal runs: times, what is made of
/// them, and measured memory.
std::vector<std::string> metrics_without_times(const std::string& run_dir) {
  std::vector<std::string> lines;
  for (const std::string& line : split(read_file(run_dir + "/metrics.jsonl"), '\n')) {
    if (line.empty()) continue;
    Json kept = Json::object();
    const Json metrics = parse_json(line, "metrics.jsonl");
    for (const Json::Member& member : metrics.members()) {
      const bool is_time = member.key.ends_with("_s") || member.key == "tflops" ||
                           member.key == "mfu" || member.key == "hfu" ||
                           member.key.ends_with("resident_bytes") || member.key == "slowest_rank";
      if (!is_time) kept.set(member.key, member.value);
    }
    lines.push_back(kept.dump());
  }
  return lines;
}

TEST_F(ConfigCommands, a_run_is_repeated_bit_for_bit_from_what_show_prints_of_it) {
  const std::string a = path("a"), b = path("b"), file = path("again.yaml");
  ASSERT_EQ(run_fourfold(format("train configs/gpt-tiny.yaml --set run.dir={} --set train.steps=6 "
                                "--set model.dropout=0.1 --set optimizer.lr=2e-3 --set "
                                "parallel.tensor.x=2",
                                a))
                .code,
            0);
  const Outcome shown = run_fourfold("config show " + a);
  expect_all(shown, {"  # --set #4\n", "  # configs/gpt-tiny.yaml:", "  # default\n"});
  write_file_atomic(file, shown.text);
  ASSERT_EQ(run_fourfold(format("train {} --set run.dir={}", file, b)).code, 0);
  EXPECT_TRUE(read_file(a + "/model.safetensors") == read_file(b + "/model.safetensors"));
  const auto first = metrics_without_times(a), second = metrics_without_times(b);
  EXPECT_EQ(first.size(), 6U);
  EXPECT_EQ(first, second);
  EXPECT_NE(first[0].find("\"loss\""), std::string::npos);
  const Outcome difference = run_fourfold(format("config diff {} {}", a, b));
  EXPECT_EQ(difference.text,
            format("run.dir\n  - \"{}\"  # --set #1\n  + \"{}\"  # --set #1\n", a, b));
}

TEST_F(ConfigCommands, show_prints_a_good_file_with_the_origin_of_every_value) {
  write_file_atomic(path("base.yaml"), "data: {format: synthetic}\nmodel: {vocab_size: 64}\n");
  write_file_atomic(path("a.yaml"), "extends: base.yaml\ntrain:\n  steps: 5\n");
  const std::string source = format("{} --set log.interval=1", path("a.yaml"));
  const Outcome shown = run_fourfold("config show " + source);
  expect_all(shown, {format("# {}:1", path("base.yaml")), format("# {}:3", path("a.yaml")),
                     "# --set #1", "# default", "# derived"});
  write_file_atomic(path("shown.yaml"), shown.text);
  const Outcome plain = run_fourfold("config show --plain " + source);
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.text.find('#', 1), std::string::npos) << plain.text;
  EXPECT_EQ(run_fourfold("config show --plain " + path("shown.yaml")).text, plain.text);
  EXPECT_EQ(run_fourfold(format("config diff {} {}", path("shown.yaml"), path("shown.yaml"))).text,
            "no differences\n");
}

TEST_F(ConfigCommands, diff_prints_both_values_and_where_they_come_from) {
  const Outcome outcome =
      run_fourfold("config diff configs/gpt-tiny.yaml configs/gpt-quickstart.yaml");
  expect_all(outcome, {"model.num_layers\n  - 2 ", "  # configs/gpt-tiny.yaml:6\n  + 4 ",
                       "optimizer.betas\n  - [0.9, 0.95] ", "  # derived\n  + [0.9, 0.99] "});
  EXPECT_EQ(outcome.text.find("optimizer.lr\n"), std::string::npos) << outcome.text;
}

TEST_F(ConfigCommands, new_writes_a_file_that_is_good_and_is_not_overwritten) {
  for (const char* size : {"0.8M", "124M", "175B"}) {
    const std::string file = path(std::string(size) + ".yaml");
    expect_all(run_fourfold(format("config new --model gpt --size {} -o {}", size, file)),
               {"set data.path"});
    expect_all(run_fourfold("config check " + file), {"no errors"});
  }
  const std::string before = read_file(path("124M.yaml"));
  EXPECT_EQ(run_fourfold("config new -o " + path("124M.yaml")).code, 11);
  EXPECT_EQ(read_file(path("124M.yaml")), before);
  EXPECT_TRUE(run_fourfold("config new").text.starts_with("# A GPT of 124M parameters."));
}

TEST_F(ConfigCommands, explain_and_schema_speak_of_the_keys) {
  expect_all(run_fourfold("config explain parallel.tensor.x"),
             {"type       whole number from 1 to 65536", "default    1", "unit       ranks",
              "cost       Weights", "G_intra_r", "parallel: {tensor: {x: 2}}"});
  expect_all(run_fourfold("config explain lr_schedule"), {"warmup_steps", "config explain lr_"});
  expect_all(run_fourfold("config explain"), {"model.num_layers", "optimizer.betas"});
  expect_all(run_fourfold("--help"), {"config explain"});
  EXPECT_TRUE(run_fourfold("config explain --markdown").text ==
              read_file(std::string(FOURFOLD_SOURCE_DIR) + "/configs/KEYS.md"))
      << "run test_unit_config with FOURFOLD_UPDATE_GOLDEN=1";
  const Json schema = parse_json(run_fourfold("config schema").text, "schema");
  EXPECT_NE(schema.find("properties"), nullptr);
}

TEST_F(ConfigCommands, check_finds_what_only_a_plan_shows) {
  const Outcome outcome =
      run_fourfold("config check configs/gpt-tiny.yaml --set parallel.tensor.x=3");
  EXPECT_EQ(outcome.code, 5) << outcome.text;
  EXPECT_NE(outcome.text.find("parallel.tensor.x is set by --set #1"), std::string::npos)
      << outcome.text;
  expect_all(run_fourfold("config check configs/gpt-tiny.yaml --set data.format=text --set "
                          "data.path=no-such-file --set sample.tokens=0"),
             {"note: data.path = no-such-file is not there", "no errors"});
}

TEST_F(ConfigCommands, check_says_where_it_does_not_prove_that_a_pipeline_ends) {
  expect_all(run_fourfold("config check configs/paper/gpt-2.6b.yaml"),
             {"note: parallel.pipeline: programs of 8 ranks", "`fourfold plan` proves it\n"});
  const Outcome proved = run_fourfold(
      "config check configs/gpt-tiny.yaml --set parallel.pipeline.stages=2 --set "
      "train.micro_batch_size=1");
  EXPECT_EQ(proved.code, 0) << proved.text;
  EXPECT_EQ(proved.text.find("note: parallel.pipeline"), std::string::npos) << proved.text;
}

}  // namespace
}  // namespace fourfold
