#include "simulate/clock.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <queue>
#include <utility>

#include "simulate/network.h"

namespace fourfold::simulate {
namespace {

/// A stream of a runner.
struct Place {
  std::uint32_t runner = 0, stream = 0;
};

/// Something that takes time: `left` of it at `speed` a second, as of `since_s`.
struct Activity {
  enum class Kind : std::uint8_t { move, launch, compute, latency, flow } kind = Kind::move;
  double left = 0, speed = 1, since_s = 0;
  std::uint32_t version = 0;   // of its end in the queue
  std::vector<Place> members;  // the streams that it holds
  Transfer transfer;           // of a latency and a flow
};

struct End {
  double time_s = 0;
  std::uint64_t number = 0;  // equal times end in the order in which they were foreseen
  std::uint32_t activity = 0, version = 0;
  bool operator>(const End& other) const {
    return time_s != other.time_s ? time_s > other.time_s : number > other.number;
  }
};

/// Which runners feel what happens on a runner's device, and how much.
using Neighbours = std::vector<std::vector<std::pair<std::uint32_t, double>>>;

Neighbours neighbours_of(const Links& links, const program::MeetingsView& meetings,
                         const program::Runners& runners) {
  const std::size_t count = runners.list.size();
  Neighbours result(count);
  if (links.cluster().ranks_per_device == 1) {
    for (std::uint32_t i = 0; i < count; ++i) result[i].emplace_back(i, 1);
    return result;
  }
  std::map<std::int64_t, std::vector<std::uint32_t>> on_device;  // runners
  for (std::uint32_t i = 0; i < count; ++i)
    on_device[links.device_of(Rank(runners.list[i].rank))].push_back(i);
  std::vector<std::uint32_t> of_class(meetings.classes.size(), 0);  // the runner, of each class
  for (std::uint32_t i = 0; i < count; ++i) of_class[meetings.class_of[runners.list[i].rank]] = i;
  for (std::size_t rank = 0; rank < meetings.class_of.size(); ++rank) {
    const auto here = on_device.find(links.device_of(Rank(rank)));
    if (here == on_device.end()) continue;
    for (const std::uint32_t felt_by : here->second) {
      // With all ranks a runner's number is its rank's.
      const std::uint32_t who =
          runners.are_all ? static_cast<std::uint32_t>(rank) : of_class[meetings.class_of[rank]];
      auto& list = result[who];
      const auto known =
          std::ranges::find(list, felt_by, [](const auto& some) { return some.first; });
      if (known == list.end())
        list.emplace_back(felt_by, 1);
      else
        known->second += 1;
    }
  }
  return result;
}

class Clock {
 public:
  Clock(const Links& links, const program::MeetingsView& meetings, const program::Runners& runners,
        std::span<const Track> tracks, const Routes& routes)
      : slowdown_(links.cluster().device.slowdown_beside_communication),
        handoff_s_(links.cluster().device.handoff_s),
        meetings_(meetings),
        runners_(runners),
        tracks_(tracks),
        routes_(routes),
        network_(routes.list(), routes.uses()),
        neighbours_(neighbours_of(links, meetings, runners)),
        gatherings_(meetings.communicators->size()),
        channels_(runners.num_channels) {
    for (const program::Runners::Runner& runner : runners.list) {
      const Track& of = track(walkers_.size());
      const program::Stops& stops = meetings.stops(runner.rank);
      Walker& walker = walkers_.emplace_back();
      walker.next.resize(of.streams.size());
      walker.waits.resize(of.streams.size());
      walker.recorded.resize(stops.record_streams.size());
      walker.times.resize(of.amounts.size());
      for (std::uint32_t stream = 0; stream < of.streams.size(); ++stream)
        ready_.push_back({static_cast<std::uint32_t>(walkers_.size() - 1), stream});
    }
    std::ranges::reverse(ready_);
  }

  Clocked run() && {
    for (;;) {
      while (!ready_.empty()) {
        const Place place = ready_.back();
        ready_.pop_back();
        advance(place);
      }
      if (ends_.empty()) break;
      const End end = ends_.top();
      ends_.pop();
      if (activities_[end.activity].version != end.version) continue;
      now_s_ = end.time_s;
      finish(end.activity);
    }
    Clocked result;
    for (std::uint32_t i = 0; i < walkers_.size(); ++i) {
      for (std::uint32_t stream = 0; stream < walkers_[i].next.size(); ++stream)
        if (const Item* item = item_at({i, stream}); item != nullptr && !result.stuck)
          result.stuck = Stuck{runners_.list[i].rank, item->instruction};
      result.times.push_back(std::move(walkers_[i].times));
    }
    return result;
  }

