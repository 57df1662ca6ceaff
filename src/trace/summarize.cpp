#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "program/program.h"
#include "trace/summary.h"

namespace fourfold::trace {
namespace {

constexpr double ns = 1e-9;

double seconds(std::int64_t duration_ns) {
  return ns * static_cast<double>(duration_ns);
}

/// Where a kind of work stands in tables: stream, class, name; idle after all.
struct PartKey {
  std::size_t stream = 0;
  std::size_t order = 0;
  std::string what;
  auto operator<=>(const PartKey&) const = default;
};

PartKey key_of(const Work& work) {
  const auto order = static_cast<std::size_t>(work.work_class);
  if (work.work_class == WorkClass::communication)
    return {work.stream, order, work.axis.empty() ? work.name : work.name + " " + work.axis};
  if (work.work_class == WorkClass::wait) return {work.stream, order, "wait for " + work.awaited};
  return {work.stream, order, std::string(to_string(work.work_class))};
}

PartKey idle_key(std::size_t stream) {
  return {stream, std::numeric_limits<std::size_t>::max(), "idle"};
}

void add(Amount& amount, const Work& work, Interval when) {
  amount.seconds += seconds(when.duration_ns());
  amount.calls += 1;
  amount.flops += work.flops;
  amount.bytes += work.bytes;
}

void add(Amount& sum, const Amount& amount) {
  sum.seconds += amount.seconds;
  sum.calls += amount.calls;
  sum.flops += amount.flops;
  sum.bytes += amount.bytes;
}

void divide(Amount& amount, double by) {
  for (double* value : {&amount.seconds, &amount.calls, &amount.flops, &amount.bytes}) *value /= by;
}

void divide(Traffic& traffic, double by) {
  divide(traffic.amount, by);
  traffic.hidden_s /= by;
  traffic.exposed_s /= by;
}

/// The same moments, in order and without overlaps.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin_ns);
  std::vector<Interval> result;
  for (const Interval& interval : intervals)
    if (!result.empty() && interval.begin_ns <= result.back().end_ns)
      result.back().end_ns = std::max(result.back().end_ns, interval.end_ns);
    else
      result.push_back(interval);
  return result;
}

std::int64_t total_ns(const std::vector<Interval>& intervals) {
  std::int64_t total = 0;
  for (const Interval& interval : intervals) total += interval.duration_ns();
  return total;
}

/// How long both are under way. Both are merged.
std::int64_t common_ns(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::int64_t total = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    total += std::max<std::int64_t>(
        0, std::min(i->end_ns, j->end_ns) - std::max(i->begin_ns, j->begin_ns));
    if (i->end_ns < j->end_ns)
      ++i;
    else
      ++j;
  }
  return total;
}

