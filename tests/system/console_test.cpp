// What a person sees of the binary: in terminals of several widths, in a file, at the end of a run
// and when it fails; and how a shell and a doctor see it.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/styled_text.h"
#include "base/text.h"
#include "support/launched_job.h"
#include "support/pattern.h"
#include "support/pseudo_terminal.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

class Screens : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::temp_directory_path() / format("fourfold-{}-{}", info->name(), getpid());
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  std::string train(const std::string& run, const std::string& more = "") const {
    return format("cd {} && {} train configs/gpt-tiny.yaml --set run.threads=1 --set run.dir={} {}",
                  FOURFOLD_SOURCE_DIR, FOURFOLD_BINARY, path(run), more);
  }

  struct Outcome {
    int code = 0;
    std::string written;
    std::vector<std::string> seen;
  };
  static Outcome on_terminal(int columns, const std::string& command,
                             std::map<std::string, std::string> variables = {}) {
    variables.emplace("TERM", "xterm");
    variables.emplace("LC_ALL", "C.UTF-8");
    test::PseudoTerminal terminal(static_cast<unsigned short>(columns));
    Outcome outcome;
    outcome.code = terminal.run(command, variables);
    outcome.written = terminal.written();
    outcome.seen = test::seen_lines(outcome.written);
    return outcome;
  }
  /// Standard output and standard error go to a file.
  Outcome in_a_file(const std::string& command) const {
    const Outcome outcome = on_terminal(80, format("({}) > {} 2>&1", command, path("out.txt")));
    return {outcome.code, read_file(path("out.txt")), split(read_file(path("out.txt")), '\n')};
  }
  static std::vector<std::string> starting_with(const std::vector<std::string>& lines,
                                                const std::string& begin) {
    std::vector<std::string> found;
    for (const std::string& line : lines)
      if (line.starts_with(begin)) found.push_back(line);
    return found;
  }

  fs::path dir_;
};

TEST_F(Screens, nothing_is_wider_than_the_terminal_and_no_status_line_stays) {
  for (const int columns : {80, 160}) {
    const Outcome outcome = on_terminal(
        columns, train(format("w{}", columns), "--set parallel.data=2 --set log.interval=auto"));
    ASSERT_EQ(outcome.code, 0) << outcome.written;
    for (const std::string& line : outcome.seen) {
      // The path of this test's folder may be longer than a terminal.
      const bool has_path = line.find(path("")) != std::string::npos;
      EXPECT_TRUE(has_path || columns_of(line) <= static_cast<std::size_t>(columns)) << line;
    }
    const auto steps = starting_with(outcome.seen, "step ");
    ASSERT_GE(steps.size(), 12U) << outcome.written;
    EXPECT_TRUE(steps.back().starts_with("step 20/20 | loss ")) << steps.back();
    EXPECT_EQ(steps[1].find("mem ") != std::string::npos, columns == 160) << steps[1];
    EXPECT_NE(outcome.written.find("\x1b["), std::string::npos);
  }
}

TEST_F(Screens, a_file_gets_plain_whole_lines) {
  const Outcome outcome = in_a_file(train("a", "--set parallel.data=2"));
  ASSERT_EQ(outcome.code, 0) << outcome.written;
  EXPECT_EQ(outcome.written.find('\r'), std::string::npos);
  EXPECT_EQ(outcome.written.find('\x1b'), std::string::npos);
  std::int64_t count = 0;
  for (const std::string& line : starting_with(outcome.seen, "step ")) {
    if (line.starts_with("step        ")) continue;  // the row of the table
    ++count;
    for (const char* column : {"loss", "gnorm", "lr", "tok/s", "FLOP/s", "exposed", "mem"})
      EXPECT_NE(line.find(column), std::string::npos) << line;
  }
  EXPECT_EQ(count, 5);  // steps 1, 5, 10, 15, 20
}