 private:
  struct Walker {
    std::vector<std::uint32_t> next;  // of each stream
    std::vector<bool> waits;          // of each stream: an event holds it
    std::vector<bool> recorded;       // events
    std::vector<Times> times;
    double computing = 0;                 // so many ranks compute on its device
    double exchanging = 0;                // so many transfers of its device are under way
    std::vector<std::uint32_t> computes;  // activities
  };
  /// The ends of a channel that have come.
  struct Channel {
    std::optional<Place> sender, receiver;
  };

  const Track& track(std::size_t runner) const {
    return tracks_[meetings_.class_of[runners_.list[runner].rank]];
  }
  const Item* item_at(const Place& place) const {
    const std::vector<Item>& list = track(place.runner).streams[place.stream];
    const std::uint32_t next = walkers_[place.runner].next[place.stream];
    return next < list.size() ? &list[next] : nullptr;
  }

  /// Runs a stream until something holds it.
  void advance(const Place& place) {
    Walker& walker = walkers_[place.runner];
    for (const Item* item = item_at(place); item != nullptr; item = item_at(place)) {
      Times& times = walker.times[item->instruction];
      switch (item->kind) {
        case Item::Kind::record:
          walker.recorded[item->id] = true;
          wake_waiting(place.runner, item->id);
          break;
        case Item::Kind::wait:
          // A stream that was woken comes here a second time.
          if (!walker.waits[place.stream]) times.begin_s = now_s_;
          walker.waits[place.stream] = !walker.recorded[item->id];
          if (walker.waits[place.stream]) return;
          times.end_s = now_s_;
          break;
        case Item::Kind::compute:
        case Item::Kind::move:
          times.begin_s = now_s_;
          return work(place, *item);
        case Item::Kind::collective:
          times.begin_s = now_s_;
          return arrive(place, *item);
        case Item::Kind::send:
        case Item::Kind::recv:
          times.begin_s = now_s_;
          return arrive_at_channel(place, *item);
      }
      ++walker.next[place.stream];
    }
  }

  /// Streams that the event held go on after a handoff, which takes the device as computation does.
  void wake_waiting(std::uint32_t runner, std::uint32_t event) {
    Walker& walker = walkers_[runner];
    for (std::uint32_t stream = 0; stream < walker.next.size(); ++stream) {
      const Item* item = item_at({runner, stream});
      if (item == nullptr || !walker.waits[stream] || item->id != event) continue;
      if (handoff_s_ <= 0) {
        ready_.push_back({runner, stream});
        continue;
      }
      walker.waits[stream] = false;
      begin_compute({runner, stream}, handoff_s_);
    }
  }

  // --- who meets whom

  void arrive(const Place& place, const Item& item) {
    const std::size_t rank = runners_.list[place.runner].rank;
    const std::uint32_t number = meetings_.partners(rank).groups[item.id];
    std::vector<Place>& there = gatherings_[number];
    there.push_back(place);
    if (runners_.are_all && there.size() < (*meetings_.communicators)[number].members.size())
      return;
    begin_transfer(std::exchange(there, {}), routes_.transfer(place.runner, item));
  }

  void arrive_at_channel(const Place& place, const Item& item) {
    Channel& channel = channels_[runners_.list[place.runner].channels[item.id]];
    (item.kind == Item::Kind::send ? channel.sender : channel.receiver) = place;
    if (!channel.sender || !channel.receiver) return;
    const Place sender = *channel.sender, receiver = *channel.receiver;
    channel = {};
    begin_transfer({sender, receiver}, routes_.transfer(sender.runner, *item_at(sender)));
  }

  // --- what takes time

  void work(const Place& place, const Item& item) {
    const Track& its = track(place.runner);
    const double amount = its.amounts[item.instruction];
    if (item.kind != Item::Kind::compute)
      foresee(begin(Activity::Kind::move, amount, {place}, {}));
    else if (its.launch_s > 0)
      foresee(begin(Activity::Kind::launch, its.launch_s, {place}, {}));
    else
      begin_compute(place, amount);
  }

  void begin_compute(const Place& place, double amount) {
    const std::uint32_t number = begin(Activity::Kind::compute, amount, {place}, {});
    walkers_[place.runner].computes.push_back(number);
    for (const auto& [felt_by, weight] : neighbours_[place.runner]) {
      walkers_[felt_by].computing += weight;
      set_compute_speeds(felt_by);
    }
    foresee(number);
  }

  void begin_transfer(std::vector<Place> members, const Transfer& transfer) {
    for (const Place& member : members) count_exchange(member.runner, 1);
    foresee(begin(Activity::Kind::latency, transfer.latency_s, std::move(members), transfer));
  }

