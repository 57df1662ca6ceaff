// A run that is started again, goes back, or is refused: no save, no weights and no record of it is
// ever lost, and what came later in time wins.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <map>

#include "support/launched_job.h"
#include "support/pattern.h"
#include "support/tiny_training.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

class Sessions : public TinyTraining {
 protected:
  static constexpr const char* constant = "--set lr_schedule.kind=constant ";
  static constexpr const char* slower =
      "--set lr_schedule.kind=constant --set optimizer.lr=1e-5 --set train.steps=40 ";

  std::string go_back_to(const std::string& name, int step) const {
    return "--resume " + save(name, step) + " ";
  }
  /// The bytes of every file of a run, by name.
  std::map<std::string, std::string> contents(const std::string& name) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(path(name)))
      if (entry.is_regular_file()) all[entry.path().string()] = read_file(entry.path().string());
    return all;
  }
};

TEST_F(Sessions, what_a_run_left_when_it_went_back_is_kept_aside_and_never_comes_back) {
  trained("run", constant);
  trained("run", slower + go_back_to("run", 4) + "--stop-at 14");
  EXPECT_EQ(steps("run/checkpoints"), (std::vector<int>{4, 8, 12, 14}));
  EXPECT_EQ(steps("run/checkpoints/line-1"), (std::vector<int>{8, 12, 16, 20}));
  EXPECT_EQ(run_fourfold("ckpt verify " + path("run/checkpoints/line-1")).code, 0);
  const std::string left = text("run/checkpoints/line-1/metrics.jsonl");
  EXPECT_EQ(std::count(left.begin(), left.end(), '\n'), 16);
  EXPECT_TRUE(fs::exists(path("run/checkpoints/line-1/model.safetensors")));
  const CommandResult rest = train("run", std::string(slower) + "--stop-at 24");
  EXPECT_TRUE(has(rest, "going on from step 14 of 40")) << rest.text;
  // What the abandoned steps were lives on in a folder of its own, and only there.
  const std::string old = path("run/checkpoints/line-1/step-000000016");
  const CommandResult here = train("run", slower + ("--resume " + old));
  EXPECT_EQ(here.code, 11) << here.text;
  EXPECT_TRUE(has(here, "was set aside when the run went back")) << here.text;
  trained("other", constant + ("--resume " + old));
  EXPECT_EQ(run_fourfold("generate " + old + " --tokens 2 --prompt 1").code, 0);
}

TEST_F(Sessions, a_run_that_goes_back_counts_only_its_own_saves_among_those_that_it_keeps) {
  trained("run", constant);
  trained("run", slower + go_back_to("run", 4) + "--set checkpoint.keep=2 --stop-at 16");
  EXPECT_EQ(steps("run/checkpoints"), (std::vector<int>{4, 12, 16}));
  EXPECT_EQ(steps("run/checkpoints/line-1"), (std::vector<int>{8, 12, 16, 20}));
}

TEST_F(Sessions, a_run_that_is_overwritten_and_stopped_says_the_command_that_goes_on) {
  trained("run", "--stop-at 4");
  const fs::path folder = path("job");
  fs::create_directories(folder);
  test::LaunchedJob job({"sh", "-c",
                         format("exec {} {}", FOURFOLD_BINARY,
                                training("run", "--overwrite --set train.steps=100000"))},
                        folder.string());
  ASSERT_TRUE(test::wait_until(test::hang_s, [&] {
    return job.output().find("checkpoint: ") != std::string::npos;
  })) << job.output();
  kill(job.processes().front(), SIGTERM);
  ASSERT_EQ(job.wait(test::hang_s), 75) << job.output();
  const std::string output = job.output();
  const auto said = test::Pattern("this goes on from [^:]*: (.*)").first_in(output);
  ASSERT_TRUE(said) << output;
  const std::string& command = said->at(1);
  EXPECT_EQ(command.find("--overwrite"), std::string::npos) << output;
  const int newest = steps("run/checkpoints").back();
  const CommandResult rest = run_command(format("{} --stop-at {} 2>&1", command, newest + 1));
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_TRUE(has(rest, format("going on from step {}", newest))) << rest.text;
}

