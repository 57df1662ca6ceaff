// scripts/slurm/generic.sbatch with commands of Slurm that only pretend.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "support/command.h"
#include "support/launched_job.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;
using test::LaunchedJob;

const std::string script = FOURFOLD_SOURCE_DIR "/scripts/slurm/generic.sbatch";

/// A job with number 7, on three nodes n1 to n3, of which it has two.
class JobScript : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    fs::create_directories(path("bin"));
    write_file_atomic(path("x.yaml"), "");
    tool("squeue", "echo RUNNING");
    tool("scancel", format("echo \"$@\" >> {}", path("passed")));
    tool("sinfo", "printf 'n1\\nn2\\nn3\\nn1\\n'");
    described_ = format("JobId=7 UserId={}({}) BatchFlag=1 ExcNodeList=(null) NodeList=n[1-2]",
                        trim(run_command("id -un").text), trim(run_command("id -u").text));
    requeue_ = "";
  }

  /// A command of Slurm that does this.
  void tool(const std::string& name, const std::string& what) {
    write_file_atomic(path("bin/" + name), "#!/bin/sh\n" + what + "\n");
    fs::permissions(path("bin/" + name), fs::perms::owner_all);
  }
  /// scontrol, and srun whose ranks do this.
  void tools(const std::string& ranks) {
    tool(
        "srun",
        format("[ \"$1\" = --mpi=list ] && printf 'MPI plugin types are...\\n\\tpmix\\n\\tnone\\n' "
               "&& exit\necho start >> {}\n{}",
               path("starts"), ranks));
    tool("scontrol",
         format("case \"$*\" in 'show --oneliner job 7') echo '{}';; 'show hostnames '*) "
                "echo \"$3\" | sed 's/n\\[1-2\\]/n1,n2/' | tr , '\\n';;\n"
                "requeue*) echo \"$@\" >> {}\n{};;\n*) echo \"$@\" >> {};; esac",
                described_, path("asked"), requeue_, path("asked")));
  }
  std::vector<std::string> words(const std::string& variables, const std::string& more) const {
    return {
        "bash", "-c",
        format("cd {} && export PATH={}:$PATH SLURM_JOB_ID=7 SLURM_JOB_NODELIST='n[1-2]' "
               "SLURM_JOB_NUM_NODES=2 SLURM_RESTART_COUNT=2 FOURFOLD_PAUSE=0 FOURFOLD_REQUEUE=0 "
               "FOURFOLD={} {}; exec bash {} {}",
               path(""), path("bin"), FOURFOLD_BINARY, variables, script, more)};
  }
  CommandResult run_script(const std::string& variables = "", const std::string& more = "x.yaml") {
    fs::create_directories(path("job"));
    LaunchedJob job(words(variables, more), path("job"));
    const int code = job.wait(test::hang_s).value_or(-1);
    return {code, job.output()};
  }
  /// Ranks that do this.
  CommandResult run_ranks(const std::string& what, const std::string& variables = "") {
    tools(what);
    return run_script(variables);
  }
  /// What the ranks leave when they have come to this step.
  static std::string say(const std::string& state, int step, const std::string& more = "") {
    return format(R"(echo '{{"state":"{}","step":{},"steps":20{}}}' > $FOURFOLD_OUTCOME)", state,
                  step, more);
  }
  static std::string fail(int step, int code, const std::string& host = "") {
    return say("failed", step, format(R"(,"code":{},"host":"{}")", code, host));
  }
  /// A run that says nothing but how far it came, and ends with this code, in a job of this state.
  CommandResult run(int code, const std::string& state) {
    tool("squeue", "echo " + state);
    const std::string end = code == 0 ? "done" : code == 75 ? "stopped" : "running";
    return run_ranks(format("{}\nexit {}", say(end, 20), code));
  }
  std::string asked() const { return test::text_of(path("asked")); }
  std::string passed() const { return test::text_of(path("passed")); }
  std::size_t starts() const { return split(test::text_of(path("starts")), '\n').size() - 1; }
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path("")))
      if (entry.path().filename().string().starts_with(".fourfold"))
        names.push_back(entry.path().filename().string());
    return names;
  }
  void expect_said(const CommandResult& result, const std::string& words) const {
    EXPECT_NE(result.text.find(words), std::string::npos) << result.text;
  }

  std::string described_, requeue_;
};

