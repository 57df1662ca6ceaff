// Each case is a process of its own, for signals may end it.
#include "comm/stop_request.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "support/child_process.h"

namespace fourfold::comm {
namespace {

using Meaning = StopRequest::Meaning;
constexpr auto beyond_one_request = std::chrono::milliseconds(1200);

void pause_for(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

/// However busy the machine is, it comes.
bool comes(const std::function<bool()>& is_there) {
  for (int i = 0; i < 60'000 && !is_there(); ++i) pause_for(std::chrono::milliseconds(1));
  return is_there();
}

void send(int signal) {
  kill(getpid(), signal);
}

TEST(StopRequest, each_of_four_signals_sets_the_flag_and_ends_nothing) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2})
    EXPECT_EQ(test::code_of_child([&] {
                StopRequest stop({.answer = "", .end_unsaved = {}});
                stop.begin_saving();
                if (stop.flag()) return 1;
                send(signal);
                return comes([&] { return stop.flag().load(); }) ? 0 : 2;
              }),
              0)
        << signal;
}

TEST(StopRequest, signals_within_a_second_are_one_request) {
  EXPECT_EQ(test::code_of_child([] {
              std::atomic<int> requests = 0;
              StopRequest stop({.answer = "", .end_unsaved = {}, .heard = [&] { ++requests; }});
              stop.begin_saving();
              // A machine that stops this process for long may make two of them, in a later round.
              for (int i = 0; i < 5; ++i) send(i % 2 == 0 ? SIGTERM : SIGUSR1);
              if (!comes([&] { return requests == 1; })) return 1;
              return stop.flag() ? 0 : 2;
            }),
            0);
}

TEST(StopRequest, a_signal_that_comes_later_ends_the_process_by_its_own_name) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2})
    EXPECT_EQ(test::code_of_child([&] {
                StopRequest stop({.answer = "", .end_unsaved = {}});
                stop.begin_saving();
                send(SIGUSR1);
                if (!comes([&] { return stop.flag().load(); })) return 1;
                pause_for(beyond_one_request);
                send(signal);
                comes([] { return false; });
                return 2;
              }),
              128 + signal);
}

TEST(StopRequest, before_there_is_anything_to_save_the_process_ends_as_it_was_told_to) {
  EXPECT_EQ(test::code_of_child([] {
              StopRequest stop({.answer = "", .end_unsaved = [] { _exit(75); }});
              send(SIGUSR2);
              comes([] { return false; });
              return 2;
            }),
            75);
}

TEST(StopRequest, a_signal_that_was_held_back_is_heard_when_somebody_listens) {
  EXPECT_EQ(test::code_of_child([] {
              hold_stop_signals();
              send(SIGTERM);
              pause_for(std::chrono::milliseconds(20));
              StopRequest stop({.answer = "", .end_unsaved = [] { _exit(75); }});
              comes([] { return false; });
              return 2;
            }),
            75);
}

TEST(StopRequest, a_signal_that_was_held_back_ends_a_process_in_which_nobody_will_listen) {
  EXPECT_EQ(test::code_of_child([] {
              hold_stop_signals();
              send(SIGUSR1);
              release_stop_signals();
              return 2;
            }),
            128 + SIGUSR1);
}

TEST(StopRequest, signals_to_a_run_that_leaves_do_nothing) {
  EXPECT_EQ(test::code_of_child([] {
              StopRequest stop({.answer = "", .end_unsaved = [] { _exit(75); }});
              stop.begin_saving();
              stop.leave();
              send(SIGTERM);
              pause_for(beyond_one_request);
              send(SIGTERM);
              pause_for(std::chrono::milliseconds(100));
              return stop.flag() ? 1 : 0;
            }),
            0);
}

TEST(StopRequest, signals_after_a_run_has_left_do_not_end_its_process_by_their_names) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2})
    EXPECT_EQ(test::code_of_child([&] {
                {
                  StopRequest stop({.answer = "", .end_unsaved = {}});
                  stop.begin_saving();
                  stop.leave();
                }
                send(signal);
                return 7;
              }),
              7)
        << signal;
}

TEST(StopRequest, who_takes_a_signal_elsewhere_is_told_what_it_means) {
  EXPECT_EQ(
      test::code_of_child([] {
        if (StopRequest::take() != Meaning::again) return 1;  // nobody listens
        std::atomic<bool> is_heard = false;
        StopRequest stop({.answer = "", .end_unsaved = {}, .heard = [&] { is_heard = true; }});
        stop.begin_saving();
        if (StopRequest::take() != Meaning::first) return 2;
        if (!comes([&] { return is_heard.load(); })) return 3;
        pause_for(beyond_one_request);
        if (StopRequest::take() != Meaning::again) return 4;
        stop.leave();
        return StopRequest::take() == Meaning::nothing ? 0 : 5;
      }),
      0);
}

}  // namespace
}  // namespace fourfold::comm