TEST_F(Sessions, a_job_that_its_scheduler_starts_again_overwrites_and_goes_back_but_once) {
  trained("run", constant);
  const auto start = [&](int restart, const std::string& more) {
    return run_command(format("SLURM_JOB_ID=7 SLURM_RESTART_COUNT={} {} {} 2>&1", restart,
                              FOURFOLD_BINARY, training("run", slower + more)));
  };
  const std::string back = go_back_to("run", 4);
  ASSERT_EQ(start(0, back + "--stop-at 10").code, 0);
  CommandResult result = start(1, back + "--stop-at 14");
  EXPECT_TRUE(has(result, "going on from step 10 of 40")) << result.text;
  ASSERT_EQ(start(2, "--overwrite --stop-at 16").code, 0);
  EXPECT_EQ(steps("run/checkpoints").back(), 16);
  EXPECT_EQ(steps("run/checkpoints").front(), 4);
}

TEST_F(Sessions, weights_are_never_replaced_unasked_whoever_wrote_them) {
  trained("run", "");
  ASSERT_EQ(run_fourfold("export " + path("run") + " -o " + path("hf")).code, 0);
  ASSERT_EQ(run_fourfold("import " + path("hf") + " -o " + path("imported")).code, 0);
  const std::string weights = text("imported/model.safetensors");
  const CommandResult beside =
      run_fourfold(format("train {} --set run.dir={} --set run.init_from={}", path("tiny.yaml"),
                          path("imported"), path("imported")));
  EXPECT_EQ(beside.code, 11) << beside.text;
  EXPECT_TRUE(has(beside, "holds the weights of a model")) << beside.text;
  EXPECT_TRUE(text("imported/model.safetensors") == weights);
  // A run without checkpoints whose metrics are gone.
  const std::string unsaved =
      "--set checkpoint.interval_steps=0 --set checkpoint.interval_minutes=0";
  trained("unsaved", unsaved);
  fs::remove(path("unsaved/metrics.jsonl"));
  const std::string own = text("unsaved/model.safetensors");
  EXPECT_EQ(train("unsaved", unsaved + " --set run.seed=2").code, 11);
  EXPECT_TRUE(text("unsaved/model.safetensors") == own);
  // Others' weights in the place of those of a run that goes on.
  trained("going", "--stop-at 8");
  fs::copy_file(path("imported/model.safetensors"), path("going/model.safetensors"),
                fs::copy_options::overwrite_existing);
  const CommandResult going = train("going");
  EXPECT_EQ(going.code, 11) << going.text;
  EXPECT_TRUE(has(going, "was not written by this run")) << going.text;
  EXPECT_TRUE(text("going/model.safetensors") == weights);
}

TEST_F(Sessions, a_run_that_was_killed_before_it_wrote_its_weights_writes_them) {
  trained("whole", "");
  trained("run", "--stop-at 8");
  const std::string at_8 = text("run/model.safetensors");
  trained("run", "");
  for (const bool is_stale : {false, true}) {
    fs::remove(path("run/model.safetensors"));
    if (is_stale) write_file_atomic(path("run/model.safetensors"), at_8);
    const CommandResult result = train("run");
    EXPECT_EQ(result.code, 0) << result.text;
    EXPECT_TRUE(text("run/model.safetensors") == text("whole/model.safetensors"));
  }
  const CommandResult complete = train("run");
  EXPECT_EQ(complete.code, 11) << complete.text;
  EXPECT_TRUE(has(complete, "the run is complete, 20 of 20 steps")) << complete.text;
}