TEST_F(Screens, what_mpirun_passes_on_is_plain_though_ranks_see_a_terminal) {
  if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  std::string start;
  for (const std::string& word : test::mpirun(2)) start += word + " ";
  const std::string train_words = train("a", "--set parallel.data=2");
  const std::size_t binary = train_words.find(FOURFOLD_BINARY);
  const Outcome outcome =
      in_a_file(train_words.substr(0, binary) + start + train_words.substr(binary));
  ASSERT_EQ(outcome.code, 0) << outcome.written;
  EXPECT_EQ(outcome.written.find('\r'), std::string::npos) << outcome.written;
  EXPECT_EQ(outcome.written.find('\x1b'), std::string::npos) << outcome.written;
  EXPECT_FALSE(starting_with(outcome.seen, "step ").empty());
}

TEST_F(Screens, no_color_and_the_option_leave_only_the_line_that_moves) {
  const Outcome no = on_terminal(80, train("a"), {{"NO_COLOR", "1"}});
  EXPECT_EQ(no.written.find("\x1b[2m"), std::string::npos);
  const Outcome never = on_terminal(80, train("b", "--color never"));
  EXPECT_EQ(never.written.find("\x1b[2m"), std::string::npos);
  const Outcome always = in_a_file(train("c", "--color always"));
  EXPECT_NE(always.written.find("\x1b[2m"), std::string::npos);
  EXPECT_EQ(always.written.find('\r'), std::string::npos);
}

TEST_F(Screens, the_end_has_figures_a_curve_and_the_way_to_the_files) {
  const Outcome outcome = in_a_file(train("a", "--set train.steps=20"));
  for (const char* words : {"training loss", "validation loss", "planned a rank",
                            "loss by step, evaluations as", "model.safetensors", "command.txt"})
    EXPECT_NE(outcome.written.find(words), std::string::npos) << words << "\n" << outcome.written;
  const std::string log = read_file(path("a") + "/log.rank0.txt");
  EXPECT_NE(log.find("info step 20/20 | loss"), std::string::npos) << log;
}

TEST_F(Screens, a_failing_run_says_so_on_a_line_of_its_own) {
  const Outcome outcome = on_terminal(80, train("a", "--set optimizer.lr=1e30"));
  EXPECT_EQ(outcome.code, 7) << outcome.written;
  const auto errors = starting_with(outcome.seen, "error: stopped at step");
  EXPECT_EQ(errors.size(), 1U) << outcome.written;
}

TEST_F(Screens, levels_of_the_log_choose_what_is_said) {
  const Outcome quiet = in_a_file(train("a", "--set log.level=warning --set train.steps=3"));
  EXPECT_TRUE(starting_with(quiet.seen, "step").empty()) << quiet.written;
  const Outcome chatty = in_a_file(train("b", "--set log.level=debug --set train.steps=3"));
  EXPECT_NE(chatty.written.find("planned and compiled in"), std::string::npos) << chatty.written;
}

TEST_F(Screens, the_command_of_a_run_repeats_it_from_anywhere) {
  ASSERT_EQ(in_a_file(train("a", "--set 'run.name=it'\\''s mine' --set train.steps=3")).code, 0);
  const Outcome again =
      in_a_file(format("cd / && sh {}/command.txt --set run.dir={}", path("a"), path("b")));
  ASSERT_EQ(again.code, 0) << again.written;
  EXPECT_EQ(read_file(path("a") + "/model.safetensors"),
            read_file(path("b") + "/model.safetensors"));
  EXPECT_EQ(in_a_file(format("sh {}/command.txt", path("a"))).code, 11);
}

TEST_F(Screens, the_environment_of_a_run_is_kept) {
  ASSERT_EQ(in_a_file(train("a", "--set train.steps=2 --set parallel.data=2")).code, 0);
  const Json json = parse_json(read_file(path("a") + "/env.json"), "env.json");
  EXPECT_EQ(json.find("job")->find("ranks")->as_integer(), 2);
  EXPECT_EQ(json.find("job")->find("ranks_are")->as_string(), "threads");
  EXPECT_NE(json.find("libraries")->find("OpenBLAS"), nullptr);
  EXPECT_NE(json.find("build")->find("commit")->as_string(), "");
}

