#include "show/difference_text.h"

#include <algorithm>

#include "base/format.h"
#include "base/units.h"
#include "search/compare_plans.h"

namespace fourfold::show {
namespace {

/// So many of each kind are shown.
constexpr std::size_t most_shown = 8;

std::string time_text(double seconds) {
  return seconds > 0 ? format_duration(seconds) : "-";
}

template <class T>
std::string more_text(const std::vector<T>& all) {
  return all.size() <= most_shown ? "" : format("  and {} more\n", all.size() - most_shown);
}

}  // namespace

std::string difference_text(const job::Ranking& ranking, std::size_t a, std::size_t b) {
  const search::PricedPlan &of_a = ranking.answer.plans.at(a - 1),
                           &of_b = ranking.answer.plans.at(b - 1);
  if (of_a.spec.pipeline.stages > 1 || of_b.spec.pipeline.stages > 1) return "";
  const search::PlanDifferences found = job::differences_of(ranking, of_a, of_b);
  std::string text = format("Ops that plan {} and plan {} cut otherwise, with their work:\n", a, b);
  for (std::size_t i = 0; i < std::min(found.ops.size(), most_shown); ++i) {
    const search::OpDifference& op = found.ops[i];
    text += format("  {}{}: {} and {}\n    plan {}: {}\n    plan {}: {}\n", op.name,
                   op.ops == 1 ? "" : format(", {} ops", op.ops), time_text(op.seconds_a),
                   time_text(op.seconds_b), a, op.a, b, op.b);
  }
  if (found.ops.empty()) text += "  none\n";
  text += more_text(found.ops);
  text += format("\n{:<62} {:>16} {:>16}\n", "Collectives that differ, with nothing hidden",
                 format("plan {}", a), format("plan {}", b));
  for (std::size_t i = 0; i < std::min(found.sent.size(), most_shown); ++i) {
    const search::SentDifference& one = found.sent[i];
    const auto side = [](double calls, double seconds) {
      return calls > 0 ? format("{} x, {}", format_grouped(static_cast<std::int64_t>(calls)),
                                format_duration(seconds))
                       : std::string("-");
    };
    text += format("  {:<60} {:>16} {:>16}\n", one.what, side(one.calls_a, one.seconds_a),
                   side(one.calls_b, one.seconds_b));
  }
  if (found.sent.empty()) text += "  none\n";
  return text + more_text(found.sent) + "\n";
}

}  // namespace fourfold::show