TEST_F(Sessions, what_kills_before_the_first_checkpoint_leave_does_not_keep_a_run_from_beginning) {
  fs::create_directories(path("run/checkpoints/.begun-step-000000004-77"));
  for (const char* name : {"config.resolved.yaml", "command.txt", "metrics.jsonl", "log.rank0.txt",
                           ".probe-77", ".probe-77-2", "metrics.jsonl.tmp-77", "plan.txt.tmp-1234",
                           "model.safetensors.tmp-77", "lock.n1-77"})
    write_file_atomic(path(format("run/{}", name)), "");
  for (const int start : {1, 2}) {
    const CommandResult result = train("run",
                                       "--stop-at 3 --set checkpoint.interval_steps=0 "
                                       "--set checkpoint.interval_minutes=0");
    EXPECT_EQ(result.code, 0) << result.text;
    EXPECT_TRUE(has(result, "it begins anew")) << result.text;
    fs::remove(path("run/model.safetensors"));  // as if it was killed
    write_file_atomic(path(format("run/config.resolved.yaml.tmp-{}", start)), "");
  }
  for (const std::string& name : names("run"))
    EXPECT_EQ(name.find(".tmp-7"), std::string::npos) << name;
}

TEST_F(Sessions, a_start_that_is_refused_changes_no_file_and_its_dry_run_says_so_before) {
  trained("run", "--set precision.compute=fp32 --stop-at 8");
  const auto before = contents("run");
  struct Refused {
    std::string more;
    int code;
  };
  const std::string damaged = save("run", 8) + "/shard-00000.safetensors";
  const std::vector<Refused> all = {
      {"--override precision.compute --set precision.compute=fp64", 4},
      {"--set model.hidden_size=32", 2},
      {"--resume " + save("run", 8) + " --stop-at 8", 2},
      {"--resume never", 11},
      {"--resume " + save("run", 16), 4},
  };
  for (const auto& [more, code] : all)
    for (const char* dry : {" --dry-run", ""}) {
      const CommandResult result = train("run", more + dry);
      EXPECT_EQ(result.code, code) << more << dry << "\n" << result.text;
      EXPECT_TRUE(contents("run") == before) << more << dry;
    }
  EXPECT_EQ(run_fourfold("generate " + path("run") + " --tokens 2 --prompt 1").code, 0);
  // Damage that only who reads every byte can see.
  std::string bytes = read_file(damaged);
  bytes[bytes.size() - 9] ^= 1;
  write_file_atomic(damaged, bytes);
  const auto now = contents("run");
  for (const char* dry : {" --dry-run", ""}) {
    const CommandResult exact = train("run", "--resume " + save("run", 8) + dry);
    EXPECT_EQ(exact.code, 4) << exact.text;
    EXPECT_TRUE(contents("run") == now) << dry;
  }
  const CommandResult other = train("run", "--dry-run");
  EXPECT_EQ(other.code, 0) << other.text;
  EXPECT_TRUE(has(other, "would be passed over for that of step 4")) << other.text;
  EXPECT_TRUE(contents("run") == now);
}

TEST_F(Sessions, the_best_evaluation_is_known_after_a_resume_and_its_checkpoint_stays) {
  // A learning rate that rises far too high: the loss falls, then rises.
  const std::string sets =
      "--set data.split=0.9 --set eval.interval_steps=2 --set checkpoint.interval_steps=3 "
      "--set checkpoint.keep=2 --set checkpoint.keep_best=1 "
      "--set optimizer.lr=0.5 --set lr_schedule.warmup_steps=19 ";
  trained("whole", sets);
  const std::string log = text("whole/log.rank0.txt");
  const auto best = test::Pattern("eval 20/20 [^\n]*(best [0-9.]+ at step ([0-9]+))").first_in(log);
  ASSERT_TRUE(best) << log;
  const int step = std::stoi(best->at(2));
  ASSERT_LT(step, 14);
  EXPECT_TRUE(fs::exists(save("whole", step)));
  trained("parts", sets + "--stop-at 14");
  const CommandResult rest = train("parts", sets);
  EXPECT_TRUE(has(rest, best->at(1) + " ")) << best->at(1) << rest.text;
  EXPECT_TRUE(fs::exists(save("parts", step)));
  ASSERT_EQ(run_fourfold("ckpt prune --keep 2 " + path("parts")).code, 0);
  EXPECT_TRUE(fs::exists(save("parts", step)));
  EXPECT_TRUE(text("parts/model.safetensors") == text("whole/model.safetensors"));
}