  void count_exchange(std::uint32_t runner, double change) {
    for (const auto& [felt_by, weight] : neighbours_[runner]) {
      walkers_[felt_by].exchanging += weight * change;
      set_compute_speeds(felt_by);
    }
  }

  void finish(std::uint32_t number) {
    Activity& activity = activities_[number];
    ++activity.version;
    const std::vector<Place> members = std::move(activity.members);
    const Transfer transfer = activity.transfer;
    const Activity::Kind kind = activity.kind;
    free_.push_back(number);
    if (kind == Activity::Kind::latency) {
      begin_flow(members, transfer);
      return;
    }
    if (kind == Activity::Kind::launch) {
      const Place& place = members.front();
      const Track& its = track(place.runner);
      begin_compute(place, its.amounts[item_at(place)->instruction] - its.launch_s);
      return;
    }
    if (kind == Activity::Kind::compute) {
      const std::uint32_t runner = members.front().runner;
      std::erase(walkers_[runner].computes, number);
      for (const auto& [felt_by, weight] : neighbours_[runner]) {
        walkers_[felt_by].computing -= weight;
        set_compute_speeds(felt_by);
      }
    }
    if (kind == Activity::Kind::flow) {
      std::vector<std::uint32_t> touched;
      network_.end(number, transfer.route, touched);
      set_flow_speeds(touched);
      for (const Place& member : members) count_exchange(member.runner, -1);
    }
    for (auto member = members.rbegin(); member != members.rend(); ++member) {
      Walker& walker = walkers_[member->runner];
      walker.times[item_at(*member)->instruction].end_s = now_s_;
      ++walker.next[member->stream];
      ready_.push_back(*member);
    }
  }

  void begin_flow(const std::vector<Place>& members, const Transfer& transfer) {
    const std::uint32_t number =
        begin(Activity::Kind::flow, transfer.flow_bytes, members, transfer);
    std::vector<std::uint32_t> touched;
    network_.begin(number, transfer.route, touched);
    set_flow_speeds(touched);
    activities_[number].speed = 1 / network_.seconds_per_byte(transfer.route);
    foresee(number);
  }

  void set_flow_speeds(const std::vector<std::uint32_t>& touched) {
    for (const std::uint32_t number : touched)
      set_speed(number, 1 / network_.seconds_per_byte(activities_[number].transfer.route));
  }
  void set_compute_speeds(std::uint32_t runner) {
    const Walker& walker = walkers_[runner];
    const double slow = walker.exchanging > 0 ? slowdown_ : 1;
    for (const std::uint32_t number : walker.computes)
      set_speed(number, 1 / (slow * walker.computing));
  }

  std::uint32_t begin(Activity::Kind kind, double left, std::vector<Place> members,
                      const Transfer& transfer) {
    std::uint32_t number = 0;
    if (free_.empty()) {
      number = static_cast<std::uint32_t>(activities_.size());
      activities_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    Activity& activity = activities_[number];
    activity = {kind, left, 1, now_s_, activity.version, std::move(members), transfer};
    return number;
  }
  void foresee(std::uint32_t number) {
    Activity& activity = activities_[number];
    const double end_s = activity.since_s + activity.left / activity.speed;
    ends_.push({std::max(end_s, now_s_), num_foreseen_++, number, ++activity.version});
  }
  /// What goes on at its speed keeps its end, to the last bit.
  void set_speed(std::uint32_t number, double speed) {
    Activity& activity = activities_[number];
    if (activity.speed == speed) return;
    activity.left = std::max(0.0, activity.left - (now_s_ - activity.since_s) * activity.speed);
    activity.since_s = now_s_;
    activity.speed = speed;
    foresee(number);
  }

  double slowdown_, handoff_s_;
  const program::MeetingsView& meetings_;
  const program::Runners& runners_;
  std::span<const Track> tracks_;
  const Routes& routes_;
  Network network_;
  Neighbours neighbours_;
  std::vector<Walker> walkers_;
  std::vector<std::vector<Place>> gatherings_;  // who has come, of each communicator
  std::vector<Channel> channels_;
  std::vector<Place> ready_;
  std::vector<Activity> activities_;
  std::vector<std::uint32_t> free_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::uint64_t num_foreseen_ = 0;
  double now_s_ = 0;
};

}  // namespace

Clocked run_clock(const Links& links, const program::MeetingsView& meetings,
                  const program::Runners& runners, std::span<const Track> tracks,
                  const Routes& routes) {
  return Clock(links, meetings, runners, tracks, routes).run();
}

}  // namespace fourfold::simulate