TEST_F(JobScript, puts_a_run_that_was_asked_to_stop_back_into_the_queue) {
  const CommandResult result = run(75, "RUNNING");
  EXPECT_EQ(result.code, 75);
  EXPECT_EQ(asked(), "requeue 7\n");
  expect_said(result, "job 7, start 3: ");
  expect_said(result, "back in the queue");
  EXPECT_EQ(result.text.find("error"), std::string::npos) << result.text;
}

TEST_F(JobScript, puts_it_back_whatever_srun_says_once_the_run_has_said_that_it_stopped) {
  // A rank that leaves last is ended by srun, which tells of that.
  for (const int code : {0, 1, 137, 143}) {
    fs::remove(path("asked"));
    EXPECT_EQ(run_ranks(format("{}\nexit {}", say("stopped", 20 + code), code)).code, 75);
    EXPECT_EQ(asked(), "requeue 7\n");
  }
}

TEST_F(JobScript, puts_a_job_back_that_lost_a_rank_or_whose_disk_failed) {
  for (const int code : {6, 8, 9}) {
    fs::remove(path("asked"));
    const CommandResult result = run_ranks(format("{}\nexit 137", fail(20 + code, code)));
    EXPECT_EQ(result.code, code) << result.text;
    EXPECT_EQ(asked(), "requeue 7\n");
    fs::remove(path("asked"));
    EXPECT_EQ(run(code, "RUNNING").code, code);
    EXPECT_EQ(asked(), "requeue 7\n");
  }
  // All of them were killed, and none could say so.
  for (const int code : {1, 137, 143}) {
    fs::remove(path("asked"));
    EXPECT_EQ(run_ranks(format("{}\nexit {}", say("running", 30 + code), code)).code, 8);
    EXPECT_EQ(asked(), "requeue 7\n");
  }
}

TEST_F(JobScript, does_not_put_a_run_back_that_gave_a_reason_of_its_own) {
  for (const int code : {2, 3, 4, 5, 7, 10, 11, 12, 13, 70}) {
    fs::remove(path("starts"));
    EXPECT_EQ(run_ranks(format("exit {}", code)).code, code);
    EXPECT_EQ(starts(), 1U);
    // Others were killed by srun for it.
    const CommandResult result = run_ranks(format("{}\nexit 137", fail(3, code)));
    EXPECT_EQ(result.code, code) << result.text;
    expect_said(result, "says how each rank ended");
  }
  EXPECT_EQ(asked(), "");
  EXPECT_EQ(left(), std::vector<std::string>{});
}

TEST_F(JobScript, leaves_a_job_that_was_cancelled_or_has_ended_out_of_it) {
  EXPECT_EQ(run(75, "CANCELLED").code, 75);
  EXPECT_EQ(run(75, "COMPLETING").code, 75);
  EXPECT_EQ(run(8, "CANCELLED").code, 8);
  EXPECT_EQ(run(0, "RUNNING").code, 0);
  EXPECT_EQ(asked(), "");
  EXPECT_EQ(left(), std::vector<std::string>{});
}

TEST_F(JobScript, asks_again_where_the_controller_does_not_answer_or_refuses) {
  tool("squeue",
       format("echo x >> {0}; [ $(wc -l < {0}) -lt 4 ] && exit 1; echo RUNNING", path("asks")));
  requeue_ = format("echo x >> {0}; [ $(wc -l < {0}) -lt 3 ] && {{ echo busy; exit 1; }}; true",
                    path("tries"));
  const CommandResult result = run_ranks(say("stopped", 5) + "\nexit 75", "FOURFOLD_REQUEUE=600");
  EXPECT_EQ(result.code, 75);
  EXPECT_EQ(asked(), "requeue 7\nrequeue 7\nrequeue 7\n");
  expect_said(result,
              "it cannot be put back into the queue (squeue does not say how the job is); tried "
              "again for 600 s");
  expect_said(result, "back in the queue");
}

