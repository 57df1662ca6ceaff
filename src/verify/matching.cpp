// groups, matching: whether ranks meet in the same collectives and messages.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "base/format.h"
#include "verify/exchange.h"

namespace fourfold::verify {
namespace {

class Matching {
 public:
  Matching(const CheckedJob& job, std::size_t program, std::vector<Fault>& faults)
      : job_(job), program_(program), faults_(faults), came_from_(job.exchanges.size()) {
    for (std::size_t i = 0; i < job.classes.size(); ++i) {
      numbers_of_meshes_.push_back(number_of_meshes(i));
      const Values& values = job.classes[i].skeletons[program].values;
      auto& list = passed_on_.emplace_back(values.received.size());
      for (std::size_t message = 0; message < values.messages.size(); ++message)
        if (const auto received = values.messages[message].received;
            received && job.classes[i].skeletons[program].stops.messages[message].is_send)
          list[*received].push_back(message);
    }
  }

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

  const Skeleton& skeleton(const End& end) const { return job_.skeleton_of(end.rank, program_); }
  const Skeleton::Message& message(const End& end) const {
    return skeleton(end).messages[end.index];
  }
  const Carried& carried(const End& end) const { return skeleton(end).values.messages[end.index]; }
  std::uint32_t window(const End& end) const {
    return job_.exchanges[end.rank][program_].windows[end.index];
  }
  std::uint32_t instruction(const End& end) const {
    return stops(end.rank).messages[end.index].instruction;
  }
  std::string text(const End& end) const {
    return format("rank {} in {}", end.rank,
                  job_.short_place(end.rank, program_, instruction(end)));
  }
  void fault(const End& end, std::string_view text) {
    faults_.push_back(job_.fault("matching", end.rank, program_, instruction(end), text));
  }

