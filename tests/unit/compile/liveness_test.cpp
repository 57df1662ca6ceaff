#include "compile/liveness.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compile/departures.h"
#include "unit/compile/one_rank.h"

namespace fourfold::compile {
namespace {

TEST(Liveness, what_is_sent_stays_until_the_next_two_tasks_have_computed_or_it_is_made_again) {
  const program::Program train = middle_stage(true);
  const auto lives = live_intervals(train);
  std::size_t sent = 0;
  for (std::size_t t = 0; t < train.tasks.size(); ++t) {
    std::size_t end = train.tasks[t].end, tasks = 0;
    for (std::size_t next = t + 1; next < train.tasks.size() && tasks < tasks_to_send; ++next) {
      end = train.tasks[next].end;
      tasks += train.tasks[next].kind == program::TaskKind::receive ? 0 : 1;
    }
    for (std::size_t i = train.tasks[t].begin; i < train.tasks[t].end; ++i) {
      const auto* send = std::get_if<program::Send>(&train.instructions[i].what);
      if (send == nullptr || train.buffer(send->from.buffer).region == program::Region::persistent)
        continue;
      const auto& list = lives[send->from.buffer.index()];
      const auto life = std::ranges::find_if(
          list, [&](const Interval& its) { return its.begin <= i && i <= its.end; });
      ASSERT_NE(life, list.end()) << train.buffer(send->from.buffer).name;
      const auto next = std::next(life);
      EXPECT_GE(life->end, next == list.end() ? end - 1 : std::min(end - 1, next->begin - 1))
          << train.buffer(send->from.buffer).name << " of task " << t;
      ++sent;
    }
  }
  EXPECT_GT(sent, 8U);
}

}  // namespace
}  // namespace fourfold::compile
