#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "comm/monitor.h"
#include "comm/status.h"

namespace fourfold::comm {
namespace {

using namespace std::chrono_literals;

/// Collects what a monitor says.
class Lines {
 public:
  MonitorOptions options(double watchdog_s) {
    return {watchdog_s, {}, [this](std::string_view line) { add(line); }, {}, {}};
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  void add(std::string_view line) {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  }
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// One worker that is in a program and does instruction 4 for ever.
void pretend(World& world, const std::string& text, bool waits) {
  Progress& progress = world.progress();
  progress.set_workers({"data"}, [=](Place) { return Progress::Description{text, waits}; });
  progress.set_step(3);
  progress.begin_program();
  progress.begin(0, {0, 4});
}

TEST(ThreadMonitor, a_job_that_hangs_is_ended_and_the_late_rank_is_named) {
  ThreadJob job(3);
  Lines lines;
  const auto begin = std::chrono::steady_clock::now();
  try {
    const ThreadMonitor monitor(job, lines.options(0.4));
    job.run([&](World& world) {
      if (world.rank() == Rank(1)) {
        // Comes back when the job has been ended.
        pretend(world, "instruction 4 (feed -> tokens) of train", false);
        while (!job.fault()) std::this_thread::sleep_for(5ms);
      } else {
        pretend(world, "instruction 4 (all_reduce -> &a) of train", true);
        world.barrier();
      }
    });
    FAIL() << "the job went on";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::no_progress);
    EXPECT_NE(
        std::string(error.what())
            .find("rank 1 is late: after step 3, data: instruction 4 (feed -> tokens) of train"),
        std::string::npos)
        << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  ASSERT_EQ(lines.all().size(), 3U);
  EXPECT_EQ(lines.all()[2],
            "rank 2: after step 3, data: instruction 4 (all_reduce -> &a) of train");
}

TEST(ThreadMonitor, a_rank_that_never_comes_back_ends_the_process_with_code_9) {
  const std::string folder = testing::TempDir() + "thread_monitor_statuses";
  std::filesystem::remove_all(folder);
  const auto hang = [&] {
    ThreadJob job(2);
    const ThreadMonitor monitor(job, {0.2, folder, {}, {}, {}});
    job.run([&](World& world) {
      pretend(world, "instruction 4 (feed -> tokens) of train", world.rank() == Rank(0));
      if (world.rank() == Rank(1)) std::this_thread::sleep_for(1h);
      world.barrier();
    });
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(9), "error: no rank has made progress");
  const std::string status = read_file(status_path(folder, Rank(1)));
  EXPECT_NE(status.find("\"code\":9"), std::string::npos) << status;
}

TEST(ThreadMonitor, a_job_that_gets_on_slowly_is_left_alone) {
  ThreadJob job(2);
  Lines lines;
  const ThreadMonitor monitor(job, lines.options(0.5));
  job.run([&](World& world) {
    pretend(world, "works", false);
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(120ms);
      if (world.rank() == Rank(0)) world.progress().begin(0, {0, 5});
    }
  });
  EXPECT_TRUE(lines.all().empty());
}

TEST(Status, is_written_for_each_rank) {
  const std::string folder = testing::TempDir() + "statuses";
  ThreadJob job(2);
  ThreadMonitor(job, {0, folder, {}, {}, {}})
      .write_statuses(ExitCode::numeric_stop, "NaN \"here\"");
  const std::string status = read_file(status_path(folder, Rank(1)));
  EXPECT_EQ(status.substr(0, 18), "{\"rank\":1,\"host\":\"");
  EXPECT_NE(status.find("\"code\":7,\"message\":\"NaN \\\"here\\\"\",\"time\":\""),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace fourfold::comm