TEST_F(Screens, a_doctor_looks_at_everything_and_starts_nothing) {
  const std::string doctor = format("cd {} && {} doctor", path(""), FOURFOLD_BINARY);
  const Outcome outcome = in_a_file(doctor);
  ASSERT_EQ(outcome.code, 0) << outcome.written;
  for (const char* name : {"build", "libraries", "cpu", "cores", "memory", "locked", "open files",
                           "addresses", "huge pages", "openmp", "mpi", "slurm", "gpu", "disk"})
    EXPECT_NE(outcome.written.find(format("  {:<11} ", name)), std::string::npos)
        << name << "\n"
        << outcome.written;
  EXPECT_NE(outcome.written.find(" ok, "), std::string::npos);
  EXPECT_EQ(fs::exists(path("runs")), false);
}

TEST_F(Screens, openmp_that_is_to_bind_threads_takes_no_core_away) {
  const auto cores = [&](const std::string& environment) {
    const std::string written =
        in_a_file(format("env {} {} doctor", environment, FOURFOLD_BINARY)).written;
    const auto line = written.find("  cores ");
    return line == std::string::npos ? written
                                     : written.substr(line, written.find('\n', line) - line);
  };
  const std::string unbound = cores("OMP_PROC_BIND=false");
  EXPECT_NE(unbound.find(" may be used"), std::string::npos) << unbound;
  EXPECT_EQ(cores("OMP_PROC_BIND=true"), unbound);
  EXPECT_EQ(cores("OMP_PLACES=cores GOMP_SPINCOUNT=100"), unbound);
  // A list of cores holds, as what OpenMP may bind to.
  EXPECT_NE(cores("GOMP_CPU_AFFINITY=0").find(" 1 of "), std::string::npos);
}

TEST_F(Screens, a_doctor_warns_with_advice_and_ends_with_13_where_nothing_works) {
  const Outcome spinning = in_a_file(format("OMP_WAIT_POLICY=active {} doctor", FOURFOLD_BINARY));
  EXPECT_EQ(spinning.code, 0) << spinning.written;
  // Other variables of the machine may stand beside it.
  const auto line = spinning.written.find("warn  openmp ");
  ASSERT_NE(line, std::string::npos) << spinning.written;
  EXPECT_LT(spinning.written.find(" OMP_WAIT_POLICY=active", line),
            spinning.written.find('\n', line))
      << spinning.written;
  EXPECT_NE(spinning.written.find("-> threads that spin"), std::string::npos) << spinning.written;
#ifndef __SANITIZE_ADDRESS__  // whose own memory is more than any limit
  // CUDA's libraries alone are more than what is hopeless: the program does not even start.
  if (in_a_file(format("{} --version", FOURFOLD_BINARY)).written.find("\nCUDA ") !=
      std::string::npos)
    return;
  const Outcome cramped = in_a_file(format("ulimit -v 900000; {} doctor", FOURFOLD_BINARY));
  EXPECT_EQ(cramped.code, 13) << cramped.written;
  EXPECT_NE(cramped.written.find("bad   addresses"), std::string::npos) << cramped.written;
#endif
}

TEST_F(Screens, a_doctor_shows_the_ranks_of_a_job_in_one_table) {
  const Outcome outcome = in_a_file(
      format("mpirun -np 3 --oversubscribe --bind-to none --allow-run-as-root {} doctor --job",
             FOURFOLD_BINARY));
  ASSERT_EQ(outcome.code, 0) << outcome.written;
  const std::string& text = outcome.written;
  EXPECT_TRUE(test::Pattern("3 ranks on 1 host, 3 each; Open MPI v[0-9.]+, "
                            "which takes no memory of devices\n")
                  .is_in(text))
      << text;
  const test::Pattern row("\n +([0-9]+)  [^ ]+ +[0-9,-]+ +");
  std::string ranks;
  for (const test::Match& match : row.all_in(text)) ranks += match[1];
  EXPECT_EQ(ranks, "012") << "each once, by one rank\n" << text;
  EXPECT_NE(text.find("\nno GPU: "), std::string::npos) << text;
  EXPECT_NE(text.find("all ranks can work together"), std::string::npos) << text;
}

