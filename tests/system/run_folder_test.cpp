// What a run leaves in its folder is never lost: copies and links of it, odd files in it, numbers
// that are none.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "rundir/run_lock.h"
#include "support/launched_job.h"
#include "support/pattern.h"
#include "support/tiny_training.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

class RunFolder : public TinyTraining {
 protected:
  /// As `cp -al` copies.
  void link_tree(const std::string& from, const std::string& to) const {
    ASSERT_EQ(run_command(format("cp -al {} {}", path(from), path(to))).code, 0);
  }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::app) << text;
  }
};

TEST_F(RunFolder, a_backup_by_hard_links_is_read_and_so_is_what_it_backs_up) {
  trained("run", "--stop-at 8");
  link_tree("run", "backup");
  EXPECT_EQ(run_fourfold("ckpt verify " + path("backup")).code, 0);
  const CommandResult rest = train("run");
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_TRUE(has(rest, "going on from step 8")) << rest.text;
  EXPECT_EQ(run_fourfold("ckpt verify " + path("backup")).code, 0);
  EXPECT_EQ(steps("backup/checkpoints"), (std::vector<int>{4, 8}));
}

TEST_F(RunFolder, advice_about_checkpoints_that_cannot_be_read_loses_none_of_them) {
  trained("run", "--stop-at 8");
  for (const int step : {4, 8}) fs::resize_file(save("run", step) + "/manifest.json", 9);
  const CommandResult result = train("run");
  EXPECT_EQ(result.code, 4) << result.text;
  EXPECT_EQ(result.text.find("--overwrite"), std::string::npos) << result.text;
  EXPECT_TRUE(has(result, "bring a copy, or begin in another folder")) << result.text;
}

TEST_F(RunFolder, checkpoints_behind_links_are_gone_on_from_and_their_files_are_never_removed) {
  trained("run", "--stop-at 8");
  fs::create_directories(path("elsewhere"));
  for (const int step : {4, 8}) {
    const fs::path to = path("elsewhere") / fs::path(save("run", step)).filename();
    fs::rename(save("run", step), to);
    fs::create_directory_symlink(to, save("run", step));
  }
  fs::remove(path("run/model.safetensors"));
  const CommandResult rest = train("run", "--set checkpoint.keep=2");
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_TRUE(has(rest, "going on from step 8 of 20")) << rest.text;
  EXPECT_EQ(steps("elsewhere"), (std::vector<int>{4, 8}));
  EXPECT_EQ(run_fourfold("ckpt verify " + path("elsewhere")).code, 0);
}

TEST_F(RunFolder, a_link_to_checkpoints_that_are_not_there_does_not_begin_the_run_anew) {
  trained("run", "--stop-at 4");
  fs::rename(save("run", 4), path("aside"));
  fs::create_directory_symlink(path("unmounted"), save("run", 4));
  fs::remove(path("run/model.safetensors"));
  const std::string before = text("run/metrics.jsonl");
  const CommandResult result = train("run");
  EXPECT_EQ(result.code, 4) << result.text;
  EXPECT_EQ(text("run/metrics.jsonl"), before);
}

TEST_F(RunFolder, prune_keeps_what_the_runs_configuration_keeps_for_ever) {
  trained("run", "--set checkpoint.interval_steps=2 --set checkpoint.keep_every=4");
  const CommandResult listed = run_fourfold("ckpt ls " + path("run"));
  for (const char* line :
       {"step         4 [^\n]*  stays: every 4 steps\n", "step        18 [^\n:]*\n"})
    EXPECT_TRUE(test::Pattern(line).is_in(listed.text)) << listed.text;
  const CommandResult pruned = run_fourfold("ckpt prune --keep 2 " + path("run"));
  EXPECT_EQ(pruned.code, 0) << pruned.text;
  EXPECT_EQ(steps("run/checkpoints"), (std::vector<int>{4, 8, 12, 16, 18, 20}));
}

TEST_F(RunFolder, what_another_job_holds_is_neither_planned_nor_pruned) {
  trained("run", "--stop-at 16");
  const auto before = steps("run/checkpoints");
  const std::vector<std::string> commands = {training("run", "--dry-run"),
                                             "ckpt prune --keep 2 " + path("run"),
                                             "ckpt prune --keep 2 " + path("run/checkpoints")};
  {
    const rundir::RunLock lock(
        path("run"),
        rundir::this_holder([](const std::string&) { return std::optional<std::string>(); }), {});
    for (const std::string& command : commands) {
      const CommandResult refused = run_fourfold(command);
      EXPECT_EQ(refused.code, 11) << command << "\n" << refused.text;
      EXPECT_TRUE(has(refused, "is in use by a job on")) << refused.text;
    }
    EXPECT_EQ(steps("run/checkpoints"), before);
  }
  for (const std::string& command : commands) EXPECT_EQ(run_fourfold(command).code, 0) << command;
  EXPECT_EQ(steps("run/checkpoints"), (std::vector<int>{12, 16}));
}

