#include "run/stream_worker.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

namespace fourfold::run {
namespace {

TEST(StreamWorker, items_are_executed_in_the_order_pushed_also_around_the_ring) {
  std::vector<std::uint32_t> seen;
  StreamWorker worker("test", 10, [&](std::uint32_t item) { seen.push_back(item); });
  std::vector<std::uint32_t> wanted(1000);
  std::iota(wanted.begin(), wanted.end(), 0U);
  for (std::uint32_t item = 0; item < 1000; ++item) {
    worker.push(item);
    if (item % 10 == 9) worker.drain();
  }
  EXPECT_EQ(seen, wanted);
}

TEST(StreamWorker, drain_returns_at_once_when_nothing_was_pushed) {
  StreamWorker worker("test", 1, [](std::uint32_t) {});
  worker.drain();
}

TEST(StreamWorker, everything_queued_is_done_before_the_thread_ends) {
  int done = 0;
  {
    StreamWorker worker("test", 100, [&](std::uint32_t) { ++done; });
    for (std::uint32_t item = 0; item < 100; ++item) worker.push(item);
  }
  EXPECT_EQ(done, 100);
}

TEST(StreamWorker, all_items_and_jobs_run_on_one_other_thread) {
  std::thread::id item_thread, job_thread;
  StreamWorker worker("test", 1, [&](std::uint32_t) { item_thread = std::this_thread::get_id(); });
  worker.call([&] { job_thread = std::this_thread::get_id(); });
  worker.push(0);
  worker.drain();
  EXPECT_EQ(item_thread, job_thread);
  EXPECT_NE(item_thread, std::this_thread::get_id());
}

TEST(StreamWorker, what_a_job_throws_reaches_the_caller_and_the_thread_lives_on) {
  int done = 0;
  StreamWorker worker("test", 1, [&](std::uint32_t) { ++done; });
  EXPECT_THROW(worker.call([] { throw std::runtime_error("no such kernel"); }), std::runtime_error);
  worker.push(0);
  worker.drain();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace fourfold::run
