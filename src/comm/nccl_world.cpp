#include "comm/nccl_world.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::comm {
namespace {

/// As a communicator of a channel names them.
constexpr int sender = 0, receiver = 1;

Party party_of(const Channel& channel, Rank own) {
  const Rank from = channel.sends ? own : channel.peer, to = channel.sends ? channel.peer : own;
  return {format("messages of tag {}", channel.tag), {from, to}};
}

std::string_view nccl_name(Collective kind) {
  const CollectiveFacts& facts = facts_of(kind);
  if (facts.is_in_place()) return "ncclAllReduce";
  if (facts.reduces()) return "ncclReduceScatter";
  return facts.path == Path::direct ? "ncclSend and ncclRecv" : "ncclAllGather";
}

}  // namespace

/// One group, as this rank sees it.
class NcclWorld::Members : public DeviceGroup {
 public:
  Members(NcclCommunicators& communicators, NcclCommunicators::Made made)
      : communicators_(communicators),
        party_(std::move(made.party)),
        what_(to_string(party_)),
        comm_(made.comm) {
    const auto place = std::ranges::find(party_.members, communicators.world().rank());
    position_ = static_cast<std::size_t>(place - party_.members.begin());
  }

  const Party& party() const { return party_; }

  void enqueue(const DeviceCollective& collective, DeviceStream stream) override {
    check_sizes(collective);
    communicators_.carry_out(comm_, what_, [&]() -> NcclCommunicators::Answer {
      return {enqueue_calls(collective, stream), nccl_name(collective.kind)};
    });
  }

 private:
  NcclResult enqueue_calls(const DeviceCollective& collective, DeviceStream stream) const {
    const NcclApi& api = communicators_.api();
    const bool is_group =
        collective.from.size() != 1 || facts_of(collective.kind).path == Path::direct;
    NcclResult result = is_group ? api.group_start() : NcclResult::success;
    for (std::size_t i = 0; i < collective.from.size() && is_under_way(result); ++i)
      if (!collective.from[i].empty()) result = call(collective, i, stream);
    if (is_group) {
      // Also after an error: what a thread has begun, it ends.
      const NcclResult ended = api.group_end();
      if (is_under_way(result)) result = ended;
    }
    return result;
  }

  static bool is_under_way(NcclResult result) {
    return result == NcclResult::success || result == NcclResult::in_progress;
  }

  void check_sizes(const DeviceCollective& what) const {
    require(what.from.size() == what.to.size(), "both sides of a collective have as many tensors");
    const CollectiveFacts& facts = facts_of(what.kind);
    const std::size_t width = facts.reduces() ? width_of(what) : 1;
    for (std::size_t i = 0; i < what.from.size(); ++i) {
      const std::size_t from = what.from[i].size(), to = what.to[i].size();
      require(facts.fits(from, to, party_.members.size()),
              "a collective moves an equal part of each tensor for each member");
      require(from % width == 0 && to % width == 0, "a collective moves whole elements");
    }
  }

  static std::size_t width_of(const DeviceCollective& what) {
    return static_cast<std::size_t>(size_bytes(what.dtype));
  }

  NcclResult call(const DeviceCollective& what, std::size_t i, DeviceStream stream) const {
    const NcclApi& api = communicators_.api();
    const Bytes from = what.from[i], to = what.to[i];
    const CollectiveFacts& facts = facts_of(what.kind);
    if (facts.is_in_place())
      return api.all_reduce(from.data(), to.data(), to.size() / width_of(what),
                            nccl_type(what.dtype), nccl_reduction(what.reduction), comm_, stream);
    if (facts.reduces())
      return api.reduce_scatter(from.data(), to.data(), to.size() / width_of(what),
                                nccl_type(what.dtype), nccl_reduction(what.reduction), comm_,
                                stream);
    if (facts.path == Path::direct) return exchange(from, to, stream);
    return api.all_gather(from.data(), to.data(), from.size(), NcclType::u8, comm_, stream);
  }

