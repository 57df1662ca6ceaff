#include "train/live_status.h"

#include <gtest/gtest.h>

#include "unit/train/fake_screen.h"

namespace fourfold::train {
namespace {

Moment in_a_long_step() {
  return {.steps_done = 120,
          .steps = 2000,
          .evaluates = false,
          .average_step_s = 8,
          .in_step_s = 3,
          .in_run_s = 962};
}

TEST(LiveStatus, the_line_tells_the_step_under_way_and_the_end) {
  EXPECT_EQ(without_styles(status_text(in_a_long_step(), 120, false)),
            "step  121/2000 | [=                   ]   6% | 3.00 s of about 8.00 s | 16m02s gone | "
            "ETA 4h10m");
}

TEST(LiveStatus, short_steps_do_not_flicker) {
  Moment moment = in_a_long_step();
  moment.average_step_s = 0.05;
  moment.in_step_s = 0.03;
  EXPECT_EQ(without_styles(status_text(moment, 120, false)).find("of about"), std::string::npos);
}

TEST(LiveStatus, no_line_is_wider_than_the_terminal) {
  for (const int columns : {20, 40, 60, 80})
    for (const bool is_unicode : {false, true})
      EXPECT_LE(columns_of(status_text(in_a_long_step(), columns, is_unicode)),
                static_cast<std::size_t>(columns));
}

TEST(LiveStatus, an_evaluation_is_told) {
  Moment moment = in_a_long_step();
  moment.evaluates = true;
  EXPECT_TRUE(without_styles(status_text(moment, 120, false))
                  .starts_with("evaluating after step  120/2000 |"));
}

TEST(LiveStatus, a_long_step_redraws_the_line_until_it_is_stopped) {
  FakeScreen screen(80, true);
  {
    LiveStatus status(screen, 10);
    status.step_done(1, 30);
    while (screen.statuses().size() < 3) std::this_thread::yield();
  }
  const auto statuses = screen.statuses();
  EXPECT_TRUE(statuses[statuses.size() - 2].starts_with("step  2/10"))
      << statuses[statuses.size() - 2];
  EXPECT_EQ(statuses.back(), "");
}

TEST(LiveStatus, a_file_never_sees_it) {
  FakeScreen screen(0, false);
  {
    LiveStatus status(screen, 10);
    std::this_thread::sleep_for(std::chrono::milliseconds(450));
  }
  EXPECT_TRUE(screen.statuses().empty());
}

}  // namespace
}  // namespace fourfold::train