TEST_F(JobScript, says_what_to_type_where_a_requeue_is_refused_for_good) {
  requeue_ = "echo Requested operation is presently disabled; exit 1";
  const CommandResult result = run_ranks(say("stopped", 5) + "\nexit 75");
  EXPECT_EQ(result.code, 75);
  expect_said(result,
              "error: saved, but not put back into the queue for 0 s (Requested operation is "
              "presently disabled); to go on: scontrol requeue 7; where that is refused again, "
              "submit the job again\n");
  EXPECT_EQ(left().size(), 2U);  // for the start that this command brings
}

TEST_F(JobScript, starts_ranks_again_that_srun_could_not_start) {
  for (const char* code : {"0", "137"}) {
    fs::remove(path("starts"));
    const CommandResult result = run_ranks(
        format("[ $(wc -l < {}) -lt 3 ] && exit {}\n{}", path("starts"), code, say("done", 20)));
    EXPECT_EQ(result.code, 0) << result.text;
    EXPECT_EQ(starts(), 3U) << result.text;
    expect_said(result, format("srun ended with {}, but the run is not over: no rank began", code));
    EXPECT_EQ(left(), std::vector<std::string>{});
  }
}

TEST_F(JobScript, ends_with_13_after_three_starts_in_which_no_training_began) {
  for (const std::string& ranks :
       {std::string("exit 0"), std::string("exit 1"), say("starting", 0) + "\nexit 137"}) {
    fs::remove(path("starts"));
    const CommandResult result = run_ranks(ranks);
    EXPECT_EQ(result.code, 13) << result.text;
    EXPECT_EQ(starts(), 3U) << result.text;
    expect_said(result, "error: 3 starts without a new step");
  }
  EXPECT_EQ(asked(), "");
  EXPECT_EQ(left(), std::vector<std::string>{});
}

TEST_F(JobScript, ends_with_14_after_three_deaths_at_one_step) {
  const std::string ranks = fail(12, 8) + "\nexit 137";
  for (const int code : {8, 8, 8, 14}) EXPECT_EQ(run_ranks(ranks).code, code);
  EXPECT_EQ(asked(), "requeue 7\nrequeue 7\nrequeue 7\n");
  EXPECT_EQ(left(), std::vector<std::string>{});
}

TEST_F(JobScript, counts_starts_without_a_new_step_across_the_queue) {
  for (const int step : {5, 9, 9, 9, 10, 10, 10}) {
    EXPECT_EQ(run_ranks(say("stopped", step) + "\nexit 75").code, 75) << step;
  }
  EXPECT_EQ(run_ranks(say("stopped", 10) + "\nexit 75").code, 14);
  EXPECT_EQ(split(asked(), '\n').size() - 1, 7U) << asked();
}

TEST_F(JobScript, starts_no_ranks_in_a_job_that_is_over) {
  tool("squeue", "echo CANCELLED");
  EXPECT_EQ(run_ranks("exit 137").code, 137);
  tool("squeue", "echo COMPLETING");
  EXPECT_EQ(run_ranks("exit 0").code, 0);
  EXPECT_EQ(starts(), 2U);
}

TEST_F(JobScript, leaves_out_the_node_of_a_rank_that_was_lost_unless_too_few_would_be_left) {
  const CommandResult lost = run_ranks(fail(12, 8, "n2.cluster") + "\nexit 137");
  EXPECT_EQ(lost.code, 8);
  EXPECT_EQ(asked(), "requeue 7\nupdate jobid=7 excnodelist=n2\n") << lost.text;
  expect_said(lost, "left out from now on: n2");
  fs::remove(path("asked"));
  described_.replace(described_.find("(null)"), 6, "n2");
  const CommandResult late = run_ranks(fail(13, 9, "n1") + "\nexit 9");
  EXPECT_EQ(asked(), "requeue 7\n") << late.text;
  expect_said(late, "node n1 keeps its place: without it 1 nodes would be left for 2");
  // Neither a host that is no node of the job, nor one of a run that was at fault itself.
  run_ranks(fail(14, 9, "elsewhere") + "\nexit 9");
  run_ranks(fail(15, 6, "n2") + "\nexit 6");
  EXPECT_EQ(asked(), "requeue 7\nrequeue 7\nrequeue 7\n");
}

