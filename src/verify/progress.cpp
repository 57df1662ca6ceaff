// deadlock, launch: whether the streams of all ranks come to their end when nothing completes
// before all partners have reached it; and whether they still do where each rank begins its
// collectives one after another.
#include <algorithm>
#include <optional>
#include <vector>

#include "base/format.h"
#include "verify/exchange.h"

namespace fourfold::verify {
namespace {

/// The collectives of several members in the order of the list, which is that of their launches.
std::vector<std::uint32_t> launches(const Program& program, const Stops& stops) {
  std::vector<std::uint32_t> all;
  for (std::size_t group = 0; group < stops.collectives.size(); ++group)
    if (program.groups[group].members.size() > 1)
      all.insert(all.end(), stops.collectives[group].begin(), stops.collectives[group].end());
  std::ranges::sort(all);
  return all;
}

class Progress {
 public:
  /// A rank begins a collective when its stream reaches it, or only after those that stand before
  /// it in the list, whatever their streams.
  enum class Collectives : std::uint8_t { side_by_side, in_one_chain };

  Progress(const CheckedJob& job, std::size_t program, const Runners& runners,
           Collectives collectives)
      : job_(job), program_(program), runners_(runners), launches_(job.classes.size()) {
    if (collectives == Collectives::in_one_chain)
      for (std::size_t i = 0; i < job.classes.size(); ++i)
        launches_[i] = launches(job.classes[i].bundle->programs[program],
                                job.classes[i].skeletons[program].stops);
    set_up();
    while (!ready_.empty()) {
      const Place place = ready_.back();
      ready_.pop_back();
      advance(place);
    }
  }

  bool is_complete() const {
    return std::ranges::all_of(
        runners_.list, [&](const Runners::Runner& runner) { return !blocked_stream(runner.rank); });
  }

  /// The fault of all ranks, some of which are blocked, by the rule of that name.
  Fault fault(std::string_view rule) const {
    std::size_t ranks = 0;
    std::optional<Place> first;
    for (const Runners::Runner& runner : runners_.list)
      if (const auto place = blocked_stream(runner.rank)) {
        if (!first) first = place;
        ++ranks;
      }
    return fault_from(rule, first.value(), ranks);
  }

 private:
  struct Place {
    std::uint32_t rank = 0, stream = 0;
    bool operator==(const Place&) const = default;
  };
  struct RankProgress {
    std::vector<std::uint32_t> next;      // of each stream, index into Stops::streams
    std::vector<bool> recorded;           // events
    std::vector<std::uint32_t> arrived;   // of each group: collectives reached
    std::vector<std::uint32_t> channels;  // of each message
    std::uint32_t launched = 0;           // of the launches of its class, as far as they are over
  };
  struct Meeting {
    std::vector<Place> waiting;
    std::uint32_t completed = 0;
  };
  struct Channel {
    std::optional<Place> sender, receiver;
    std::uint32_t completed = 0;
  };

  const Stops& stops(std::size_t rank) const { return job_.stops(rank, program_); }
  const Partners& partners(std::size_t rank) const { return job_.partners(rank, program_); }

  void set_up() {
    ranks_.resize(job_.exchanges.size());
    meetings_.resize(job_.communicators.size());
    channels_.resize(runners_.num_channels);
    for (const Runners::Runner& runner : runners_.list) {
      const Stops& of = stops(runner.rank);
      RankProgress& progress = ranks_[runner.rank];
      progress.next.resize(of.streams.size());
      progress.recorded.resize(of.record_streams.size());
      progress.arrived.resize(of.collectives.size());
      progress.channels = runner.channels;
      for (std::size_t stream = 0; stream < of.streams.size(); ++stream)
        ready_.push_back({runner.rank, static_cast<std::uint32_t>(stream)});
    }
  }

  /// The first stream of a rank that has not come to its end.
  std::optional<Place> blocked_stream(std::uint32_t rank) const {
    for (std::uint32_t stream = 0; stream < ranks_[rank].next.size(); ++stream)
      if (stop_at({rank, stream}) != nullptr) return Place{rank, stream};
    return std::nullopt;
  }

  const Stop* stop_at(const Place& place) const {
    const std::vector<Stop>& list = stops(place.rank).streams[place.stream];
    const std::uint32_t next = ranks_[place.rank].next[place.stream];
    return next < list.size() ? &list[next] : nullptr;
  }

