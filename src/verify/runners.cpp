#include "verify/runners.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace fourfold::verify {
namespace {

/// Sender, receiver, tag.
using EndsAndTag = std::tuple<std::size_t, std::size_t, std::int64_t>;

EndsAndTag ends_and_tag_of(const CheckedJob& job, std::size_t program, std::size_t rank,
                           std::size_t i) {
  const auto& [peer, tag] = job.partners(rank, program).messages[i];
  return job.stops(rank, program).messages[i].is_send ? EndsAndTag(rank, peer.index(), tag)
                                                      : EndsAndTag(peer.index(), rank, tag);
}

/// True if the members of every group are of one class, and have it in the same place.
bool groups_are_alike(const CheckedJob& job, std::size_t program) {
  std::vector<bool> seen(job.communicators.size(), false);
  for (std::size_t rank = 0; rank < job.exchanges.size(); ++rank) {
    const std::vector<std::uint32_t>& groups = job.partners(rank, program).groups;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (seen[groups[i]]) continue;
      seen[groups[i]] = true;
      for (const Rank member : job.communicators[groups[i]].members)
        if (member.index() >= job.exchanges.size() ||
            job.class_of[member.index()] != job.class_of[rank] ||
            job.partners(member.index(), program).groups[i] != groups[i])
          return false;
    }
  }
  return true;
}

/// A message as all ranks of a class have it: the class, and its number among the messages.
using Place = std::pair<std::size_t, std::size_t>;

/// Which place meets which; nothing where ranks of a class differ in it.
std::optional<std::map<Place, Place>> partners(const CheckedJob& job, std::size_t program) {
  struct Ends {
    std::vector<Place> sends, recvs;
  };
  std::map<EndsAndTag, Ends> channels;
  for (std::size_t rank = 0; rank < job.exchanges.size(); ++rank) {
    const Stops& of = job.stops(rank, program);
    for (std::size_t i = 0; i < of.messages.size(); ++i) {
      Ends& ends = channels[ends_and_tag_of(job, program, rank, i)];
      (of.messages[i].is_send ? ends.sends : ends.recvs).emplace_back(job.class_of[rank], i);
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

Runners all_runners(const CheckedJob& job, std::size_t program) {
  Runners runners;
  std::map<EndsAndTag, std::uint32_t> numbers;
  for (std::size_t rank = 0; rank < job.exchanges.size(); ++rank) {
    Runners::Runner& runner = runners.list.emplace_back();
    runner.rank = static_cast<std::uint32_t>(rank);
    for (std::size_t i = 0; i < job.partners(rank, program).messages.size(); ++i)
      runner.channels.push_back(numbers
                                    .try_emplace(ends_and_tag_of(job, program, rank, i),
                                                 static_cast<std::uint32_t>(numbers.size()))
                                    .first->second);
  }
  runners.num_channels = numbers.size();
  return runners;
}

std::optional<Runners> one_of_each_class(const CheckedJob& job, std::size_t program) {
  if (!groups_are_alike(job, program)) return std::nullopt;
  const auto meets = partners(job, program);
  if (!meets) return std::nullopt;
  Runners runners;
  runners.are_all = false;
  std::map<Place, std::uint32_t> numbers;  // of channels, by the place that sends
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    const auto rank = std::ranges::find(job.class_of, i);
    if (rank == job.class_of.end()) continue;
    Runners::Runner& runner = runners.list.emplace_back();
    runner.rank = static_cast<std::uint32_t>(rank - job.class_of.begin());
    const Stops& of = job.stops(runner.rank, program);
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

}  // namespace fourfold::verify