/// A job whose shell gets a signal.
class JobScriptSignals : public JobScript {
 protected:
  /// Sends a signal to the shell once the file is there; how the script ends.
  CommandResult signal_script(const std::string& ranks, const std::string& begun, int signal) {
    tools(ranks);
    fs::create_directories(path("job"));
    LaunchedJob job(words("FOURFOLD_PAUSE=900", "x.yaml"), path("job"));
    EXPECT_TRUE(test::wait_until(test::hang_s, [&] { return file_exists(path(begun)); }))
        << job.output();
    kill(job.pid(), signal);
    const int code = job.wait(test::hang_s).value_or(-1);
    return {code, job.output()};
  }
};

TEST_F(JobScriptSignals, go_to_the_ranks_and_never_to_srun) {
  int step = 0;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
    fs::remove(path("passed"));
    fs::remove(path("begun"));
    const CommandResult result = signal_script(
        format("for s in TERM INT USR1 USR2; do trap \"echo $s >> {}\" $s; done\n{}\ntouch {}\n"
               "until [ -e {} ]; do sleep 0.05; done\n{}\nexit 75",
               path("srun-got"), say("running", 0), path("begun"), path("passed"),
               say("stopped", ++step)),
        "begun", signal);
    EXPECT_EQ(result.code, 75) << result.text;
    EXPECT_EQ(passed(), "--signal=USR1 7\n") << result.text;
    EXPECT_FALSE(file_exists(path("srun-got"))) << test::text_of(path("srun-got"));
  }
}

TEST_F(JobScriptSignals, that_the_ranks_have_heard_themselves_are_not_sent_twice) {
  const CommandResult result =
      signal_script(format("{}\ntouch $FOURFOLD_OUTCOME.heard\ntouch {}\nsleep 3\n{}\nexit 75",
                           say("running", 0), path("begun"), say("stopped", 9)),
                    "begun", SIGTERM);
  EXPECT_EQ(result.code, 75) << result.text;
  EXPECT_EQ(passed(), "") << result.text;
}

TEST_F(JobScriptSignals, between_two_starts_put_the_job_back_without_another_start) {
  const CommandResult result =
      signal_script(format("(sleep 0.3; touch {}) > /dev/null 2>&1 &\nexit 137", path("begun")),
                    "begun", SIGUSR1);
  EXPECT_EQ(result.code, 75) << result.text;
  EXPECT_EQ(starts(), 1U);
  EXPECT_EQ(asked(), "requeue 7\n");
}