TEST_F(Sessions, a_run_that_was_told_to_stop_is_repeated_up_to_there) {
  trained("run", "--stop-at 8");
  trained("run", "--override optimizer.lr --set optimizer.lr=1e-5 --stop-at 12");
  const std::string command = text("run/command.txt");
  EXPECT_NE(command.find(" --stop-at 8 "), std::string::npos) << command;
  EXPECT_NE(command.find(" --stop-at 12 "), std::string::npos) << command;
  ASSERT_EQ(
      run_command(format("sh {} --set run.dir={} 2>&1", path("run/command.txt"), path("again")))
          .code,
      0);
  EXPECT_EQ(steps("again/checkpoints").back(), 12);
}

TEST_F(Sessions, a_run_ends_when_its_validation_loss_no_longer_falls_and_stays_ended) {
  const std::string sets =
      "--set eval.interval_steps=1 --set optimizer.lr=0.5 "
      "--set lr_schedule.warmup_steps=19 --set eval.early_stopping=3 ";
  const CommandResult result = train("run", sets);
  EXPECT_EQ(result.code, 0) << result.text;
  const test::Pattern words(
      "in 3 evaluations .*the run ends after step ([0-9]+);.* after step ([0-9]+)");
  const auto said = words.first_in(result.text);
  ASSERT_TRUE(said) << result.text;
  EXPECT_EQ(std::stoi(said->at(1)), std::stoi(said->at(2)) + 3);
  EXPECT_EQ(steps("run/checkpoints").back(), std::stoi(said->at(1)));
  EXPECT_TRUE(fs::exists(path("run/model.safetensors")));
  const CommandResult again = train("run", sets);
  EXPECT_EQ(again.code, 11) << again.text;
  EXPECT_TRUE(has(again, "to go on raise eval.early_stopping")) << again.text;
}

TEST_F(Sessions, more_steps_make_the_learning_rate_leap_only_where_that_is_meant) {
  trained("run", "");
  const auto rate = [&](int step) {
    const test::Pattern line(format("\\{{\"step\":{},[^\n]*\"lr\":([^,]*)", step));
    const auto found = line.first_in(text("run/metrics.jsonl"));
    return found ? std::stod(found->at(1)) : -1;
  };
  const CommandResult asked = train("run", "--set train.steps=40");
  EXPECT_EQ(asked.code, 2) << asked.text;
  EXPECT_TRUE(has(asked, "the learning rate of step 21 would be ")) << asked.text;
  EXPECT_TRUE(has(asked, "pass --set lr_schedule.warmup_steps=1 --set lr_schedule.decay_steps=20"))
      << asked.text;
  trained("run",
          "--set train.steps=24 --set lr_schedule.warmup_steps=1 --set "
          "lr_schedule.decay_steps=20");
  EXPECT_DOUBLE_EQ(rate(21), 1e-4);
  trained("run", "--set train.steps=40 --override lr_schedule");
  EXPECT_GT(rate(25), 4e-4);
  // A schedule that is level there has no end yet: it may be moved.
  const std::string level = "--set lr_schedule.kind=warmup_stable_decay ";
  trained("level", level + "--stop-at 8");
  trained("level", level + "--set train.steps=24");
}

