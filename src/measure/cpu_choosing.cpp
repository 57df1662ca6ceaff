#include "measure/cpu_choosing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "kernels/cpu/target.h"
#include "measure/best_rate.h"
#include "measure/ceilings.h"
#include "measure/kernel_bench.h"

namespace fourfold::measure {
namespace {

/// Operands that are more than the caches of some cores hold, so that calls find theirs in memory;
/// but no more sets than are made in a moment.
constexpr std::int64_t from_memory_bytes = std::int64_t{128} << 20, most_sets_in_turn = 64;

/// Times of all that compute a problem, measured in turn when the first one is asked for.
class TimesInTurn {
 public:
  TimesInTurn(const machine::Target& target, double seconds_each, double most_flops)
      : target_(target), seconds_each_(seconds_each), most_flops_(most_flops) {}

  /// What the target chooses comes first.
  std::vector<std::string> implementations(const kernels::Problem& problem) const {
    std::vector<std::string> names = kernels::cpu::implementations(problem);
    const auto chosen = std::ranges::find(
        names, machine::choose(target_, problem.op, problem.shapes, problem.dtype));
    if (chosen != names.end()) std::rotate(names.begin(), chosen, chosen + 1);
    return names;
  }

  /// Seconds of the whole problem.
  double time_s(const kernels::Problem& problem, const std::string& implementation) {
    if (times_.empty() || problem.op != timed_.op || problem.shapes != timed_.shapes)
      measure(problem);
    return times_.at(implementation);
  }

 private:
  void measure(const kernels::Problem& problem) {
    const kernels::Problem smaller = cut_to(problem, most_flops_);
    const std::vector<std::string> names = implementations(problem);
    std::vector<Contender> contenders;
    for (const std::string& name : names)
      contenders.push_back(
          {name, target_.workspace_bytes(name, smaller.op, smaller.shapes, smaller.dtype)});
    const std::int64_t sets =
        std::clamp<std::int64_t>(from_memory_bytes / operand_bytes(smaller), 1, most_sets_in_turn);
    const std::vector<double> seconds =
        KernelBench(contenders, smaller, sets).measure_all_s(seconds_each_);
    const double scale =
        op::flops(problem.op, problem.shapes) / op::flops(smaller.op, smaller.shapes);
    timed_ = problem;
    times_.clear();
    for (std::size_t i = 0; i < names.size(); ++i) times_[names[i]] = scale * seconds[i];
  }

  const machine::Target& target_;
  double seconds_each_, most_flops_;
  kernels::Problem timed_;
  std::map<std::string, double> times_;
};

/// What is to be timed: 0 where all lines are known.
std::size_t num_contenders(const std::vector<machine::KernelTable::Line>& known,
                           const std::vector<kernels::Problem>& problems) {
  std::size_t count = 0;
  for (const kernels::Problem& problem : problems)
    if (find_line(known, problem) == nullptr)
      count += kernels::cpu::implementations(problem).size();
  return count;
}

/// Which factors of a product may be cut.
enum class Factors { all, no_rows_length };

/// A product whose dims of one factor after another become shorter.
struct Cutting {
  kernels::Problem problem;
  op::FactorRule rule;
  double most_flops;

  /// The factor with the longest dim, and its length; 0 where there is none.
  std::pair<char, std::int64_t> largest_factor(Factors which) const {
    std::pair<char, std::int64_t> largest{0, 0};
    for_each_dim([&](std::size_t operand, std::size_t dim, char factor) {
      const std::int64_t size = problem.shapes[operand][dim];
      if (size > largest.second && (which == Factors::all || !is_rows_length(factor)))
        largest = {factor, size};
    });
    return largest;
  }

  /// As many steps of a factor as the flops allow, but no fewer than `least` elements of it.
  Cutting cut(std::pair<char, std::int64_t> factor, std::int64_t least) const {
    constexpr std::int64_t step = 64;
    const double flops = op::flops(problem.op, problem.shapes);
    if (factor.second == 0 || flops <= most_flops) return *this;
    const double wanted = static_cast<double>(factor.second) * most_flops / flops;
    const std::int64_t steps = static_cast<std::int64_t>(std::ceil(wanted / step));
    const std::int64_t shorter = std::min(factor.second, std::max(least, step * steps));
    Cutting made = *this;
    for_each_dim([&](std::size_t operand, std::size_t dim, char of) {
      if (of == factor.first) made.problem.shapes[operand][dim] = shorter;
    });
    return made;
  }

 private:
  /// visit(operand, dim, factor) for each dim of each operand.
  template <class Visit>
  void for_each_dim(Visit&& visit) const {
    for (std::size_t i = 0; i < rule.operands.size(); ++i)
      for (std::size_t dim = 0; dim < problem.shapes[i].rank(); ++dim)
        visit(i, dim, rule.operands[i][dim].front());
  }

  bool is_rows_length(char factor) const {
    for (std::size_t i = 0; i < rule.operands.size(); ++i)
      if (rule.operands[i][problem.shapes[i].rank() - 1].front() == factor) return true;
    return false;
  }
};

}  // namespace

kernels::Problem cut_to(const kernels::Problem& problem, double most_flops) {
  if (!op::product_of(problem.op)) return problem;
  const std::size_t num_reads = problem.shapes.size() - 1;
  const op::FactorRule rule = op::factors(problem.op, std::span(problem.shapes).first(num_reads));
  const Cutting whole{problem, rule, most_flops};
  constexpr std::int64_t least_rows = 256;
  const Cutting by_rows = whole.cut(whole.largest_factor(Factors::no_rows_length), least_rows);
  if (by_rows.largest_factor(Factors::no_rows_length).second > least_rows) return by_rows.problem;
  return by_rows.cut(by_rows.largest_factor(Factors::all), 0).problem;
}

std::vector<machine::KernelTable::Line> time_kernels(
    const std::vector<machine::KernelTable::Line>& known,
    const std::vector<kernels::Problem>& problems, const machine::Target& target, double seconds) {
  const std::size_t contenders = num_contenders(known, problems);
  // 60 ms are enough for a kernel; the rest of the time is for warming up, and for a machine with
  // other work.
  constexpr double most_each_s = 0.06, rate_s = 0.05, share = 0.6;
  const double each_s = std::min(
      most_each_s, share * seconds / static_cast<double>(std::max<std::size_t>(contenders, 1)));
  // A problem is cut so that a call takes a third of that: as many turns. Fewer rows may have
  // another winner (GFLOP/s of nt, n 576, k 3072 on two Zen 4 cores: with m 384 both of oneDNN's
  // 229, with m 1024 its matmul 230 to 246 and its sgemm 147 to 159).
  const double rate = contenders == 0 ? 0
                                      : measure_gemm_flops_per_s(problems.front().dtype,
                                                                 problems.front().threads, rate_s);
  const double end = now_s() + seconds;
  TimesInTurn times(target, each_s, each_s / 3 * rate);
  const Choosing choosing{
      .implementations = [&](const kernels::Problem& one) { return times.implementations(one); },
      .time = [&](const kernels::Problem& one,
                  const std::string& name) { return times.time_s(one, name); },
      .workspace_bytes = {}};
  return table_lines_until([&] { return now_s() >= end; }, known, problems, choosing);
}

}  // namespace fourfold::measure