TEST_F(JobScript, refuses_what_cannot_work_in_one_line_before_any_rank_starts) {
  const std::string folder = path("");
  struct Case {
    std::string variables, more;
    int code;
    std::string words;
  };
  const std::vector<Case> cases = {
      {"", "", 2, "usage: sbatch [options] generic.sbatch CONFIG"},
      {"", "y.yaml", 2, "there is no configuration y.yaml that can be read in "},
      {"", "bin", 2, "there is no configuration bin that can be read in "},
      {"; unset SLURM_JOB_ID", "x.yaml", 2,
       "start it with sbatch; without Slurm: mpirun -np RANKS"},
      {"SLURM_JOB_ID=", "x.yaml", 2, "start it with sbatch"},
      {"SLURM_JOB_ID=seven", "x.yaml", 2, "SLURM_JOB_ID is 'seven', no job's number"},
      {"SLURM_JOB_ID=7.0", "x.yaml", 2, "SLURM_JOB_ID is '7.0', no job's number"},
      {"FOURFOLD=nowhere/fourfold", "x.yaml", 2, "there is no program nowhere/fourfold in "},
      {"FOURFOLD=bin", "x.yaml", 2, "there is no program bin in "},
      {"FOURFOLD=x.yaml", "x.yaml", 2, "there is no program x.yaml in "},
      {"FOURFOLD_PAUSE=soon", "x.yaml", 2, "FOURFOLD_PAUSE is 'soon', expected whole seconds"},
      {"FOURFOLD_PAUSE=1.5", "x.yaml", 2, "FOURFOLD_PAUSE is '1.5', expected whole seconds"},
      {"FOURFOLD_PAUSE=-1", "x.yaml", 2, "FOURFOLD_PAUSE is '-1', expected whole seconds"},
      {"FOURFOLD_REQUEUE=1h", "x.yaml", 2, "FOURFOLD_REQUEUE is '1h', expected whole seconds"},
      {"FOURFOLD_MPI=pmi2", "x.yaml", 2,
       "FOURFOLD_MPI is 'pmi2', and srun --mpi=list has: pmix none; set it to one"},
      {"FOURFOLD_MPI=pmi", "x.yaml", 2,
       "FOURFOLD_MPI is 'pmi', and srun --mpi=list has: pmix none; set it to one"}};
  tools("exit 0");
  for (const Case& one : cases) {
    const CommandResult result = run_script(one.variables, one.more);
    EXPECT_EQ(result.code, one.code) << result.text;
    expect_said(result, "generic.sbatch: " + one.words);
    EXPECT_EQ(split(trim(result.text), '\n').size(), 1U) << result.text;
  }
  for (const std::string name : {"srun", "scancel", "scontrol", "squeue"}) {
    // Where this machine has a Slurm, its commands would be found further back.
    const CommandResult result =
        run_script(format("; mkdir -p few; for t in {0}/bin/* $(command -v bash env id sed grep "
                          "sort head tr date cat "
                          "sleep wc); do ln -sf $t few/; done; rm few/{1}; PATH={0}/few",
                          folder, name));
    EXPECT_EQ(result.code, 13) << result.text;
    expect_said(result,
                format("generic.sbatch: {} is not found on this node; add the folder", name));
    EXPECT_EQ(split(trim(result.text), '\n').size(), 1U) << result.text;
  }
  EXPECT_EQ(starts(), 0U);
}

TEST_F(JobScript, refuses_variables_of_a_job_that_is_not_its_own) {
  const std::string own = described_;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"slurm_load_jobs error: Invalid job id specified", "Slurm has no such job"},
      {"JobId=7 UserId=somebody(4711) BatchFlag=1 ", "job 7 is another user"},
      {"JobId=7 UserId=root(0) BatchFlag=0 ", "was started by salloc or srun"}};
  for (const auto& [description, words] : cases) {
    described_ = description;
    const CommandResult result = run_ranks("exit 0");
    EXPECT_EQ(result.code, 2) << result.text;
    expect_said(result, words);
    EXPECT_EQ(split(trim(result.text), '\n').size(), 1U) << result.text;
  }
  EXPECT_EQ(starts(), 0U);
}

TEST_F(JobScript, takes_notes_that_are_none_for_no_notes) {
  for (const char* notes : {"", "x", "3 abc", "99999999999999999999 1", "2 7 $(touch broken)"}) {
    write_file_atomic(path(".fourfold-7.starts"), std::string(notes) + "\n");
    EXPECT_EQ(run_ranks(say("stopped", 9) + "\nexit 75").code, 75) << notes;
  }
  for (const char* outcome : {"", "{", R"({"state":"done"})", R"({"state":"x y","step":-1,)"}) {
    const CommandResult result =
        run_ranks(format("echo '{}' > $FOURFOLD_OUTCOME\nexit 2", outcome));
    EXPECT_EQ(result.code, 2) << result.text;
  }
  EXPECT_FALSE(file_exists(path("broken")));
}

TEST_F(JobScript, refuses_a_folder_in_which_it_cannot_keep_notes) {
  fs::create_directories(path(".fourfold-7.starts"));
  const CommandResult result = run_ranks("exit 0");
  EXPECT_EQ(result.code, 6) << result.text;
  expect_said(result, "cannot be written, where the job keeps its notes");
  EXPECT_EQ(starts(), 0U);
}

}  // namespace
}  // namespace fourfold