TEST_F(Sessions, a_run_keeps_the_record_of_each_of_its_starts_and_repeats_as_a_whole) {
  trained("run", "--set optimizer.lr=3e-3 --set train.steps=10 " + std::string(constant));
  trained("run", "--set optimizer.lr=1e-4 --set train.steps=16 --override optimizer.lr " +
                     std::string(constant));
  EXPECT_EQ(names("run/sessions"), (std::vector<std::string>{"1", "2"}));
  EXPECT_NE(text("run/sessions/1/config.resolved.yaml").find("lr: 0.003"), std::string::npos);
  EXPECT_NE(text("run/sessions/1/command.txt").find("optimizer.lr=3e-3"), std::string::npos);
  EXPECT_NE(text("run/sessions/2/session.json").find("\"first_step\":10,\"last_step\":16"),
            std::string::npos)
      << text("run/sessions/2/session.json");
  const std::string log = text("run/log.rank0.txt");
  EXPECT_NE(log.find("step  1/10"), std::string::npos);
  EXPECT_NE(log.find("step 16/16"), std::string::npos);
  const CommandResult again =
      run_command(format("sh {} --set run.dir={} 2>&1", path("run/command.txt"), path("again")));
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_TRUE(text("again/model.safetensors") == text("run/model.safetensors"));
  // A session that changes nothing needs no command of its own.
  trained("same", "--stop-at 8");
  trained("same", "");
  ASSERT_EQ(run_command(
                format("sh {} --set run.dir={} 2>&1", path("same/command.txt"), path("same-again")))
                .code,
            0);
  EXPECT_TRUE(text("same-again/model.safetensors") == text("same/model.safetensors"));
}

TEST_F(Sessions, a_run_of_processes_repeats_as_a_whole_session_by_session) {
  if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  const auto start = [&](const std::string& name, std::vector<std::string> words) {
    std::filesystem::create_directories(path(name));
    // The commands of a record start ranks as those who wrote them did.
    test::LaunchedJob job(std::move(words), path(name),
                          {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                           {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                           {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                           // Bound ranks share cores with whatever else runs there.
                           {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                           {"OMPI_MCA_mpi_yield_when_idle", "1"}});
    EXPECT_EQ(job.wait(test::hang_s), 0) << job.output();
  };
  const auto session = [&](const std::string& name, const std::string& more) {
    const std::string command = format("mpirun -np 2 {} {} --set parallel.data=2 {}",
                                       FOURFOLD_BINARY, training("run", constant), more);
    start(name, {"sh", "-c", command});
  };
  session("first", "--set train.steps=6 --set optimizer.lr=3e-3");
  session("second", "--set train.steps=10 --set optimizer.lr=1e-4 --override optimizer.lr");
  EXPECT_NE(text("run/command.txt").find("mpirun -np 2 "), std::string::npos);
  start("third", {"sh", path("run/command.txt"), "--set", "run.dir=" + path("again")});
  EXPECT_TRUE(text("again/model.safetensors") == text("run/model.safetensors"));
}

TEST_F(Sessions, a_comparison_of_configurations_says_which_values_of_a_run_held_from_which_step) {
  trained("run", "--set optimizer.lr=3e-3 --set train.steps=10 " + std::string(constant));
  trained("run", "--set optimizer.lr=1e-4 --set train.steps=16 --override optimizer.lr " +
                     std::string(constant));
  trained("other", "--set optimizer.lr=1e-4 --set train.steps=16 " + std::string(constant));
  const CommandResult result =
      run_fourfold(format("config diff {} {}", path("run"), path("other")));
  EXPECT_EQ(result.code, 0) << result.text;
  const test::Pattern changed(
      "optimizer\\.lr\n  - 0\\.003 +# --set #[0-9]+; steps 1 to 10\n"
      "  - 0\\.0001 +# --set #[0-9]+; from step 11\n  \\+ 0\\.0001 +# --set #[0-9]+\n");
  EXPECT_TRUE(changed.is_in(result.text)) << result.text;
  // A run beside a file, on either side.
  const CommandResult file =
      run_fourfold(format("config diff {} {}", path("tiny.yaml"), path("run")));
  EXPECT_TRUE(has(file, "  + 0.003")) << file.text;
  EXPECT_TRUE(has(file, "; steps 1 to 10")) << file.text;
  EXPECT_EQ(run_fourfold(format("config diff {} {}", path("run"), path("run"))).text,
            "no differences\n");
  // A record that cannot be read is left out.
  write_file_atomic(path("run/sessions/1/config.resolved.yaml"), "model: [");
  const CommandResult rest = run_fourfold(format("config diff {} {}", path("run"), path("other")));
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_FALSE(has(rest, "steps 1 to")) << rest.text;
}

}  // namespace
}  // namespace fourfold