  /// Runs a stream until it has to wait or ends.
  void advance(const Place& place) {
    RankProgress& progress = ranks_[place.rank];
    for (const Stop* stop = stop_at(place); stop != nullptr; stop = stop_at(place)) {
      switch (stop->kind) {
        case Stop::Kind::record:
          progress.recorded[stop->id] = true;
          wake_waiting(place.rank, stop->id);
          break;
        case Stop::Kind::wait:
          if (!progress.recorded[stop->id]) return;
          break;
        case Stop::Kind::collective:
          if (!launch_before(place)) arrive(place, stop->id);
          return;
        case Stop::Kind::send:
        case Stop::Kind::recv:
          arrive(place, channels_[progress.channels[stop->id]], stop->kind == Stop::Kind::send);
          return;
      }
      ++progress.next[place.stream];
    }
  }

  /// The stream whose collective is launched before the one at which a stream stands: nothing where
  /// that one comes next.
  std::optional<Place> launch_before(const Place& place) const {
    const std::vector<std::uint32_t>& all = launches_[job_.class_of[place.rank]];
    const std::uint32_t instruction = stop_at(place)->instruction;
    if (!std::ranges::binary_search(all, instruction)) return std::nullopt;
    const std::uint32_t next = all[ranks_[place.rank].launched];
    return next == instruction ? std::nullopt : std::optional(stream_at(place.rank, next));
  }

  void wake(const Place& place) { ready_.push_back(place); }
  void pass(const Place& place) {
    ++ranks_[place.rank].next[place.stream];
    wake(place);
  }

  void wake_waiting(std::uint32_t rank, std::uint32_t event) {
    for (std::uint32_t stream = 0; stream < ranks_[rank].next.size(); ++stream) {
      const Stop* stop = stop_at({rank, stream});
      if (stop != nullptr && stop->kind == Stop::Kind::wait && stop->id == event)
        wake({rank, stream});
    }
  }

  /// A rank arrives once at each collective; rule `order` keeps its streams apart.
  void arrive(const Place& place, std::uint32_t group) {
    const std::uint32_t number = partners(place.rank).groups[group];
    Meeting& meeting = meetings_[number];
    std::uint32_t& arrived = ranks_[place.rank].arrived[group];
    if (arrived != meeting.completed) return;
    ++arrived;
    meeting.waiting.push_back(place);
    if (runners_.are_all && meeting.waiting.size() < job_.communicators[number].members.size())
      return;
    ++meeting.completed;
    const std::vector<Place> all = std::move(meeting.waiting);
    meeting.waiting.clear();
    for (const Place& member : all) pass_collective(member);
  }

  void pass_collective(const Place& place) {
    const std::vector<std::uint32_t>& all = launches_[job_.class_of[place.rank]];
    const bool is_launch = std::ranges::binary_search(all, stop_at(place)->instruction);
    pass(place);
    std::uint32_t& launched = ranks_[place.rank].launched;
    if (is_launch && ++launched < all.size()) wake(stream_at(place.rank, all[launched]));
  }

  void arrive(const Place& place, Channel& channel, bool is_send) {
    (is_send ? channel.sender : channel.receiver) = place;
    if (!channel.sender || !channel.receiver) return;
    const Place sender = *channel.sender, receiver = *channel.receiver;
    channel = {{}, {}, channel.completed + 1};
    pass(sender);
    pass(receiver);
  }

  // --- who waits for whom

  struct Blocker {
    std::optional<Place> place;  // none: nobody will ever come
    std::string text;            // "rank 2"
  };

  /// Follows the chain of those waited for until it closes or ends.
  Fault fault_from(std::string_view rule, const Place& first, std::size_t ranks) const {
    std::vector<Place> chain = {first};
    std::string end;
    for (;;) {
      const Blocker blocker = blocker_of(chain.back());
      if (!blocker.place || stop_at(*blocker.place) == nullptr) {
        end = blocker.place ? format("rank {}, of which that stream has ended", blocker.place->rank)
                            : blocker.text;
        break;
      }
      const auto seen = std::find(chain.begin(), chain.end(), *blocker.place);
      if (seen != chain.end()) {
        chain.erase(chain.begin(), seen);
        break;
      }
      chain.push_back(*blocker.place);
    }
    // A stream that waits for another one of its rank says less than what that one waits for.
    const auto is_own = [&](const Place& place) {
      return stop_at(place)->kind == Stop::Kind::wait;
    };
    if (!std::all_of(chain.begin(), chain.end(), is_own)) std::erase_if(chain, is_own);
    if (end.empty()) end = format("rank {}", chain.front().rank);
    return job_.fault(rule, chain.front().rank, program_, stop_at(chain.front())->instruction,
                      format("{}; {} ranks never end", chain_text(chain, end), ranks));
  }

