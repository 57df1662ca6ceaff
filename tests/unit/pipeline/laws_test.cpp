// What Zhuang et al. 2023 (arXiv:2211.05322) say of pipelines, and the closed forms that follow
// from their definitions, against the evaluator.
#include <algorithm>
#include <string>

#include "unit/pipeline/pipelines.h"

namespace fourfold::pipeline {
namespace {

constexpr ScheduleSpec plain_1f1b = {};
const ScheduleSpec eager = {.schedule = Schedule::eager_one_f_one_b};

double period(const ScheduleSpec& spec, std::size_t stages, std::int64_t micros,
              const Costs& costs) {
  const std::vector<Order> orders = made(spec, stages, micros);
  return steady_period_s(orders, timed(orders, costs));
}
double makespan(const ScheduleSpec& spec, std::size_t stages, std::int64_t micros,
                const Costs& costs) {
  return timed(made(spec, stages, micros), costs).makespan_s;
}

/// How long a micro-batch takes in the middle of a long step, of uniform stages with overlapped
/// transfers. A circle of tasks that wait for each other goes forward over q edges, back over them,
/// and through what is ahead: q `further` micro-batches and the one itself.
double law(std::size_t stages, const Uniform& each, double further, bool splits) {
  const double f = each.forward, b = each.backward + each.weight_backward;
  double longest = std::max(each.to_next, each.to_previous);
  for (std::size_t edges = 0; edges < stages; ++edges) {
    const auto q = static_cast<double>(edges);
    const double circle = (q + 1) * (f + b) + q * (each.to_next + each.to_previous) -
                          (splits ? q * each.weight_backward : 0);
    longest = std::max(longest, circle / (q * further + 1));
  }
  return longest;
}

TEST(PeriodLaw, holds_for_1f1b_and_eager_1f1b_split_and_whole) {
  for (const std::size_t stages : {2, 3, 4, 6, 8})
    for (const double ba : {0.6, 1.0, 2.0})
      for (const double bw : {0.0, 0.5, 1.0})
        for (const double cf : {0.0, 0.3, 1.0, 2.5})
          for (const double cb : {0.0, 0.4, 4.0}) {
            const Uniform each{1, ba, bw, cf, cb};
            const Costs costs = costs_of(stages, each);
            SCOPED_TRACE(format("{} stages, ba {} bw {} cf {} cb {}", stages, ba, bw, cf, cb));
            for (const bool splits : {false, true})
              for (const bool is_eager : {false, true}) {
                const ScheduleSpec& whole = is_eager ? eager : plain_1f1b;
                const double expected = law(stages, each, is_eager ? 2 : 1, splits);
                const double found =
                    period(splits ? with_delay(whole, 0) : whole, stages, 256, costs);
                EXPECT_NEAR(found, expected, 0.01 * expected)
                    << to_string(whole.schedule) << (splits ? " split" : "");
              }
          }
}

/// "Signal": the same dependencies with messages that take no time.
TEST(Eager1f1b, hides_all_transfers_exactly_where_both_ways_fit_a_micro_batch) {
  const double f = 1, b = 2;
  for (std::size_t stages = 2; stages <= 8; ++stages)
    for (const double cf : {0.1, 0.5, 1.0, 1.4, 1.5, 2.0, 2.5})
      for (const double cb : {0.1, 0.5, 1.0, 1.4, 1.5, 2.0, 2.5}) {
        SCOPED_TRACE(format("{} stages, cf {} cb {}", stages, cf, cb));
        const double found = period(eager, stages, 512, costs_of(stages, {f, b, 0, cf, cb}));
        if (cf + cb <= f + b)
          EXPECT_LE(found, (f + b) * 1.0001);
        else
          EXPECT_GT(found, (f + b) * 1.01);
        // 1F1B pays in every micro-batch.
        const double q = static_cast<double>(stages) - 1;
        EXPECT_NEAR(period(plain_1f1b, stages, 512, costs_of(stages, {f, b, 0, cf, cb})),
                    f + b + (cf + cb) * q / (q + 1), 0.01 * (f + b));
      }
}

/// With the weights' part split off, gradients leave earlier: transfers may take longer by twice
/// that part, up to f + b each way.
TEST(Eager1f1b, hides_more_where_gradients_leave_before_the_part_of_weights) {
  const double f = 1, ba = 1, bw = 0.4, whole = f + ba + bw;
  const ScheduleSpec split = with_delay(eager, 0);
  for (std::size_t stages = 2; stages <= 8; ++stages)
    for (const double cf : {0.5, 1.0, 1.6, 2.0})
      for (const double cb : {0.5, 1.2, 1.9, 2.3}) {
        SCOPED_TRACE(format("{} stages, cf {} cb {}", stages, cf, cb));
        const Costs costs = costs_of(stages, {f, ba, bw, cf, cb});
        const double found = period(split, stages, 512, costs);
        if (cf + cb <= f + ba + 2 * bw)
          EXPECT_LE(found, whole * 1.0001);
        else
          EXPECT_GT(found, whole * 1.005);
        if (cf + cb > whole) {
          EXPECT_LT(found, 0.99 * period(eager, stages, 512, costs));
        }
      }
}

/// The whole step has the ramp of the transfers besides, (S - 1) (cf + cb): at most one micro-batch
/// a stage, which is below 3 % of 33 micro-batches a stage.
TEST(Eager1f1b, takes_hardly_longer_than_with_messages_of_one_byte) {
  const double f = 1, b = 2;
  for (std::size_t stages = 2; stages <= 8; ++stages)
    for (const double cf : {0.3, 1.0, 1.5})
      for (const double cb : {0.3, 1.0, 1.5}) {
        const auto micros = static_cast<std::int64_t>(33 * (stages - 1));
        const double signal = makespan(eager, stages, micros, costs_of(stages, {f, b, 0, 0, 0}));
        const double sent = makespan(eager, stages, micros, costs_of(stages, {f, b, 0, cf, cb}));
        EXPECT_NEAR(sent, signal + static_cast<double>(stages - 1) * (cf + cb), 1e-6);
        EXPECT_GE(signal / sent, 0.97) << stages << " stages, cf " << cf << " cb " << cb;
      }
}

/// The paper's figure 9: with few micro-batches overlap alone is nearly as fast.
TEST(Eager1f1b, is_1f1b_with_two_micro_batches) {
  for (const double c : {0.2, 0.45, 1.0, 3.0}) {
    const Costs costs = costs_of(2, {1, 2, 0, c, c});
    const double overlap = makespan(plain_1f1b, 2, 2, costs),
                 eager_s = makespan(eager, 2, 2, costs);
    EXPECT_NEAR(overlap / eager_s, 1, 0.03);
    EXPECT_EQ(overlap, eager_s);
    EXPECT_GT(makespan(plain_1f1b, 2, 32, costs), 1.03 * makespan(eager, 2, 32, costs));
  }
}

/// A U-Net in stages: what each level makes is read on the way up, so that stage s sends to stage
/// S - 1 - s besides to its neighbour.
Costs u_shaped(std::size_t stages, const Uniform& each, Transfers transfers) {
  Costs costs = costs_of(stages, each, transfers);
  for (std::size_t from = 0; from + 1 < stages - 1 - from; ++from) {
    costs.edges.push_back({from, stages - 1 - from});
    costs.of_edges.push_back({each.to_next, each.to_previous});
  }
  return costs;
}

TEST(Eager1f1b, is_never_slower_than_overlap_nor_overlap_than_broadcast) {
  for (std::size_t stages = 2; stages <= 8; ++stages)
    for (const std::int64_t micros : {2, 3, 5, 8, 32})
      for (const double cf : {0.1, 0.6, 1.5, 4.0})
        for (const double cb : {0.1, 0.6, 1.5, 4.0}) {
          SCOPED_TRACE(format("{} stages, {} micro-batches, cf {} cb {}", stages, micros, cf, cb));
          const auto step_s = [&](const ScheduleSpec& spec, Transfers transfers) {
            return makespan(spec, stages, micros, u_shaped(stages, {1, 2, 0, cf, cb}, transfers));
          };
          const double overlap = step_s(plain_1f1b, Transfers::overlapped);
          EXPECT_LE(step_s(eager, Transfers::overlapped), overlap * 1.000001);
          EXPECT_LE(overlap, step_s(plain_1f1b, Transfers::block_both) * 1.000001);
        }
}

/// Two stages, x = c / (f + b): transfers that block both sides, overlapped ones, eager-1F1B.
TEST(Eager1f1b, gains_over_overlap_what_overlap_gains_over_broadcast_as_two_stages_tie_them) {
  const double f = 1, b = 2;
  const auto period_of = [&](const ScheduleSpec& spec, double x, Transfers transfers) {
    const double c = x * (f + b);
    return period(spec, 2, 512, costs_of(2, {f, b, 0, c, c}, transfers));
  };
  for (const double x : {0.05, 0.15, 0.3, 0.43, 0.5}) {
    const double broadcast = period_of(plain_1f1b, x, Transfers::block_both),
                 overlap = period_of(plain_1f1b, x, Transfers::overlapped),
                 eagerly = period_of(eager, x, Transfers::overlapped);
    EXPECT_NEAR(broadcast / overlap, (1 + 2 * x) / (1 + x), 0.01) << x;
    EXPECT_NEAR(overlap / eagerly, 1 + x, 0.01) << x;
    // Transfers that block the sender alone cost two stages no more than overlapped ones.
    EXPECT_NEAR(period_of(plain_1f1b, x, Transfers::block_sender), overlap, 0.01 * overlap) << x;
  }
  // The paper's 30 % and 15 %, each at its own x.
  EXPECT_NEAR(period_of(plain_1f1b, 0.43, Transfers::block_both) /
                  period_of(plain_1f1b, 0.43, Transfers::overlapped),
              1.30, 0.01);
  EXPECT_NEAR(period_of(plain_1f1b, 0.15, Transfers::overlapped) /
                  period_of(eager, 0.15, Transfers::overlapped),
              1.15, 0.01);
}

}  // namespace
}  // namespace fourfold::pipeline