TEST_F(Screens, a_doctor_says_where_mpi_takes_memory_of_devices) {
  const Outcome outcome = in_a_file(
      format("mpirun -np 2 --oversubscribe --bind-to none --allow-run-as-root -x LD_PRELOAD={} {} "
             "doctor --job",
             FOURFOLD_CUDA_AWARE_MPI, FOURFOLD_BINARY));
  EXPECT_EQ(outcome.code, 0) << outcome.written;
  EXPECT_NE(outcome.written.find(", which takes memory of devices\n"), std::string::npos)
      << outcome.written;
}

TEST_F(Screens, a_doctor_of_a_job_needs_a_launcher) {
  const Outcome outcome = in_a_file(format("{} doctor --job", FOURFOLD_BINARY));
  EXPECT_EQ(outcome.code, 2) << outcome.written;
  EXPECT_NE(outcome.written.find("--job looks at the processes of a launcher, and none started"),
            std::string::npos)
      << outcome.written;
}

/// What bash offers for a command line that ends in its last word.
TEST_F(Screens, bash_completes_commands_options_keys_and_values) {
  const auto offered = [&](const std::string& words) {
    write_file_atomic(path("ask.bash"), format("source <({} completion bash)\n"
                                               "COMP_WORDS=(fourfold {})\n"
                                               "COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
                                               "_fourfold\n"
                                               "printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
                                               FOURFOLD_BINARY, words));
    return in_a_file("bash " + path("ask.bash")).written;
  };
  EXPECT_EQ(offered("trai"), "train\n");
  EXPECT_EQ(offered("doc"), "doctor\n");
  EXPECT_EQ(offered("doctor --j"), "--job\n");
  EXPECT_EQ(offered("bench coll"), "collectives\n");
  EXPECT_EQ(offered("bench collectives --gr"), "--grid\n");
  EXPECT_EQ(offered("bench collectives --kind all_r"), "all_reduce\n");
  EXPECT_EQ(offered("bench collectives --machine perlmutter-8"), "perlmutter-80gb\n");
  EXPECT_EQ(offered("config che"), "check\n");
  EXPECT_EQ(offered("machines perl"), "perlmutter-40gb\nperlmutter-80gb\n");
  EXPECT_EQ(offered("train x.yaml --overw"), "--overwrite\n");
  EXPECT_EQ(offered("train x.yaml --color al"), "always\n");
  EXPECT_EQ(offered("train x.yaml --set model.num_l"), "model.num_layers=\n");
  EXPECT_EQ(offered("train x.yaml --set log.lev"), "log.level=\n");
  EXPECT_EQ(offered("train x.yaml --override optimizer.l"), "optimizer.lr\n");
  EXPECT_EQ(offered("train x.yaml --override lr_s"),
            "lr_schedule\nlr_schedule.kind\nlr_schedule.warmup_steps\nlr_schedule.decay_steps\n"
            "lr_schedule.min_lr\n");
  EXPECT_EQ(offered("help ckp"), "ckpt\n");
  EXPECT_NE(offered("''").find("generate\n"), std::string::npos);
}

TEST_F(Screens, an_evaluation_says_how_far_it_is_and_leaves_nothing_of_that) {
  ASSERT_EQ(in_a_file(train("run")).code, 0);
  std::string ids;
  for (int i = 0; i < 60000; ++i) ids += format("{} ", i % 61);
  write_file_atomic(path("ids.txt"), ids);
  const std::string eval =
      format("{} eval {} --threads 1 --text {}", FOURFOLD_BINARY, path("run"), path("ids.txt"));
  const Outcome shown = on_terminal(80, eval);
  ASSERT_EQ(shown.code, 0) << shown.written;
  EXPECT_TRUE(test::Pattern(" %  [0-9,]+ of [0-9,]+ windows").is_in(shown.written))
      << shown.written;
  for (const std::string& line : shown.seen) EXPECT_EQ(line.find('%'), std::string::npos) << line;
  EXPECT_FALSE(starting_with(shown.seen, "perplexity").empty()) << shown.written;
  const Outcome json = on_terminal(80, eval + " --json");
  EXPECT_TRUE(json.written.starts_with("{\"loss\":")) << json.written.substr(0, 100);
}

}  // namespace
}  // namespace fourfold
