#include "run/cuda/staged_world.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "run/program_groups.h"

namespace fourfold::run::cuda {

using comm::DeviceCollective;

/// Pinned memory that one stream copies to and from, a piece at a time.
class StagedWorld::Place {
 public:
  explicit Place(Device& device)
      : device_(device), taken_(cuda::make_event(device, Device::Timing::off)) {}

  /// Waits until nothing is copied from here or to here any more; the memory is as large as that,
  /// for so many pieces.
  void prepare(std::size_t bytes, std::size_t pieces) {
    finish();
    while (brought_.size() < pieces)
      brought_.push_back(cuda::make_event(device_, Device::Timing::off));
    if (bytes <= size_) return;
    memory_ = make_pinned(device_, static_cast<std::int64_t>(bytes));
    size_ = bytes;
  }
  std::span<std::byte> bytes(std::size_t first, std::size_t bytes) const {
    return {memory_.get() + first, bytes};
  }
  /// Rows from the device, which lie dense here, and back.
  void bring(const RowCopy& copy, Stream stream) { device_.copy(copy, stream); }
  void take(const RowCopy& copy, Stream stream) {
    device_.copy(copy, stream);
    device_.record(taken_.get(), stream);
    is_taking_ = true;
  }
  /// After the last row of a piece was brought; and until it is there.
  void note_brought(std::size_t piece, Stream stream) {
    device_.record(brought_[piece].get(), stream);
  }
  void wait_for(std::size_t piece) { device_.synchronize(brought_[piece].get()); }

 private:
  void finish() {
    if (is_taking_) device_.synchronize(taken_.get());
    is_taking_ = false;
  }

  Device& device_;
  OwnedEvent taken_;
  std::vector<OwnedEvent> brought_;  // of each piece
  PinnedMemory memory_;
  std::size_t size_ = 0;
  bool is_taking_ = false;
};

namespace {

/// Rows begin where vector instructions like them, and between elements of all types.
constexpr std::size_t piece_alignment = 64;

/// What all members have in one piece of a tensor: so many bytes of each member's part of it, from
/// the first one on.
struct Cut {
  std::size_t tensor = 0, first = 0, bytes = 0;
};

/// How many members' parts lie on each side of a collective.
struct Sides {
  std::size_t from = 1, to = 1;
};
Sides sides_of(Collective kind, std::size_t members) {
  const CollectiveFacts& facts = facts_of(kind);
  return {facts.shares_before(members), facts.shares_after(members)};
}

/// A part of each row of a tensor, to pinned memory where these rows lie dense.
RowCopy rows_to(std::byte* here, comm::Bytes tensor, std::size_t rows, const Cut& cut) {
  const auto bytes = static_cast<std::int64_t>(cut.bytes);
  return {here,
          bytes,
          tensor.data() + cut.first,
          static_cast<std::int64_t>(tensor.size() / rows),
          bytes,
          static_cast<std::int64_t>(rows)};
}
RowCopy rows_back(const std::byte* here, comm::Bytes tensor, std::size_t rows, const Cut& cut) {
  const RowCopy out = rows_to(nullptr, tensor, rows, cut);
  return {tensor.data() + cut.first, out.from_pitch, here, out.to_pitch, out.row_bytes, out.rows};
}

}  // namespace

class StagedWorld::Group : public comm::DeviceGroup {
 public:
  Group(Device& device, comm::Group& host, const comm::GroupSpec& spec, std::size_t piece_bytes)
      : host_(host), piece_bytes_(piece_bytes), place_(device) {
    const auto bytes = static_cast<std::size_t>(staged_bytes(spec));
    place_.prepare(bytes, bytes / piece_bytes + 1);
  }

  const comm::Group& host() const { return host_; }

  void enqueue(const DeviceCollective& what, Stream stream) override {
    lay_out(what);
    for (std::size_t i = 0; i < num_pieces_; ++i) {
      for (std::size_t k = 0; k < pieces_[i].cuts.size(); ++k) {
        const Cut& cut = pieces_[i].cuts[k];
        place_.bring(rows_to(pieces_[i].from[k].data(), what.from[cut.tensor], sides_.from, cut),
                     stream);
      }
      place_.note_brought(i, stream);
    }
    for (std::size_t i = 0; i < num_pieces_; ++i) {
      place_.wait_for(i);
      host_.carry_out(what.kind, pieces_[i].from, pieces_[i].to, what.dtype, what.reduction);
      for (std::size_t k = 0; k < pieces_[i].cuts.size(); ++k) {
        const Cut& cut = pieces_[i].cuts[k];
        place_.take(rows_back(pieces_[i].to[k].data(), what.to[cut.tensor], sides_.to, cut),
                    stream);
      }
    }
  }

 private:
  /// What is exchanged at once: of one tensor, or small tensors together. Both sides in pinned
  /// memory; where a collective works in place they are the same.
  struct Piece {
    std::vector<Cut> cuts;
    std::vector<comm::Bytes> from, to;
  };