std::vector<Interval> joined(std::vector<Interval> a, const std::vector<Interval>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// How long some are under way and none of the others.
std::int64_t beyond_ns(const std::vector<Interval>& some, const std::vector<Interval>& others,
                       const std::vector<Interval>& more_others) {
  const std::vector<Interval> all_others = joined(others, more_others);
  return total_ns(merged(joined(some, all_others))) - total_ns(merged(all_others));
}

/// When the last member of each meeting of a step came.
using LastArrivals = std::map<std::pair<std::int64_t, std::string_view>, std::int64_t>;

LastArrivals last_arrivals(const Timeline& timeline) {
  LastArrivals last;
  for (const RankTimeline& rank : timeline.ranks)
    for (const Step& step : rank.steps)
      for (const Span& span : step.spans) {
        const Work& work = rank.works[span.work];
        if (work.meeting.empty()) continue;
        const auto place = last.try_emplace({step.number, work.meeting}, span.when.begin_ns).first;
        place->second = std::max(place->second, span.when.begin_ns);
      }
  return last;
}

/// Sums over the steps of one rank.
class RankSums {
 public:
  /// Without arrivals the rank is alone, and there before nobody.
  RankSums(const RankTimeline& rank, const LastArrivals* arrivals)
      : rank_(rank), arrivals_(arrivals), of_works_(rank.works.size()) {
    for (std::size_t i = 0; i < rank.streams.size(); ++i) {
      if (rank.streams[i] == program::math_stream) math_ = i;
      if (rank.streams[i] == program::gradient_stream) gradients_ = i;
    }
    for (const Step& step : rank.steps) add_step(step);
  }

  RankSummary summary() {
    const auto steps = static_cast<double>(rank_.steps.size());
    for (double* value : {&sum_.step_s, &sum_.compute_s, &sum_.gradients_s, &sum_.wait_s,
                          &sum_.idle_s, &sum_.communication_s, &sum_.overlapped_s, &sum_.early_s})
      *value /= steps;
    for (auto& [name, traffic] : traffic_) {
      divide(traffic.sum, steps);
      sum_.traffic.push_back(std::move(traffic.sum));
    }
    for (auto& [key, amount] : parts_) {
      divide(amount, steps);
      sum_.parts.push_back({rank_.streams[key.stream], key.what, amount});
    }
    sum_.rank = rank_.rank;
    sum_.place = rank_.place;
    sum_.host = rank_.host;
    return sum_;
  }

 private:
  /// The sums of a class of traffic, and when it was exchanged in the step that is being added.
  struct TrafficSums {
    Traffic sum;
    std::vector<Interval> exchanges;
  };

  /// Where the spans of a work are counted. There are many works of few kinds, and a name is looked
  /// up once for each.
  struct OfWork {
    Amount* part = nullptr;
    TrafficSums* traffic = nullptr;  // null: exchanges nothing, or the file has no classes yet
  };

  void add_step(const Step& step) {
    std::vector<Interval> works, gradients, awaited, exchanges;
    std::int64_t math_end_ns = step.whole.begin_ns;
    std::map<std::size_t, std::int64_t> busy_ns;
    for (const Span& span : step.spans) {
      const Work& work = rank_.works[span.work];
      const OfWork& sums = of_work(span.work);
      add(*sums.part, work, span.when);
      busy_ns[work.stream] += span.when.duration_ns();
      if (work.work_class == WorkClass::communication) {
        exchanges.push_back(span.when);
        if (sums.traffic != nullptr) {
          sums.traffic->exchanges.push_back(span.when);
          add(sums.traffic->sum.amount, work, span.when);
        }
        add_arrival(step, work, span.when);
      }
      if (work.stream == gradients_ && work.work_class != WorkClass::wait)
        gradients.push_back(span.when);
      if (work.stream != math_) continue;
      math_end_ns = std::max(math_end_ns, span.when.end_ns);
      if (work.work_class != WorkClass::wait) {
        works.push_back(span.when);
        continue;
      }
      sum_.wait_s += seconds(span.when.duration_ns());
      if (sums.traffic == nullptr) continue;
      sums.traffic->sum.exposed_s += seconds(span.when.duration_ns());
      awaited.push_back(span.when);
    }
    for (const auto& [stream, time_ns] : busy_ns)
      parts_[idle_key(stream)].seconds += seconds(step.whole.duration_ns() - time_ns);
    sum_.gradients_s += seconds(beyond_ns(gradients, works, awaited));
    works = merged(joined(std::move(works), gradients));
    exchanges = merged(std::move(exchanges));
    sum_.step_s += seconds(step.whole.duration_ns());
    sum_.compute_s += seconds(total_ns(works));
    sum_.idle_s += seconds(step.whole.duration_ns() - busy_ns[math_]);
    sum_.communication_s += seconds(total_ns(exchanges));
    sum_.overlapped_s += seconds(common_ns(works, exchanges));
    const std::vector<Interval> after_math = {{math_end_ns, step.whole.end_ns}};
    for (auto& [name, traffic] : traffic_) {
      const std::vector<Interval> intervals = merged(std::move(traffic.exchanges));
      traffic.exchanges.clear();
      traffic.sum.hidden_s += seconds(common_ns(works, intervals));
      traffic.sum.exposed_s += seconds(common_ns(after_math, intervals));
    }
  }

  const OfWork& of_work(std::size_t index) {
    OfWork& found = of_works_[index];
    if (found.part != nullptr) return found;
    const Work& work = rank_.works[index];
    found.part = &parts_[key_of(work)];
    const bool may_have_traffic =
        work.work_class == WorkClass::communication || work.work_class == WorkClass::wait;
    if (may_have_traffic && !work.traffic.empty())
      found.traffic =
          &traffic_.try_emplace(work.traffic, TrafficSums{{work.traffic, {}}, {}}).first->second;
    return found;
  }

  void add_arrival(const Step& step, const Work& work, Interval when) {
    if (arrivals_ == nullptr || work.meeting.empty()) return;
    const std::int64_t all_there_ns = arrivals_->at({step.number, work.meeting});
    sum_.early_s += seconds(std::min(all_there_ns, when.end_ns) - when.begin_ns);
  }

  const RankTimeline& rank_;
  const LastArrivals* arrivals_;
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  std::size_t math_ = none, gradients_ = none;
  RankSummary sum_;
  std::map<PartKey, Amount> parts_;
  std::map<std::string, TrafficSums> traffic_;
  std::vector<OfWork> of_works_;  // by work
};

/// A rank that has nothing of a class counts with 0.
std::vector<Traffic> traffic_over_ranks(const std::vector<RankSummary>& ranks) {
  std::map<std::string, Traffic> all;
  for (const RankSummary& rank : ranks)
    for (const Traffic& one : rank.traffic) {
      Traffic& sum = all.try_emplace(one.name, Traffic{one.name, {}}).first->second;
      add(sum.amount, one.amount);
      sum.hidden_s += one.hidden_s;
      sum.exposed_s += one.exposed_s;
    }
  std::vector<Traffic> result;
  for (auto& [name, traffic] : all) {
    divide(traffic, static_cast<double>(ranks.size()));
    result.push_back(std::move(traffic));
  }
  return result;
}

/// In the order of the first rank's tables, then what only later ones have.
std::vector<PartOverRanks> over_ranks(const std::vector<RankSummary>& ranks) {
  std::vector<PartOverRanks> result;
  const auto find = [&](const Part& part) -> PartOverRanks& {
    const auto place = std::ranges::find_if(result, [&](const PartOverRanks& known) {
      return known.stream == part.stream && known.what == part.what;
    });
    if (place != result.end()) return *place;
    result.push_back({part.stream, part.what, {}, std::numeric_limits<double>::max(), 0, 0, 0});
    return result.back();
  };
  for (const RankSummary& rank : ranks)
    for (const Part& part : rank.parts) {
      PartOverRanks& all = find(part);
      const Amount& amount = part.amount;
      add(all.mean, amount);
      if (amount.seconds < all.least_s) all.least_s = amount.seconds, all.least_rank = rank.rank;
      if (amount.seconds >= all.most_s) all.most_s = amount.seconds, all.most_rank = rank.rank;
    }
  for (PartOverRanks& part : result) divide(part.mean, static_cast<double>(ranks.size()));
  return result;
}

/// Groups all work but waits by a text made of it. Longest first.
template <class Name>
std::vector<Operation> operations(const Timeline& timeline, const Name& name) {
  std::map<std::tuple<std::string, std::string, std::string>, Amount> amounts;
  std::set<std::pair<std::size_t, std::int64_t>> runs;
  for (const RankTimeline& rank : timeline.ranks)
    for (const Step& step : rank.steps) {
      runs.emplace(rank.rank, step.number);
      for (const Span& span : step.spans) {
        const Work& work = rank.works[span.work];
        if (work.work_class == WorkClass::wait) continue;
        add(amounts[{rank.streams[work.stream], name(work), work.implementation}], work, span.when);
      }
    }
  std::vector<Operation> result;
  for (auto& [key, amount] : amounts) {
    divide(amount, static_cast<double>(runs.size()));
    result.push_back({std::get<1>(key), std::get<2>(key), std::get<0>(key), amount});
  }
  std::ranges::stable_sort(result, std::ranges::greater{},
                           [](const Operation& operation) { return operation.amount.seconds; });
  return result;
}

}  // namespace