TEST_F(RunFolder, weights_in_several_files_are_the_model_that_one_file_is) {
  const std::string large =
      " --set train.steps=2 --set model.hidden_size=192 --set parallel.tensor.x=2"
      " --set parallel.data=2";
  const std::string split = large + " --set run.weights_file_mib=1";
  trained("single", large);
  trained("run", split);
  const std::string index = path("run/model.safetensors.index.json");
  EXPECT_TRUE(fs::exists(index));
  const auto parts = [&] {
    return std::ranges::count_if(names("run"),
                                 [](const auto& n) { return n.starts_with("model-"); });
  };
  EXPECT_GT(parts(), 1);
  EXPECT_FALSE(fs::exists(path("run/model.safetensors")));
  const auto exported = [&](const std::string& run) {
    const std::string to = path(run + "-exported");
    fs::remove_all(to);
    const CommandResult result =
        run_fourfold(format("export {} -o {} --format safetensors", path(run), to));
    EXPECT_EQ(result.code, 0) << result.text;
    return text(run + "-exported/model.safetensors");
  };
  const std::string model = exported("single");
  EXPECT_TRUE(exported("run") == model);
  // A run that was killed before its index writes it.
  fs::remove(index);
  const CommandResult rest = train("run", split);
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_TRUE(has(rest, "what is missing is written now")) << rest.text;
  EXPECT_TRUE(exported("run") == model);
  const CommandResult in_use = train("run", split + " --resume never");
  EXPECT_EQ(in_use.code, 11) << in_use.text;
  trained("run", large + " --overwrite");
  EXPECT_FALSE(fs::exists(index));
  EXPECT_EQ(parts(), 0);
  EXPECT_TRUE(exported("run") == model);
}

TEST_F(RunFolder, final_weights_that_are_not_whole_are_written_again) {
  const std::string large = " --set model.hidden_size=192 --set run.weights_file_mib=1",
                    split = large + " --set train.steps=2",
                    index = path("run/model.safetensors.index.json");
  trained("run", split);
  trained("shorter", large + " --set train.steps=1");
  const auto part_of = [&](const std::string& run) {
    for (const std::string& name : names(run))
      if (name.starts_with("model-00002-")) return path(run + "/" + name);
    throw InternalError("the model has several files");
  };
  const std::string part = part_of("run"), whole = read_file(part), whole_index = read_file(index);
  const auto size = static_cast<std::uintmax_t>(whole.size());
  const std::vector<std::pair<std::string, std::function<void()>>> damages = {
      {"cannot be read", [&] { fs::remove(part); }},
      {"cut short", [&] { fs::resize_file(part, size - 1); }},
      {"cut short", [&] { fs::resize_file(part, 0); }},
      {"belongs to a model of step 1, not 2",
       [&] { write_file_atomic(part, read_file(part_of("shorter"))); }},
      {"index.json", [&] { fs::resize_file(index, whole_index.size() / 2); }},
      {"index.json", [&] { fs::resize_file(index, 0); }}};
  for (const auto& [why, damage] : damages) {
    SCOPED_TRACE(why);
    damage();
    const CommandResult again = train("run", split);
    EXPECT_EQ(again.code, 0) << again.text;
    EXPECT_TRUE(has(again, "the final weights are written again: ")) << again.text;
    EXPECT_TRUE(has(again, why)) << again.text;
    EXPECT_TRUE(read_file(part) == whole);
    EXPECT_TRUE(read_file(index) == whole_index);
  }
  const CommandResult complete = train("run", split);
  EXPECT_EQ(complete.code, 11) << complete.text;
  trained("single");
  const std::string model = path("single/model.safetensors"), bytes = read_file(model);
  for (const std::size_t left : {std::size_t{0}, bytes.size() - 1}) {
    fs::resize_file(model, left);
    trained("single");
    EXPECT_TRUE(read_file(model) == bytes);
  }
}

TEST_F(RunFolder, an_odd_line_among_the_metrics_stops_nothing_and_stays) {
  trained("run", "--stop-at 4");
  append("run/metrics.jsonl",
         "{\"step\":1.5}\n[]\n17\n{\"note\":\"mine\"}\n{\"step\":\"x\"}\n{\"step\":9,\"lo");
  const CommandResult rest = train("run");
  EXPECT_EQ(rest.code, 0) << rest.text;
  const std::string lines = text("run/metrics.jsonl");
  EXPECT_NE(lines.find("{\"note\":\"mine\"}\n"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("\"lo\n"), std::string::npos);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 20 + 5);
}

TEST_F(RunFolder, a_pipe_in_the_place_of_a_file_is_refused_before_the_first_step) {
  for (const char* name : {"log.rank0.txt", "metrics.jsonl", "model.safetensors", "command.txt"}) {
    fs::remove_all(path("run"));
    fs::create_directories(path("run"));
    ASSERT_EQ(mkfifo(path(format("run/{}", name)).c_str(), 0600), 0);
    const CommandResult result = run_command(
        format("timeout -s KILL {} {} {} 2>&1", test::hang_s, FOURFOLD_BINARY, training("run")));
    EXPECT_EQ(result.code, 6) << name << "\n" << result.text;
    EXPECT_TRUE(has(result, format("{}: is a pipe; expected a file", name))) << result.text;
    EXPECT_EQ(names("run"), std::vector<std::string>{name});
  }
}

TEST_F(RunFolder, a_validation_loss_that_is_no_number_is_saved_and_ends_the_run_with_7) {
  const std::string more =
      "--set train.steps=4 --set optimizer.weight_decay=1e9 --set precision.compute=fp64";
  const CommandResult result = train("run", more);
  EXPECT_EQ(result.code, 7) << result.text;
  EXPECT_TRUE(has(result, "the validation loss is ")) << result.text;
  EXPECT_EQ(result.text.find("best nan"), std::string::npos) << result.text;
  EXPECT_EQ(steps("run/checkpoints").back(), 4);
  EXPECT_TRUE(has(run_fourfold("ckpt ls " + path("run")), "not finite"));
  // It is not made good by being started again.
  const CommandResult again = train("run", more);
  EXPECT_EQ(again.code, 7) << again.text;
  EXPECT_FALSE(fs::exists(path("run/model.safetensors")));
}

}  // namespace
}  // namespace fourfold
