// What a run decides about its folder before it writes there, and what stays of metrics where it
// goes back.
#include "rundir/start.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "rundir/metrics_lines.h"
#include "rundir/run_files.h"

namespace fourfold::rundir {
namespace {

class Start : public testing::Test {
 protected:
  Start() : dir_(testing::TempDir() + format("fourfold_start-{}", getpid())) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  ~Start() override { std::filesystem::remove_all(dir_); }

  void put(const char* name, const std::string& text = "text\n") {
    write_file_atomic(join_path(dir_, name), text);
  }
  RunStart plan(const std::string& how = "auto", bool overwrites = false) {
    return plan_start({.dir = dir_,
                       .how = how,
                       .overwrites = overwrites,
                       .is_dry = false,
                       .holder = {},
                       .weights_bytes = weights_bytes_,
                       .checkpoint_bytes = 0,
                       .checkpoints_kept = 0,
                       .check_point = [](const ResumePoint&, bool) {},
                       .check_older = {},
                       .check_beginning = [this] { ++begun_; }});
  }
  ExitCode refusal(const std::string& how = "auto") {
    try {
      plan(how);
    } catch (const UserError& error) {
      return error.code();
    }
    return ExitCode::done;
  }

  std::string dir_;
  std::int64_t weights_bytes_ = 0;
  int begun_ = 0;
};

TEST_F(Start, an_empty_folder_takes_a_run_that_begins) {
  const RunStart start = plan();
  EXPECT_FALSE(start.point);
  EXPECT_FALSE(start.begins_anew);
  EXPECT_FALSE(start.overwrites);
  EXPECT_EQ(begun_, 1);
}

TEST_F(Start, a_run_that_saved_nothing_makes_way) {
  put(RunFiles::config);
  EXPECT_TRUE(plan().begins_anew);
  EXPECT_EQ(refusal("never"), ExitCode::output_in_use);
  put("notes.txt");  // somebody works there
  EXPECT_EQ(refusal(), ExitCode::output_in_use);
}

TEST_F(Start, weights_are_replaced_only_where_that_was_asked_for) {
  put("model.safetensors");
  EXPECT_EQ(refusal(), ExitCode::output_in_use);
  EXPECT_TRUE(plan("auto", true).overwrites);
}

TEST_F(Start, what_a_killed_job_left_is_no_stranger) {
  put(RunFiles::config);
  put("metrics.jsonl.tmp-42");
  EXPECT_TRUE(is_leftover("metrics.jsonl.tmp-42"));
  EXPECT_FALSE(is_leftover("metrics.jsonl.tmp-mine"));
  EXPECT_FALSE(is_leftover("notes.tmp-42"));
  EXPECT_TRUE(plan().begins_anew);
}

TEST_F(Start, a_disk_without_room_and_a_folder_in_the_place_of_a_file_are_refused) {
  weights_bytes_ = std::int64_t{1} << 60;
  EXPECT_EQ(refusal(), ExitCode::storage);
  weights_bytes_ = 0;
  put(RunFiles::checkpoints);
  EXPECT_EQ(refusal(), ExitCode::storage);
}

TEST_F(Start, metrics_are_cut_after_a_step_and_a_torn_line_goes) {
  const std::string path = join_path(dir_, RunFiles::metrics);
  EXPECT_EQ(metrics_after(path, 1), "");
  put(RunFiles::metrics, "{\"step\":1}\n{\"note\":2}\n{\"step\":2}\n{\"st");
  EXPECT_EQ(metrics_after(path, 1), "{\"step\":2}\n");
  cut_metrics(path, 1);
  EXPECT_EQ(read_file(path), "{\"step\":1}\n{\"note\":2}\n");
}

}  // namespace
}  // namespace fourfold::rundir