  /// "it waits for rank 2, which waits in instruction 20 (...) for rank 3".
  std::string chain_text(const std::vector<Place>& chain, const std::string& end) const {
    constexpr std::size_t most = 12;  // of a chain, in a message
    std::string text;
    for (std::size_t i = 0; i < chain.size() && i < most; ++i) {
      const std::string next = i + 1 == chain.size() ? end : format("rank {}", chain[i + 1].rank);
      text +=
          i == 0 ? format("it waits for {}", next)
                 : format(", which waits in {} for {}",
                          job_.short_place(chain[i].rank, program_, stop_at(chain[i])->instruction),
                          next);
    }
    return chain.size() > most ? text + " ..." : text;
  }

  Blocker blocker_of(const Place& place) const {
    const Stop& stop = *stop_at(place);
    switch (stop.kind) {
      case Stop::Kind::wait:
        return {Place{place.rank, stops(place.rank).record_streams[stop.id]}, {}};
      case Stop::Kind::collective:
        if (const auto before = launch_before(place)) return {before, {}};
        return blocker_of_collective(place, stop.id);
      case Stop::Kind::send:
      case Stop::Kind::recv:
        return blocker_of_message(place, stop);
      case Stop::Kind::record:
        break;
    }
    return {{}, "nobody"};
  }

  Blocker blocker_of_collective(const Place& place, std::uint32_t group) const {
    const std::uint32_t number = partners(place.rank).groups[group];
    const Meeting& meeting = meetings_[number];
    for (const Rank member : job_.communicators[number].members) {
      if (member.index() >= ranks_.size()) return {{}, format("rank {}", member.index())};
      const auto& theirs = partners(member.index()).groups;
      const auto found = std::find(theirs.begin(), theirs.end(), number);
      if (found == theirs.end())
        return {{}, format("rank {}, which is not of this group", member.index())};
      const auto index = static_cast<std::size_t>(found - theirs.begin());
      if (ranks_[member.index()].arrived[index] > meeting.completed) continue;
      const auto& sequence = stops(member.index()).collectives[index];
      if (meeting.completed >= sequence.size())
        return {{}, format("rank {}, which has no more collectives of this group", member.index())};
      return {stream_at(member.index(), sequence[meeting.completed]), {}};
    }
    return {{}, "an earlier collective of its own"};
  }

  Blocker blocker_of_message(const Place& place, const Stop& stop) const {
    const std::uint32_t channel = ranks_[place.rank].channels[stop.id];
    const std::size_t peer = partners(place.rank).messages[stop.id].peer.index();
    if (peer >= ranks_.size()) return {{}, format("rank {}", peer)};
    std::uint32_t before = channels_[channel].completed;
    for (std::size_t i = 0; i < ranks_[peer].channels.size(); ++i) {
      const Stops::Message& other = stops(peer).messages[i];
      if (ranks_[peer].channels[i] != channel || other.is_send == (stop.kind == Stop::Kind::send) ||
          before-- > 0)
        continue;
      return {stream_at(peer, other.instruction), {}};
    }
    return {{},
            format("rank {}, which has no {} for it", peer,
                   stop.kind == Stop::Kind::send ? "recv" : "send")};
  }

  Place stream_at(std::size_t rank, std::size_t instruction) const {
    const Program& program = job_.classes[job_.class_of[rank]].bundle->programs[program_];
    return {static_cast<std::uint32_t>(rank),
            static_cast<std::uint32_t>(program.instructions[instruction].stream.index())};
  }

  const CheckedJob& job_;
  std::size_t program_;
  const Runners& runners_;
  std::vector<std::vector<std::uint32_t>> launches_;  // of each class; none where side by side
  std::vector<RankProgress> ranks_;                   // those of runners are used
  std::vector<Meeting> meetings_;                     // of each communicator
  std::vector<Channel> channels_;
  std::vector<Place> ready_;
};

}  // namespace

void check_progress(const CheckedJob& job, std::size_t program, bool is_matched,
                    std::vector<Fault>& faults) {
  using enum Progress::Collectives;
  // Where other rules have found faults, ranks may be out of step in ways that only they can tell.
  const MeetingsView meetings = job.meetings(program);
  // Who comes to an end in one chain also does side by side.
  if (is_matched)
    if (const auto few = one_of_each_class(meetings);
        few && Progress(job, program, *few, in_one_chain).is_complete())
      return;
  const Runners all = all_runners(meetings);
  const Progress chained(job, program, all, in_one_chain);
  if (chained.is_complete()) return;
  const Progress progress(job, program, all, side_by_side);
  faults.push_back(progress.is_complete() ? chained.fault("launch") : progress.fault("deadlock"));
}

}  // namespace fourfold::verify
