#include "reshard/reshard_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "reshard/transfer_time.h"
#include "reshard/unit_tasks.h"

namespace fourfold::reshard {
namespace {

constexpr std::array<std::string_view, 6> names{
    "send_recv", "local_all_gather", "global_all_gather", "broadcast", "signal", "alpa"};

/// Ranks by the host they are on; hosts and ranks ascending.
std::map<HostId, std::vector<Rank>> by_host(std::span<const Rank> ranks,
                                            std::span<const HostId> host_of) {
  std::map<HostId, std::vector<Rank>> hosts;
  for (const Rank rank : ranks) {
    require(rank.index() < host_of.size(), "each rank is on a host");
    hosts[host_of[rank.index()]].push_back(rank);
  }
  return hosts;
}

/// A unit task without the receivers that need nothing from other hosts.
struct RemoteTask {
  Box box;
  std::map<HostId, std::vector<Rank>> holders, receivers;
};

std::vector<std::vector<Rank>> groups_of(const Box& box, Strategy strategy,
                                         const std::map<HostId, std::vector<Rank>>& receivers) {
  std::vector<Rank> all;
  for (const auto& [host, ranks] : receivers) all.insert(all.end(), ranks.begin(), ranks.end());
  std::vector<std::vector<Rank>> groups;
  switch (strategy) {
    case Strategy::send_recv:
    case Strategy::signal:
      for (const Rank rank : all) groups.push_back({rank});
      return groups;
    case Strategy::local_all_gather:
      for (const auto& [host, ranks] : receivers) groups.push_back(ranks);
      return groups;
    case Strategy::global_all_gather:
    case Strategy::broadcast:
      return {all};
    case Strategy::alpa:
      return alpa_groups(box, all);
  }
  fail_internal("a strategy is one of those that have a name");
}

Method method_of(Strategy strategy) {
  if (strategy == Strategy::broadcast) return Method::chain;
  return strategy == Strategy::signal ? Method::signal : Method::shares;
}

class Planner {
 public:
  Planner(std::span<const HostId> host_of, const ReshardOptions& options)
      : host_of_(host_of), options_(options) {}

  ReshardPlan plan(const Placement& from, const Placement& to) {
    std::vector<UnitTask> tasks = unit_tasks(from, to);
    plan_.shape = from.shape;
    plan_.element_bytes = options_.element_bytes;
    plan_.strategy = options_.strategy;
    const bool is_alpa = options_.strategy == Strategy::alpa;
    plan_.ordering = is_alpa ? Ordering::alpa : options_.ordering;
    plan_.num_unit_tasks = tasks.size();
    // What one group of receivers gets comes together (section 5.1.2).
    if (is_alpa) std::ranges::stable_sort(tasks, {}, &UnitTask::receivers);
    for (const UnitTask& task : tasks) keep_local(task);
    schedule();
    std::ranges::move(locals_, std::back_inserter(plan_.transfers));
    for (const Transfer& transfer : plan_.transfers) {
      plan_.makespan_s = std::max(plan_.makespan_s, transfer.start_s + transfer.seconds);
      plan_.bytes_between_hosts += bytes_between_hosts(transfer, options_.element_bytes, host_of_);
    }
    return std::move(plan_);
  }

 private:
  Transfer transfer_of(const Box& box, Rank sender,
                       const std::map<HostId, std::vector<Rank>>& receivers) const {
    Transfer transfer{box, sender, method_of(options_.strategy),
                      groups_of(box, options_.strategy, receivers)};
    transfer.is_local =
        receivers.size() == 1 && receivers.begin()->first == host_of_[sender.index()];
    if (transfer.method == Method::chain)
      transfer.chunks =
          std::min(elements(box), options_.chunks.value_or(chunks_of_chain(
                                      transfer, plan_.element_bytes, host_of_, options_.links)));
    transfer.seconds = transfer_seconds(transfer, options_.element_bytes, host_of_, options_.links);
    return transfer;
  }

  void keep_local(const UnitTask& task) {
    RemoteTask remote{task.box, by_host(task.holders, host_of_), {}};
    std::vector<Rank> receivers;
    for (const Rank rank : task.receivers) {
      if (std::ranges::binary_search(task.holders, rank))
        plan_.copies.push_back({rank, task.box});
      else
        receivers.push_back(rank);
    }
    for (auto& [host, ranks] : by_host(receivers, host_of_)) {
      const auto mates = remote.holders.find(host);
      if (mates == remote.holders.end())
        remote.receivers.emplace(host, std::move(ranks));
      else
        locals_.push_back(transfer_of(task.box, mates->second.front(), {{host, ranks}}));
    }
    if (!remote.receivers.empty()) remotes_.push_back(std::move(remote));
  }

