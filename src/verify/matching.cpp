// groups, matching: whether ranks meet in the same collectives and messages.
#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "base/format.h"
#include "verify/exchange.h"

namespace fourfold::verify {
namespace {

class Matching {
 public:
  Matching(const CheckedJob& job, std::size_t program, std::vector<Fault>& faults)
      : job_(job), program_(program), faults_(faults) {}

  void run() {
    for (std::size_t rank = 0; rank < job_.exchanges.size(); ++rank) check_groups(rank);
    check_messages();
  }

 private:
  const Group& group(std::size_t rank, std::size_t index) const {
    return job_.classes[job_.class_of[rank]].bundle->programs[program_].groups[index];
  }
  const Stops& stops(std::size_t rank) const { return job_.stops(rank, program_); }
  const Partners& partners(std::size_t rank) const { return job_.partners(rank, program_); }

  // --- collectives

  /// The first member in line compares all others with itself. Cost: linear in the members.
  void check_groups(std::size_t rank) {
    for (std::size_t index = 0; index < partners(rank).groups.size(); ++index) {
      const std::uint32_t name = partners(rank).groups[index];
      if (stops(rank).collectives[index].empty()) continue;
      if (compared_.contains(key(name, rank))) continue;
      for (const Rank rank_of_member : job_.communicators[name].members) {
        const std::size_t member = rank_of_member.index();
        if (member == rank || compared_.contains(key(name, member))) continue;
        if (member >= job_.exchanges.size()) continue;  // bounds
        const auto& theirs = partners(member).groups;
        const auto place = std::find(theirs.begin(), theirs.end(), name);
        if (place == theirs.end())
          report_other_group(rank, index, member);
        else
          compare(rank, index, member, static_cast<std::size_t>(place - theirs.begin()));
      }
      for (const Rank member : job_.communicators[name].members)
        compared_.insert(key(name, member.index()));
    }
  }

  void report_other_group(std::size_t rank, std::size_t index, std::size_t member) {
    std::string theirs = "has no such group";
    for (std::size_t i = 0; i < partners(member).groups.size(); ++i)
      if (group(member, i).name == group(rank, index).name)
        theirs = format("has group {}", job_.communicators.text(partners(member).groups[i]));
    faults_.push_back(
        job_.fault("groups", rank, program_, stops(rank).collectives[index].front(),
                   format("group {}, but rank {} {}",
                          job_.communicators.text(partners(rank).groups[index]), member, theirs)));
  }

  void compare(std::size_t rank, std::size_t index, std::size_t member, std::size_t other) {
    const auto& own_terms = job_.skeleton_of(rank, program_).collectives[index];
    const auto& their_terms = job_.skeleton_of(member, program_).collectives[other];
    if (&own_terms == &their_terms) return;
    const std::vector<std::uint32_t>&own = stops(rank).collectives[index],
          &theirs = stops(member).collectives[other];
    const std::size_t common = std::min(own.size(), theirs.size());
    for (std::size_t i = 0; i < common; ++i)
      if (own_terms[i] != their_terms[i]) {
        faults_.push_back(job_.fault(
            "matching", member, program_, theirs[i],
            format("it meets {} of rank {}, collective {} of group {}: {}, not {}",
                   job_.short_place(rank, program_, own[i]), rank, i, group(rank, index).name,
                   job_.terms.text(own_terms[i]), job_.terms.text(their_terms[i]))));
        return;
      }
    if (own.size() == theirs.size()) return;
    const bool more = own.size() > common;
    faults_.push_back(job_.fault(
        "matching", more ? rank : member, program_, (more ? own : theirs)[common],
        format("rank {} has no collective for it: {} of group {}, here {}", more ? member : rank,
               common, group(rank, index).name, std::max(own.size(), theirs.size()))));
  }

  // --- messages

  struct End {
    std::size_t rank = 0, index = 0;  // into the messages of the rank
  };
  struct Channel {
    std::vector<End> sends, recvs;
  };

