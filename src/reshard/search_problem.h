// What the searches for a schedule share: tasks of one kind counted together, when each way into
// and out of a host is free, and what no schedule can beat from there. Not a search.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reshard/schedule.h"

namespace fourfold::reshard {

/// Tasks that differ in nothing but their number. A search decides the order of kinds: 16,384 tasks
/// between 128 ranks on 16 hosts and as many on others are 256 kinds.
struct TaskKind {
  double seconds = 0;
  std::vector<std::size_t> senders;  // numbers of hosts
  std::vector<std::size_t> ways;     // those that it has whoever sends
  std::vector<std::size_t> tasks;    // ascending
};

/// Hosts are numbered anew, without gaps. Way 2 h leads out of host h, way 2 h + 1 into it.
struct SearchProblem {
  explicit SearchProblem(std::span<const HostTask> tasks);

  std::vector<HostId> hosts;
  std::vector<TaskKind> kinds;  // in the order of their first task
  /// The senders of a kind, each set once, and all senders together.
  std::vector<std::vector<std::size_t>> sender_sets;
  /// By set: the kinds that no host outside it can send.
  std::vector<std::vector<std::size_t>> kinds_of_set;
  std::vector<std::vector<std::size_t>> sets_of_kind;  // the other way round
  std::size_t num_tasks = 0;
};

/// How far an order has come.
class SearchProgress {
 public:
  explicit SearchProgress(const SearchProblem& problem);

  /// When a task of the kind would start.
  double start_s(std::size_t kind, std::size_t sender) const;
  void add(std::size_t kind, std::size_t sender);
  /// Takes back the last `add`, of which `before` is a copy of the ways' times.
  void remove(std::size_t kind, std::span<const double> before, double makespan_before_s);

  std::size_t left(std::size_t kind) const { return left_[kind]; }
  std::size_t num_left() const { return num_left_; }
  std::span<const double> free_s() const { return free_s_; }
  double makespan_s() const { return makespan_s_; }
  /// The most that is left on one of the kind's ways, or on average of its senders': what is to be
  /// done first.
  double urgency_s(std::size_t kind) const;
  /// No order of what is left ends sooner, if none of it starts before `earliest_s`.
  double bound_s(double earliest_s) const;

 private:
  const SearchProblem& problem_;
  std::vector<std::size_t> left_;
  std::size_t num_left_;
  std::vector<double> free_s_;         // by way
  std::vector<double> way_s_, set_s_;  // what is left, by way and by set of senders
  double makespan_s_ = 0;
};

/// An order of kinds as one of tasks: those of a kind are alike, so the lowest number goes first.
Schedule schedule_of(std::span<const HostTask> tasks, const SearchProblem& problem,
                     const std::vector<std::pair<std::size_t, std::size_t>>& kinds_and_senders);

}  // namespace fourfold::reshard
