// The threads that give a device its work: their order, and what a fault does.
#include "run/cuda/issuing_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/error.h"

namespace fourfold::run::cuda {
namespace {

const std::vector<WorkerPlan> two_streams = {{"math", 4}, {"comm", 4}};

TEST(IssuingThreads, hold_a_stream_at_a_wait_until_another_has_issued_the_record) {
  std::vector<std::string> order;  // the wait publishes what was done before the record
  IssuingThreads* threads = nullptr;
  std::atomic<int> entered{0};
  IssuingThreads issuing(two_streams, 1,
                         {.enter = [&] { ++entered; },
                          .issue =
                              [&](std::size_t thread, std::size_t instruction) {
                                if (thread == 1) threads->wait_until_recorded(0);
                                order.push_back(std::to_string(instruction));
                                if (thread == 0) threads->recorded(0);
                              },
                          .failed = [](const IssuingThreads::Fault&) {}});
  threads = &issuing;
  EXPECT_EQ(entered, 2);
  for (int run = 0; run < 20; ++run) {
    order.clear();
    issuing.begin_run();
    issuing.push(1, 7);  // pushed first, and issued last
    issuing.push(0, 3);
    EXPECT_FALSE(issuing.drain());
    EXPECT_EQ(order, (std::vector<std::string>{"3", "7"})) << run;
  }
}

TEST(IssuingThreads, after_a_fault_all_are_let_go_and_the_next_run_is_sound) {
  std::atomic<int> issued{0}, told{0};
  std::atomic<bool> breaks{true};
  IssuingThreads* threads = nullptr;
  IssuingThreads issuing(two_streams, 1,
                         {.enter = [] {},
                          .issue =
                              [&](std::size_t thread, std::size_t) {
                                if (thread == 1) return threads->wait_until_recorded(0);
                                if (breaks) throw UserError(ExitCode::bad_data, "broken");
                                ++issued;
                                threads->recorded(0);
                              },
                          .failed = [&](const IssuingThreads::Fault&) { ++told; }});
  threads = &issuing;
  issuing.begin_run();
  issuing.push(1, 5);
  issuing.push(0, 2);
  issuing.push(0, 3);
  const auto fault = issuing.drain();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->instruction, 2U);
  EXPECT_THROW(std::rethrow_exception(fault->exception), UserError);
  EXPECT_EQ(issued, 0) << "what follows a fault is skipped";
  EXPECT_EQ(told, 1);
  breaks = false;
  issuing.begin_run();
  issuing.push(1, 5);
  issuing.push(0, 2);
  EXPECT_FALSE(issuing.drain());
  EXPECT_EQ(issued, 1);
}

TEST(IssuingThreads, that_are_destroyed_in_mid_run_wait_for_no_record) {
  IssuingThreads* threads = nullptr;
  IssuingThreads issuing(
      two_streams, 1,
      {.enter = [] {},
       .issue = [&](std::size_t, std::size_t) { threads->wait_until_recorded(0); },
       .failed = [](const IssuingThreads::Fault&) {}});
  threads = &issuing;
  issuing.begin_run();
  issuing.push(0, 1);
}

}  // namespace
}  // namespace fourfold::run::cuda