  const Skeleton::Message& message(const End& end) const {
    return job_.skeleton_of(end.rank, program_).messages[end.index];
  }
  std::uint32_t window(const End& end) const {
    return job_.exchanges[end.rank][program_].windows[end.index];
  }
  std::uint32_t instruction(const End& end) const {
    return stops(end.rank).messages[end.index].instruction;
  }
  void fault(const End& end, std::string_view text) {
    faults_.push_back(job_.fault("matching", end.rank, program_, instruction(end), text));
  }

  void check_messages() {
    std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, Channel> channels;
    for (std::size_t rank = 0; rank < job_.exchanges.size(); ++rank)
      for (std::size_t i = 0; i < partners(rank).messages.size(); ++i) {
        const auto& [peer, tag] = partners(rank).messages[i];
        if (stops(rank).messages[i].is_send)
          channels[{rank, peer.index(), tag}].sends.push_back({rank, i});
        else
          channels[{peer.index(), rank, tag}].recvs.push_back({rank, i});
      }
    for (const auto& [key, channel] : channels) {
      const auto& [from, to, tag] = key;
      const std::size_t common = std::min(channel.sends.size(), channel.recvs.size());
      for (std::size_t i = 0; i < common; ++i) pair(channel.sends[i], channel.recvs[i]);
      if (channel.sends.size() > common)
        fault(channel.sends[common], format("rank {} has no recv of tag {} from rank {} for it, "
                                            "after {}",
                                            to, tag, from, common));
      if (channel.recvs.size() > common)
        fault(channel.recvs[common], format("rank {} has no send of tag {} to rank {} for it, "
                                            "after {}",
                                            from, tag, to, common));
    }
  }

  void pair(const End& send, const End& recv) {
    const Skeleton::Message &one = message(send), &other = message(recv);
    const std::uint32_t sent = window(send), wanted = window(recv);
    const std::string peer = format("rank {} in {}", send.rank,
                                    job_.short_place(send.rank, program_, instruction(send)));
    if (one.dtype != other.dtype || one.bytes != other.bytes)
      fault(recv,
            format("{} sends {} bytes of {}, it takes {} of {}", peer, one.bytes,
                   fourfold::to_string(one.dtype), other.bytes, fourfold::to_string(other.dtype)));
    else if (sent != wanted)
      fault(recv, format("{} sends {}, it takes {}", peer, job_.terms.text(sent),
                         job_.terms.text(wanted)));
    else if (one.micro && other.micro && one.micro != other.micro)
      fault(recv,
            format("{} sends it for micro-batch {}, it is of {}", peer, *one.micro, *other.micro));
    else if (other.is_shared && !one.is_shared)
      fault(recv, format("{} sends what is of one micro-batch, it is used for several", peer));
    else
      check_siblings(send, recv, peer);
  }

  /// What siblings receive in one place is one value: their peers send it from one buffer.
  void check_siblings(const End& send, const End& recv, const std::string& peer) {
    const Source source{job_.class_of[send.rank], message(send).buffer, send};
    const auto [place, inserted] =
        sources_.try_emplace({job_.class_of[recv.rank], recv.index}, source);
    const Source& first = place->second;
    if (inserted || first.in_class != source.in_class || first.buffer == source.buffer) return;
    fault(recv, format("{} sends another buffer than rank {} in {} sends a sibling of it", peer,
                       first.end.rank,
                       job_.short_place(first.end.rank, program_, instruction(first.end))));
  }

  struct Source {
    std::size_t in_class = 0;
    BufferId buffer;
    End end;
  };

  const CheckedJob& job_;
  std::size_t program_;
  std::vector<Fault>& faults_;
  static std::uint64_t key(std::uint32_t communicator, std::size_t rank) {
    return std::uint64_t{communicator} << 32U | rank;
  }
  std::unordered_set<std::uint64_t> compared_;  // members of communicators
  std::map<std::pair<std::size_t, std::size_t>, Source> sources_;
};

}  // namespace

void check_matching(const CheckedJob& job, std::size_t program, std::vector<Fault>& faults) {
  Matching(job, program, faults).run();
}

}  // namespace fourfold::verify