double Summary::mean(double RankSummary::* seconds_of) const {
  double sum = 0;
  for (const RankSummary& rank : ranks) sum += rank.*seconds_of;
  return sum / static_cast<double>(ranks.size());
}

RankSummary summarize_alone(const RankTimeline& rank) {
  return RankSums(rank, nullptr).summary();
}

Summary summarize(const Timeline& timeline, const std::string& file) {
  constexpr std::size_t num_longest = 10;
  Summary summary;
  summary.program = timeline.program;
  summary.first_step = summary.last_step = 0;
  summary.shortest_step_s = std::numeric_limits<double>::max();
  const LastArrivals arrivals = last_arrivals(timeline);
  for (const RankTimeline& rank : timeline.ranks) {
    if (rank.steps.empty())
      throw UserError(ExitCode::bad_data, format("{} has no step of rank {}", file, rank.rank));
    summary.first_step = rank.steps.front().number;
    summary.last_step = rank.steps.back().number;
    summary.num_steps = static_cast<std::int64_t>(rank.steps.size());
    for (const Step& step : rank.steps) {
      const double time_s = seconds(step.whole.duration_ns());
      summary.shortest_step_s = std::min(summary.shortest_step_s, time_s);
      summary.longest_step_s = std::max(summary.longest_step_s, time_s);
    }
    summary.ranks.push_back(RankSums(rank, &arrivals).summary());
  }
  if (timeline.ranks.empty()) throw UserError(ExitCode::bad_data, format("{} has no rank", file));
  summary.step_s = summary.mean(&RankSummary::step_s);
  summary.parts = over_ranks(summary.ranks);
  summary.traffic = traffic_over_ranks(summary.ranks);
  summary.operations = operations(timeline, [](const Work& work) {
    return work.axis.empty() ? work.name : work.name + " " + work.axis;
  });
  summary.longest = operations(timeline, [](const Work& work) { return work.text; });
  summary.longest.resize(std::min(summary.longest.size(), num_longest));
  return summary;
}

}  // namespace fourfold::trace