  void check_messages() {
    std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, Channel> channels;
    for (std::size_t rank = 0; rank < job_.exchanges.size(); ++rank) {
      receivers_.emplace_back(partners(rank).messages.size());
      came_from_[rank].resize(job_.skeleton_of(rank, program_).values.received.size());
      for (std::size_t i = 0; i < partners(rank).messages.size(); ++i) {
        const auto& [peer, tag] = partners(rank).messages[i];
        if (stops(rank).messages[i].is_send)
          channels[{rank, peer.index(), tag}].sends.push_back({rank, i});
        else
          channels[{peer.index(), rank, tag}].recvs.push_back({rank, i});
      }
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
    follow_values();
  }

  void pair(const End& send, const End& recv) {
    const Skeleton::Message &one = message(send), &other = message(recv);
    const std::uint32_t sent = window(send), wanted = window(recv);
    if (one.dtype != other.dtype || one.bytes != other.bytes)
      fault(recv,
            format("{} sends {} bytes of {}, it takes {} of {}", text(send), one.bytes,
                   fourfold::to_string(one.dtype), other.bytes, fourfold::to_string(other.dtype)));
    else if (sent != wanted)
      fault(recv, format("{} sends {}, it takes {}", text(send), job_.terms.text(sent),
                         job_.terms.text(wanted)));
    else
      receivers_[send.rank][send.index] = recv;
  }

  // --- the values that messages carry, from where they are made to all who pass them on

  struct Origin {
    End send;              // who has made the value
    std::size_t mesh = 0;  // number of the meshes that it stands on
    std::uint64_t made = 0;
    std::optional<std::int64_t> micro;
    bool is_same(const Origin& other) const { return is_alike(other) && micro == other.micro; }
    /// The same but for the micro-batch.
    bool is_alike(const Origin& other) const { return mesh == other.mesh && made == other.made; }
  };
  /// How a value came to a rank first.
  struct Arrival {
    std::size_t origin = 0;  // index into origins_
    End send, recv;
  };

  /// Cost: linear in the messages, each of which is looked at when it is known what it carries.
  void follow_values() {
    for (std::size_t rank = 0; rank < receivers_.size(); ++rank)
      for (std::size_t i = 0; i < receivers_[rank].size(); ++i) {
        const End send{rank, i};
        if (!receivers_[rank][i] || carried(send).received) continue;
        origins_.push_back({send, numbers_of_meshes_[job_.class_of[rank]], carried(send).made,
                            carried(send).micro});
        deliver(origins_.size() - 1, send);
      }
    for (std::size_t next = 0; next < to_pass_on_.size(); ++next) {
      const auto [rank, received] = to_pass_on_[next];
      for (const std::size_t message : passed_on_[job_.class_of[rank]][received])
        if (receivers_[rank][message]) deliver(came_from_[rank][received]->origin, {rank, message});
    }
  }

  void deliver(std::size_t number, const End& send) {
    const End recv = *receivers_[send.rank][send.index];
    const Origin& origin = origins_[number];
    if (!carried(recv).received) return;  // it stands outside of all tasks
    const std::uint32_t received = *carried(recv).received;
    const std::optional<std::int64_t> micro = carried(recv).micro;
    std::optional<Arrival>& first = came_from_[recv.rank][received];
    const bool is_first = !first.has_value();
    if (is_first) {
      first = Arrival{number, send, recv};
      to_pass_on_.emplace_back(recv.rank, received);
    }
    if (origin.micro && micro && origin.micro != micro)
      fault(recv, format("{} sends it for micro-batch {}, it is of {}", text(send), *origin.micro,
                         *micro));
    else if (origin.micro && !micro && skeleton(origin.send).values.num_micros > 1)
      fault(recv, format("{} sends what is of micro-batch {} alone, it is taken for a sum over all",
                         text(send), *origin.micro));
    else if (origin.micro && skeleton(recv).values.received[received].is_shared)
      fault(recv,
            format("{} sends what is of one micro-batch, it is used for several", text(send)));
    else if (!is_first && !origins_[first->origin].is_same(origin))
      fault(recv, format("{} sends a box of another value than {}, from which other boxes of it "
                         "come",
                         text(send), text(first->send)));
    else if (is_first)
      check_siblings(*first, skeleton(recv).values.received[received].name);
  }

  /// What the ranks of a mesh receive in one place is one value, and of one kind in all
  /// micro-batches.
  void check_siblings(const Arrival& arrival, std::uint64_t name) {
    const std::size_t mesh = numbers_of_meshes_[job_.class_of[arrival.recv.rank]];
    const auto [place, inserted] = on_mesh_.try_emplace({mesh, name}, arrival);
    const Arrival& first = place->second;
    if (inserted || origins_[first.origin].is_alike(origins_[arrival.origin])) return;
    fault(arrival.recv, format("{} sends another value than {} sends a sibling of it",
                               text(arrival.send), text(first.send)));
  }

  /// Equal for classes that stand on the same meshes.
  std::size_t number_of_meshes(std::size_t of_class) {
    const Program& program = job_.classes[of_class].bundle->programs[program_];
    std::vector<bool> has;
    for (const Mesh& mesh : program.meshes) has.push_back(mesh.ranks.has(program.rank));
    return meshes_.try_emplace(std::move(has), meshes_.size()).first->second;
  }

  const CheckedJob& job_;
  std::size_t program_;
  std::vector<Fault>& faults_;
  static std::uint64_t key(std::uint32_t communicator, std::size_t rank) {
    return std::uint64_t{communicator} << 32U | rank;
  }
  std::unordered_set<std::uint64_t> compared_;  // members of communicators
  std::map<std::vector<bool>, std::size_t> meshes_;
  std::vector<std::size_t> numbers_of_meshes_;                    // of each class
  std::vector<std::vector<std::vector<std::size_t>>> passed_on_;  // messages, by class and value
  std::vector<std::vector<std::optional<End>>> receivers_;        // by rank and message
  std::vector<Origin> origins_;
  std::vector<std::vector<std::optional<Arrival>>> came_from_;        // by rank and value
  std::vector<std::pair<std::size_t, std::uint32_t>> to_pass_on_;     // rank and value
  std::map<std::pair<std::size_t, std::uint64_t>, Arrival> on_mesh_;  // by meshes and name
};

}  // namespace

void check_matching(const CheckedJob& job, std::size_t program, std::vector<Fault>& faults) {
  Matching(job, program, faults).run();
}

}  // namespace fourfold::verify
