#include "reshard/search_depth_first.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "reshard/search_problem.h"

namespace fourfold::reshard {
namespace {

struct Choice {
  double start_s, urgency_s;
  std::size_t kind, sender;
};

class DepthFirst {
 public:
  DepthFirst(const SearchProblem& problem, std::int64_t steps, double known_s)
      : problem_(problem),
        progress_(problem),
        steps_(steps),
        best_s_(known_s),
        least_s_(progress_.bound_s(0)) {}

  void run() {
    if (is_better(least_s_)) visit({-1, 0, 0, 0});
  }
  const std::vector<std::pair<std::size_t, std::size_t>>& best() const { return best_; }

 private:
  /// By more than what adding in another order makes.
  bool is_better(double seconds) const { return seconds < best_s_ * (1 - 1e-12); }

  void visit(const Choice& last) {
    if (progress_.num_left() == 0) {
      best_ = order_;
      best_s_ = progress_.makespan_s();
      return;
    }
    for (const Choice& choice : choices_after(last)) {
      // What was found in the meantime may have ended this branch.
      if (steps_ < 0 || !is_better(least_s_)) return;
      const std::vector<double> before(progress_.free_s().begin(), progress_.free_s().end());
      const double makespan_s = progress_.makespan_s();
      progress_.add(choice.kind, choice.sender);
      order_.emplace_back(choice.kind, choice.sender);
      steps_ -= static_cast<std::int64_t>(before.size() + problem_.sender_sets.size()) / 4;
      if (is_better(progress_.bound_s(choice.start_s))) visit(choice);
      order_.pop_back();
      progress_.remove(choice.kind, before, makespan_s);
    }
  }

  /// Those that start soonest first, of equals what has most left on its ways.
  std::vector<Choice> choices_after(const Choice& last) {
    std::vector<Choice> choices;
    for (std::size_t kind = 0; kind < problem_.kinds.size(); ++kind) {
      if (progress_.left(kind) == 0) continue;
      const double urgency_s = progress_.urgency_s(kind);
      for (const std::size_t sender : problem_.kinds[kind].senders) {
        --steps_;
        const double start_s = progress_.start_s(kind, sender);
        if (std::tuple(start_s, kind, sender) < std::tuple(last.start_s, last.kind, last.sender))
          continue;
        choices.push_back({start_s, urgency_s, kind, sender});
      }
    }
    std::ranges::sort(choices, {}, [](const Choice& choice) {
      return std::tuple(choice.start_s, -choice.urgency_s, choice.kind, choice.sender);
    });
    return choices;
  }

  const SearchProblem& problem_;
  SearchProgress progress_;
  std::int64_t steps_;
  double best_s_, least_s_;
  std::vector<std::pair<std::size_t, std::size_t>> order_, best_;
};

}  // namespace

Schedule search_depth_first(std::span<const HostTask> tasks, const SearchLimits& limits,
                            std::optional<double> known_s) {
  const SearchProblem problem(tasks);
  DepthFirst search(problem, limits.steps,
                    known_s.value_or(std::numeric_limits<double>::infinity()));
  search.run();
  return schedule_of(tasks, problem, search.best());
}

}  // namespace fourfold::reshard
