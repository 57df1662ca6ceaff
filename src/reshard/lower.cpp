#include "reshard/lower.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::reshard {
namespace {

/// A way into a host, or out of it.
struct Way {
  HostId host;
  bool is_out = false;
  auto operator<=>(const Way&) const = default;
};

class Lowering {
 public:
  Lowering(std::span<const HostId> host_of, Turns turns, Gathers gathers)
      : host_of_(host_of), turns_(turns), gathers_(gathers), steps_(host_of.size()) {}

  std::vector<std::vector<Step>> lower(const ReshardPlan& plan) {
    for (const Transfer& transfer : plan.transfers) {
      const bool takes_turns = turns_ == Turns::kept && !transfer.is_local;
      if (takes_turns) take_turns(transfer);
      add(transfer);
      if (takes_turns) note_ends(transfer);
    }
    for (const LocalCopy& copy : plan.copies) {
      Step step;
      step.kind = StepKind::copy;
      step.box = copy.box;
      steps_of(copy.rank).push_back(std::move(step));
    }
    return std::move(steps_);
  }

 private:
  std::vector<Step>& steps_of(Rank rank) { return steps_[rank.index()]; }

  void message(Rank from, Rank to, const Box& box, bool is_byte) {
    Step step;
    step.box = box;
    step.is_byte = is_byte;
    step.peer = to;
    steps_of(from).push_back(step);
    step.kind = StepKind::receive;
    step.peer = from;
    steps_of(to).push_back(std::move(step));
  }

  void add(const Transfer& transfer) {
    switch (transfer.method) {
      case Method::signal:
        for (const std::vector<Rank>& group : transfer.groups)
          for (const Rank rank : group) message(transfer.sender, rank, {}, true);
        return;
      case Method::chain:
        for (const Box& chunk : chunks_of(transfer.box, transfer.chunks)) {
          Rank from = transfer.sender;
          for (const Rank rank : transfer.groups.front()) {
            message(from, rank, chunk, false);
            from = rank;
          }
        }
        return;
      case Method::shares:
        add_shares(transfer);
        return;
    }
  }

  void add_shares(const Transfer& transfer) {
    std::vector<Step> gathers;
    for (const std::vector<Rank>& group : transfer.groups) {
      Step gather;
      gather.kind = StepKind::gather;
      gather.members = group;
      gather.shares = shares_of(transfer.box, static_cast<std::int64_t>(group.size()));
      for (std::size_t i = 0; i < group.size(); ++i)
        if (elements(gather.shares[i]) > 0)
          message(transfer.sender, group[i], gather.shares[i], false);
      if (group.size() > 1) gathers.push_back(std::move(gather));
    }
    for (const Step& gather : gathers) {
      if (gathers_ == Gathers::by_ring) {
        add_ring(gather);
        continue;
      }
      for (const Rank rank : gather.members) steps_of(rank).push_back(gather);
    }
  }

  /// In round r member i passes on the share of member i - r, which has come in the round before.
  void add_ring(const Step& gather) {
    const std::size_t members = gather.members.size();
    for (std::size_t round = 0; round + 1 < members; ++round)
      for (std::size_t i = 0; i < members; ++i)
        if (const Box& share = gather.shares[(i + members - round) % members]; elements(share) > 0)
          message(gather.members[i], gather.members[(i + 1) % members], share, false);
  }

  /// The ranks that use the ways of a transfer: into each host, those that get something from
  /// outside; out of it, those that send something there.
  std::map<Way, std::vector<Rank>> users_of(const Transfer& transfer) const {
    std::map<Way, std::vector<Rank>> users;
    const HostId home = host_of_[transfer.sender.index()];
    users[{home, true}] = {transfer.sender};
    for (const std::vector<Rank>& group : transfer.groups) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        const HostId host = host_of_[group[i].index()];
        const bool is_chain = transfer.method == Method::chain;
        const bool is_first = i == 0 || host_of_[group[i - 1].index()] != host;
        if (!is_chain || is_first) users[{host, false}].push_back(group[i]);
        const bool is_last_of_host = i + 1 < group.size() && host_of_[group[i + 1].index()] != host;
        if (is_chain && is_last_of_host) users[{host, true}].push_back(group[i]);
      }
    }
    return users;
  }

  /// Each rank that uses a way waits for the last one that has used it, if that is another.
  void take_turns(const Transfer& transfer) {
    for (const auto& [way, ranks] : users_of(transfer)) {
      const auto before = last_users_.find(way);
      if (before == last_users_.end()) continue;
      for (const Rank rank : ranks)
        if (rank != before->second) message(before->second, rank, {}, true);
    }
  }

  void note_ends(const Transfer& transfer) {
    for (const auto& [way, ranks] : users_of(transfer)) last_users_[way] = ranks.back();
  }

  std::span<const HostId> host_of_;
  Turns turns_;
  Gathers gathers_;
  std::vector<std::vector<Step>> steps_;
  std::map<Way, Rank> last_users_;
};

bool overlap(const Box& a, const Box& b) {
  return elements(intersection(a, b)) > 0;
}

}  // namespace

std::vector<std::vector<Step>> lower(const ReshardPlan& plan, std::span<const HostId> host_of,
                                     Turns turns, Gathers gathers) {
  return Lowering(host_of, turns, gathers).lower(plan);
}

std::vector<std::size_t> waits_for(std::span<const Step> steps) {
  std::vector<std::size_t> waits(steps.size(), 0);
  std::size_t fence = 0;                // all before it have to be over
  std::map<Box, std::size_t> received;  // by box, the step after the last one that received it
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    waits[i] = fence;
    if (step.kind == StepKind::gather || step.kind == StepKind::copy) {
      waits[i] = i;
      if (step.kind == StepKind::gather) fence = i + 1;
    } else if (step.kind == StepKind::receive) {
      if (step.is_byte)
        fence = i + 1;
      else
        received[step.box] = i + 1;
    } else if (step.is_byte) {
      waits[i] = i;
    } else if (const auto same = received.find(step.box); same != received.end()) {
      waits[i] = std::max(fence, same->second);
    } else {
      for (const auto& [box, after] : received)
        if (overlap(box, step.box)) waits[i] = std::max(waits[i], after);
    }
  }
  return waits;
}

std::string to_text(std::span<const Step> steps) {
  std::string text;
  for (const Step& step : steps) {
    const std::string what = step.is_byte ? "1 byte" : to_text(step.box);
    switch (step.kind) {
      case StepKind::send:
        text += format("send {} to {}\n", what, step.peer.index());
        break;
      case StepKind::receive:
        text += format("receive {} from {}\n", what, step.peer.index());
        break;
      case StepKind::copy:
        text += format("copy {}\n", what);
        break;
      case StepKind::gather:
        text += "gather";
        for (std::size_t i = 0; i < step.members.size(); ++i)
          text += format(" {} {}", step.members[i].index(), to_text(step.shares[i]));
        text += "\n";
        break;
    }
  }
  return text;
}

}  // namespace fourfold::reshard