  void schedule() {
    std::vector<HostTask> tasks, least;
    for (const RemoteTask& remote : remotes_) {
      HostTask task;
      for (const auto& [host, ranks] : remote.holders) task.senders.push_back(host);
      for (const auto& [host, ranks] : remote.receivers) task.receivers.push_back(host);
      least.push_back(task);
      least.back().seconds = static_cast<double>(elements(remote.box) * options_.element_bytes) /
                             options_.links.between.bytes_per_s;
      task.seconds =
          transfer_of(remote.box, remote.holders.begin()->second.front(), remote.receivers).seconds;
      tasks.push_back(std::move(task));
    }
    plan_.lower_bound_s = lower_bound_s(least);
    Schedule schedule = make_schedule(tasks, plan_.ordering, options_.limits);
    std::ranges::stable_sort(schedule.order, {}, &ScheduledTask::start_s);
    for (const ScheduledTask& scheduled : schedule.order) {
      const RemoteTask& remote = remotes_[scheduled.task];
      plan_.transfers.push_back(
          transfer_of(remote.box, remote.holders.at(scheduled.sender).front(), remote.receivers));
      plan_.transfers.back().start_s = scheduled.start_s;
    }
  }

  std::span<const HostId> host_of_;
  const ReshardOptions& options_;
  ReshardPlan plan_;
  std::vector<RemoteTask> remotes_;
  std::vector<Transfer> locals_;
};

std::string seconds_text(double seconds) {
  return format("{:.4g} ms", 1e3 * seconds);
}

std::string to_text(const Transfer& transfer) {
  std::string receivers;
  for (const std::vector<Rank>& group : transfer.groups) {
    std::string members;
    for (const Rank rank : group)
      members += format("{}{}", members.empty() ? "" : " ", rank.index());
    receivers += format("{}{}", receivers.empty() ? "" : ", ", members);
  }
  std::string how = transfer.is_local ? "inside its host" : "at " + seconds_text(transfer.start_s);
  if (transfer.method == Method::chain) how += ", in " + counted(transfer.chunks, "chunk");
  return format("  {} from {} to {}, {}\n", to_text(transfer.box), transfer.sender.index(),
                receivers, how);
}

}  // namespace

std::span<const std::string_view> strategy_names() {
  return names;
}

std::string_view to_string(Strategy strategy) {
  return names[static_cast<std::size_t>(strategy)];
}

std::optional<Strategy> parse_strategy(std::string_view text) {
  const auto at = std::ranges::find(names, text);
  if (at == names.end()) return std::nullopt;
  return static_cast<Strategy>(at - names.begin());
}

std::vector<std::vector<Rank>> alpa_groups(const Box& box, std::span<const Rank> receivers) {
  const auto count = static_cast<std::int64_t>(receivers.size());
  std::int64_t greatest = 1;
  for (const Range& range : box) greatest = std::max(greatest, std::gcd(count, range.size()));
  std::vector<std::vector<Rank>> groups;
  for (std::size_t first = 0; first < receivers.size();
       first += static_cast<std::size_t>(greatest)) {
    const auto group = receivers.subspan(first, static_cast<std::size_t>(greatest));
    groups.emplace_back(group.begin(), group.end());
  }
  return groups;
}

std::int64_t bytes_between_hosts(const Transfer& transfer, std::int64_t element_bytes,
                                 std::span<const HostId> host_of) {
  std::int64_t bytes = 0;
  const auto count = [&](Rank from, Rank to, std::int64_t message_bytes) {
    if (host_of[from.index()] != host_of[to.index()]) bytes += message_bytes;
  };
  const std::int64_t box_bytes = elements(transfer.box) * element_bytes;
  for (const std::vector<Rank>& group : transfer.groups) {
    if (transfer.method == Method::signal) {
      for (const Rank rank : group) count(transfer.sender, rank, 1);
    } else if (transfer.method == Method::chain) {
      for (std::size_t i = 0; i < group.size(); ++i)
        count(i == 0 ? transfer.sender : group[i - 1], group[i], box_bytes);
    } else {
      const std::vector<Box> shares =
          shares_of(transfer.box, static_cast<std::int64_t>(group.size()));
      for (std::size_t i = 0; i < group.size(); ++i) {
        const std::int64_t share_bytes = elements(shares[i]) * element_bytes;
        count(transfer.sender, group[i], share_bytes);
        // Round the ring a member gets all shares but its own from the one before it.
        const Rank before = group[(i + group.size() - 1) % group.size()];
        count(before, group[i], box_bytes - share_bytes);
      }
    }
  }
  return bytes;
}

ReshardPlan make_plan(const Placement& from, const Placement& to, std::span<const HostId> host_of,
                      const ReshardOptions& options) {
  require(options.element_bytes > 0 && options.chunks.value_or(1) > 0,
          "elements have bytes, and boxes pass in one chunk at least");
  return Planner(host_of, options).plan(from, to);
}

std::string to_text(const ReshardPlan& plan) {
  std::string text = format(
      "reshard {} of {} bytes each: {} by {}, ordered by {}\n"
      "makespan {}, lower bound {}, {} bytes between hosts\n",
      to_string(plan.shape), plan.element_bytes,
      counted(static_cast<std::int64_t>(plan.num_unit_tasks), "unit task"),
      to_string(plan.strategy), to_string(plan.ordering), seconds_text(plan.makespan_s),
      seconds_text(plan.lower_bound_s), format_grouped(plan.bytes_between_hosts));
  for (const Transfer& transfer : plan.transfers) text += to_text(transfer);
  for (const LocalCopy& copy : plan.copies)
    text += format("  {} on {}, which has it\n", to_text(copy.box), copy.rank.index());
  return text;
}

}  // namespace fourfold::reshard
