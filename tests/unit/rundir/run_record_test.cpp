#include "rundir/run_record.h"

#include <gtest/gtest.h>

#include "base/host_facts.h"

namespace fourfold::rundir {
namespace {

TEST(ShellQuoted, only_words_that_need_it_are_quoted) {
  EXPECT_EQ(shell_quoted("configs/gpt.yaml"), "configs/gpt.yaml");
  EXPECT_EQ(shell_quoted("run.dir=a b"), "'run.dir=a b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_quoted("~"), "'~'");
}

TEST(CommandText, it_goes_to_the_folder_and_takes_more_options) {
  const std::vector<std::string> command = {"build/fourfold", "train", "--set", "a={x: 2}"};
  const std::string text = command_text(command, "/some where", 1);
  EXPECT_TRUE(text.ends_with("cd '/some where' &&\nbuild/fourfold train --set 'a={x: 2}' \"$@\"\n"))
      << text;
  EXPECT_EQ(text.find("mpirun"), std::string::npos);
  EXPECT_NE(command_text(command, "/", 4).find("mpirun -np 4 sh command.txt"), std::string::npos);
}

TEST(EnvironmentJson, it_reads_back_with_everything_that_tells) {
  JobFacts job;
  job.ranks = 4;
  job.measured_peak = Json::object().set("flops_per_s", 1e11);
  const comm::Variable variable = [](const std::string& name) -> std::optional<std::string> {
    if (name == "OMP_NUM_THREADS") return "3";
    return std::nullopt;
  };
  const BuildRecord build{Json::object().set("commit", "5e234c5"),
                          Json::object().set("fmt", "9.1.0")};
  const Json json = parse_json(environment_json(job, build, variable).dump(), "env.json");
  for (const char* key : {"start", "directory", "build", "libraries", "host", "job", "variables"})
    EXPECT_NE(json.find(key), nullptr) << key;
  EXPECT_EQ(json.find("start")->as_string().size(), std::string("2026-01-01T00:00:00Z").size());
  EXPECT_EQ(json.find("libraries")->find("fmt")->as_string(), "9.1.0");
  EXPECT_EQ(json.find("variables")->find("OMP_NUM_THREADS")->as_string(), "3");
  EXPECT_EQ(json.find("variables")->members().size(), 1U);
  EXPECT_EQ(json.find("job")->find("ranks")->as_integer(), 4);
  EXPECT_EQ(json.find("job")->find("measured_peak")->find("flops_per_s")->as_double(), 1e11);
  EXPECT_EQ(json.find("build")->find("commit")->as_string(), "5e234c5");
  EXPECT_GT(json.find("host")->find("memory_bytes")->as_integer(), 0);
}

}  // namespace
}  // namespace fourfold::rundir