  /// Cuts are the same on all ranks, as they follow from sizes.
  void cut_up(const DeviceCollective& what) {
    const std::size_t rows = std::max(sides_.from, sides_.to);
    const std::size_t most =
        std::max(piece_bytes_ / rows / piece_alignment * piece_alignment, piece_alignment);
    num_pieces_ = 0;
    std::size_t room = 0;
    for (std::size_t tensor = 0; tensor < what.from.size(); ++tensor) {
      const std::size_t share = what.from[tensor].size() / sides_.from;
      for (std::size_t first = 0; first < share; first += most) {
        const std::size_t bytes = std::min(most, share - first);
        if (bytes > room) {
          room = most;
          if (pieces_.size() == num_pieces_) pieces_.emplace_back();
          Piece& piece = pieces_[num_pieces_++];
          piece.cuts.clear();
          piece.from.clear();
          piece.to.clear();
        }
        pieces_[num_pieces_ - 1].cuts.push_back({tensor, first, bytes});
        room -= bytes;
      }
    }
  }

  void lay_out(const DeviceCollective& what) {
    sides_ = sides_of(what.kind, host_.size());
    cut_up(what);
    const bool is_one_side = facts_of(what.kind).is_in_place();
    std::size_t bytes = 0;
    for (const comm::Bytes& side : what.from) bytes += side.size();
    for (const comm::Bytes& side : what.to) bytes += is_one_side ? 0 : side.size();
    place_.prepare(bytes, num_pieces_);
    std::size_t next = 0;
    const auto lay = [&](std::size_t rows, const Cut& cut) {
      const std::size_t first = next;
      next += rows * cut.bytes;
      return place_.bytes(first, rows * cut.bytes);
    };
    for (std::size_t i = 0; i < num_pieces_; ++i) {
      Piece& piece = pieces_[i];
      for (const Cut& cut : piece.cuts) piece.from.push_back(lay(sides_.from, cut));
      if (is_one_side)
        piece.to = piece.from;
      else
        for (const Cut& cut : piece.cuts) piece.to.push_back(lay(sides_.to, cut));
    }
  }

  comm::Group& host_;
  std::size_t piece_bytes_;
  Place place_;
  Sides sides_;
  std::vector<Piece> pieces_;  // more than num_pieces_ where others had more
  std::size_t num_pieces_ = 0;
};

StagedWorld::StagedWorld(Device& device, comm::World& world, const StagedOptions& options)
    : device_(device), world_(world), options_(options) {}
StagedWorld::~StagedWorld() = default;

void StagedWorld::create_groups(std::span<const comm::GroupSpec> specs) {
  world_.create_groups(specs);
  for (const comm::GroupSpec& spec : specs) {
    if (std::ranges::find(spec.members, world_.rank()) == spec.members.end()) continue;
    const auto is_same = [&](const auto& group) {
      return group->host().name() == spec.name &&
             std::ranges::equal(group->host().members(), spec.members);
    };
    if (std::ranges::any_of(groups_, is_same)) continue;
    groups_.push_back(std::make_unique<Group>(device_, world_.group(spec.members, spec.name), spec,
                                              options_.piece_bytes));
  }
}

comm::DeviceGroup& StagedWorld::group(std::span<const Rank> members, std::string_view name) {
  for (const auto& group : groups_)
    if (group->host().name() == name && std::ranges::equal(group->host().members(), members))
      return *group;
  fail_internal(
      format("the group {} of {} ranks was made before it is used", name, members.size()));
}

StagedWorld::Place& StagedWorld::place_of(Stream stream) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Place>& place = places_[stream];
  if (place == nullptr) place = std::make_unique<Place>(device_);
  return *place;
}

void StagedWorld::send(Rank peer, int tag, std::span<const std::byte> bytes, Stream stream) {
  Place& place = place_of(stream);
  if (options_.messages == StagedOptions::Messages::of_device_memory) {
    place.prepare(0, 1);
    place.note_brought(0, stream);
    place.wait_for(0);
    return world_.send(peer, tag, bytes);
  }
  const std::size_t most = options_.piece_bytes, pieces = (bytes.size() + most - 1) / most;
  place.prepare(bytes.size(), pieces);
  const auto piece_of = [&](auto whole, std::size_t piece) {
    return whole.subspan(piece * most, std::min(most, whole.size() - piece * most));
  };
  const std::span<std::byte> here = place.bytes(0, bytes.size());
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::span<const std::byte> from = piece_of(bytes, piece);
    place.bring(dense(piece_of(here, piece).data(), from.data(), from.size()), stream);
    place.note_brought(piece, stream);
  }
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    place.wait_for(piece);
    world_.send(peer, tag, piece_of(here, piece));
  }
}

void StagedWorld::recv(Rank peer, int tag, std::span<std::byte> bytes, Stream stream) {
  Place& place = place_of(stream);
  if (options_.messages == StagedOptions::Messages::of_device_memory) {
    // What the stream does with these bytes until now comes before the library writes them.
    place.prepare(0, 1);
    place.note_brought(0, stream);
    place.wait_for(0);
    return world_.recv(peer, tag, bytes);
  }
  const std::size_t most = options_.piece_bytes;
  place.prepare(bytes.size(), 0);
  const std::span<std::byte> here = place.bytes(0, bytes.size());
  for (std::size_t first = 0; first < bytes.size(); first += most) {
    const std::size_t size = std::min(most, bytes.size() - first);
    world_.recv(peer, tag, here.subspan(first, size));
    place.take(dense(bytes.data() + first, here.data() + first, size), stream);
  }
}

}  // namespace fourfold::run::cuda
