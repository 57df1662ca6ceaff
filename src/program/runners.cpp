#include "program/runners.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace fourfold::program {
namespace {

/// Sender, receiver, tag.
using EndsAndTag = std::tuple<std::size_t, std::size_t, std::int64_t>;

EndsAndTag ends_and_tag_of(const MeetingsView& meetings, std::size_t rank, std::size_t i) {
  const auto& [peer, tag] = meetings.partners(rank).messages[i];
  return meetings.stops(rank).messages[i].is_send ? EndsAndTag(rank, peer.index(), tag)
                                                  : EndsAndTag(peer.index(), rank, tag);
}

/// True if the members of every group are of one class, and have it in the same place.
bool groups_are_alike(const MeetingsView& meetings) {
  std::vector<bool> seen(meetings.communicators->size(), false);
  for (std::size_t rank = 0; rank < meetings.ranks.size(); ++rank) {
    const std::vector<std::uint32_t>& groups = meetings.partners(rank).groups;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (seen[groups[i]]) continue;
      seen[groups[i]] = true;
      for (const Rank member : (*meetings.communicators)[groups[i]].members)
        if (member.index() >= meetings.ranks.size() ||
            meetings.class_of[member.index()] != meetings.class_of[rank] ||
            meetings.partners(member.index()).groups[i] != groups[i])
          return false;
    }
  }
  return true;
}

/// A message as all ranks of a class have it: the class, and its number among the messages.
using Place = std::pair<std::size_t, std::size_t>;

/// Which place meets which; nothing where ranks of a class differ in it.
std::optional<std::map<Place, Place>> partners(const MeetingsView& meetings) {
  struct Ends {
    std::vector<Place> sends, recvs;
  };
  std::map<EndsAndTag, Ends> channels;
  for (std::size_t rank = 0; rank < meetings.ranks.size(); ++rank) {
    const Stops& of = meetings.stops(rank);
    for (std::size_t i = 0; i < of.messages.size(); ++i) {
      Ends& ends = channels[ends_and_tag_of(meetings, rank, i)];
      (of.messages[i].is_send ? ends.sends : ends.recvs).emplace_back(meetings.class_of[rank], i);
    }
  }
  std::map<Place, Place> found;
  for (const auto& [channel, ends] : channels) {
    if (ends.sends.size() != ends.recvs.size()) return std::nullopt;
    for (std::size_t i = 0; i < ends.sends.size(); ++i)
      if (found.try_emplace(ends.sends[i], ends.recvs[i]).first->second != ends.recvs[i] ||
          found.try_emplace(ends.recvs[i], ends.sends[i]).first->second != ends.sends[i])
        return std::nullopt;
  }
  return found;
}

}  // namespace

MeetingsView view_of(const Meetings& meetings, const Job& job) {
  MeetingsView view;
  for (const Stops& stops : meetings.classes) view.classes.push_back(&stops);
  for (const Binding& binding : job.ranks) view.class_of.push_back(binding.of_class);
  for (const Partners& partners : meetings.ranks) view.ranks.push_back(&partners);
  view.communicators = &meetings.communicators;
  return view;
}

Runners all_runners(const MeetingsView& meetings) {
  Runners runners;
  std::map<EndsAndTag, std::uint32_t> numbers;
  for (std::size_t rank = 0; rank < meetings.ranks.size(); ++rank) {
    Runners::Runner& runner = runners.list.emplace_back();
    runner.rank = static_cast<std::uint32_t>(rank);
    for (std::size_t i = 0; i < meetings.partners(rank).messages.size(); ++i)
      runner.channels.push_back(numbers
                                    .try_emplace(ends_and_tag_of(meetings, rank, i),
                                                 static_cast<std::uint32_t>(numbers.size()))
                                    .first->second);
  }
  runners.num_channels = numbers.size();
  return runners;
}

std::optional<Runners> one_of_each_class(const MeetingsView& meetings) {
  if (!groups_are_alike(meetings)) return std::nullopt;
  const auto meets = partners(meetings);
  if (!meets) return std::nullopt;
  Runners runners;
  runners.are_all = false;
  std::map<Place, std::uint32_t> numbers;  // of channels, by the place that sends
  for (std::size_t i = 0; i < meetings.classes.size(); ++i) {
    const auto rank = std::ranges::find(meetings.class_of, i);
    if (rank == meetings.class_of.end()) continue;
    Runners::Runner& runner = runners.list.emplace_back();
    runner.rank = static_cast<std::uint32_t>(rank - meetings.class_of.begin());
    const Stops& of = meetings.stops(runner.rank);
    for (std::size_t message = 0; message < of.messages.size(); ++message) {
      const Place place(i, message);
      const Place sender = of.messages[message].is_send ? place : meets->at(place);
      runner.channels.push_back(
          numbers.try_emplace(sender, static_cast<std::uint32_t>(numbers.size())).first->second);
    }
  }
  runners.num_channels = numbers.size();
  return runners;
}

}  // namespace fourfold::program