  NcclResult exchange(Bytes from, Bytes to, DeviceStream stream) const {
    const NcclApi& api = communicators_.api();
    const std::size_t n = party_.members.size(), part = to.size() / n;
    // A member that holds one part sends it to all.
    const std::size_t step = from.size() == to.size() ? part : 0;
    NcclResult result = NcclResult::success;
    // Begins with its own part and goes round, so that not all send to one member.
    for (std::size_t k = 0; k < n && is_under_way(result); ++k) {
      const std::size_t to_whom = (position_ + k) % n, from_whom = (position_ + n - k) % n;
      result = api.send(from.data() + to_whom * step, part, NcclType::u8, static_cast<int>(to_whom),
                        comm_, stream);
      if (is_under_way(result))
        result = api.recv(to.data() + from_whom * part, part, NcclType::u8,
                          static_cast<int>(from_whom), comm_, stream);
    }
    return result;
  }

  NcclCommunicators& communicators_;
  Party party_;
  std::string what_;
  NcclComm comm_;
  std::size_t position_ = 0;
};

NcclWorld::NcclWorld(World& world, const NcclApi& api, const NcclOptions& options)
    : communicators_(world, api, options) {}

NcclWorld::~NcclWorld() = default;

void NcclWorld::create_groups(std::span<const GroupSpec> specs) {
  std::vector<Party> own;
  for (const GroupSpec& spec : specs) own.push_back({spec.name, spec.members});
  for (auto& made : communicators_.make(own, NcclCommunicators::Use::collectives))
    groups_.push_back(std::make_unique<Members>(communicators_, std::move(made)));
}

DeviceGroup& NcclWorld::group(std::span<const Rank> members, std::string_view name) {
  for (const auto& group : groups_)
    if (group->party().name == name && std::ranges::equal(group->party().members, members))
      return *group;
  fail_internal(
      format("the group {} of {} ranks was made before it is used", name, members.size()));
}

void NcclWorld::create_channels(std::span<const Channel> channels) {
  const Rank own = communicators_.world().rank();
  std::vector<Party> parties;
  for (const Channel& channel : channels) {
    require(channel.peer != own, "a message goes to another rank");
    parties.push_back(party_of(channel, own));
  }
  for (const auto& made : communicators_.make(parties, NcclCommunicators::Use::messages))
    for (const Channel& channel : channels)
      if (party_of(channel, own) == made.party)
        pairs_.insert_or_assign({channel.peer, channel.tag, channel.sends},
                                Pair{made.comm, to_string(made.party)});
}

std::byte* NcclWorld::allocate(std::int64_t bytes) {
  return communicators_.allocate(static_cast<std::size_t>(bytes));
}

const NcclWorld::Pair& NcclWorld::pair(Rank peer, int tag, bool sends) const {
  const auto place = pairs_.find({peer, tag, sends});
  require(place != pairs_.end(), [&] {
    return format("messages of tag {} {} rank {} have a channel", tag, sends ? "to" : "from",
                  peer.index());
  });
  return place->second;
}

void NcclWorld::send(Rank peer, int tag, std::span<const std::byte> bytes, DeviceStream stream) {
  const Pair& way = pair(peer, tag, true);
  if (bytes.empty()) return;
  communicators_.carry_out(way.comm, way.what, [&]() -> NcclCommunicators::Answer {
    return {communicators_.api().send(bytes.data(), bytes.size(), NcclType::u8, receiver, way.comm,
                                      stream),
            "ncclSend"};
  });
}

void NcclWorld::recv(Rank peer, int tag, std::span<std::byte> bytes, DeviceStream stream) {
  const Pair& way = pair(peer, tag, false);
  if (bytes.empty()) return;
  communicators_.carry_out(way.comm, way.what, [&]() -> NcclCommunicators::Answer {
    return {communicators_.api().recv(bytes.data(), bytes.size(), NcclType::u8, sender, way.comm,
                                      stream),
            "ncclRecv"};
  });
}

void NcclWorld::check() {
  communicators_.check();
}

void NcclWorld::abort() {
  communicators_.abort();
}

}  // namespace fourfold::comm
