#include "run/cuda/shared_gpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "kernels/cuda/reduce_members.h"

namespace fourfold::run::cuda {
namespace {

using comm::DeviceCollective;

/// What a member tells the others of its call; what it has of each tensor follows.
struct Offer {
  Collective kind;
  DType dtype;
  Reduction reduction;
  Event ready, done;  // its buffers may be worked on; it has worked on those of others
};
struct Sides {
  std::byte* from;
  std::size_t from_bytes;
  std::byte* to;
  std::size_t to_bytes;
};

/// What a sender tells the receiver.
struct Letter {
  const std::byte* from;
  std::size_t bytes;
  Event ready, taken;
};

/// What the members do of an all-reduce begins at multiples of this, so that no two members write
/// to one line of the device's cache (128 bytes).
constexpr std::size_t line_bytes = 128;

std::span<const std::byte> bytes_of(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

std::byte* SharedGpu::allocate(std::int64_t bytes) {
  DeviceMemory memory = make_memory(device_, bytes);
  const std::lock_guard lock(mutex_);
  return memory_.emplace_back(std::move(memory)).get();
}

Event SharedGpu::make_event() {
  OwnedEvent event = cuda::make_event(device_, Device::Timing::off);
  const std::lock_guard lock(mutex_);
  return events_.emplace_back(std::move(event)).get();
}

class SharedGpuWorld::Group : public comm::DeviceGroup {
 public:
  Group(SharedGpu& gpu, comm::Group& host)
      : device_(gpu.device()),
        host_(host),
        ready_(gpu.make_event()),
        done_(gpu.make_event()),
        terms_(host.size()),
        results_(host.size()) {
    require(host.size() <= kernels::cuda::most_members,
            "a group of ranks that share a GPU has no more members than a kernel takes");
  }

  const comm::Group& host() const { return host_; }

  void enqueue(const DeviceCollective& what, Stream stream) override {
    device_.record(ready_, stream);
    exchange(what);
    for (std::size_t i = 0; i < size(); ++i)
      if (i != host_.position()) device_.wait(stream, offer(i).ready);
    for (std::size_t tensor = 0; tensor < what.to.size(); ++tensor) work(what, tensor, stream);
    device_.record(done_, stream);
    // All have recorded that before anybody waits for it, and have waited for what was ready.
    meet();
    for (std::size_t i = 0; i < size(); ++i)
      if (i != host_.position()) device_.wait(stream, offer(i).done);
  }

 private:
  std::size_t size() const { return host_.size(); }

  /// What every member offers, in their order.
  void exchange(const DeviceCollective& what) {
    const std::size_t tensors = what.to.size();
    stride_ = sizeof(Offer) + tensors * sizeof(Sides);
    own_.resize(stride_);
    all_.resize(stride_ * size());
    const Offer own{what.kind, what.dtype, what.reduction, ready_, done_};
    std::memcpy(own_.data(), &own, sizeof own);
    for (std::size_t i = 0; i < tensors; ++i) {
      const Sides sides{what.from[i].data(), what.from[i].size(), what.to[i].data(),
                        what.to[i].size()};
      std::memcpy(own_.data() + sizeof own + i * sizeof sides, &sides, sizeof sides);
    }
    host_.all_gather(std::as_bytes(std::span(own_)), std::as_writable_bytes(std::span(all_)));
    check_offers(own, tensors);
  }

  void meet() {
    constexpr std::byte here{1};
    met_.resize(size());
    host_.all_gather(bytes_of(here), met_);
  }

  Offer offer(std::size_t member) const {
    Offer offer;
    std::memcpy(&offer, all_.data() + member * stride_, sizeof offer);
    return offer;
  }
  Sides sides(std::size_t member, std::size_t tensor) const {
    Sides sides;
    std::memcpy(&sides, all_.data() + member * stride_ + sizeof(Offer) + tensor * sizeof sides,
                sizeof sides);
    return sides;
  }

  void check_offers(const Offer& own, std::size_t tensors) const {
    for (std::size_t i = 0; i < size(); ++i) {
      const Offer other = offer(i);
      bool is_same =
          other.kind == own.kind && other.dtype == own.dtype && other.reduction == own.reduction;
      for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
        const Sides ours = sides(host_.position(), tensor), theirs = sides(i, tensor);
        is_same =
            is_same && ours.from_bytes == theirs.from_bytes && ours.to_bytes == theirs.to_bytes;
      }
      if (!is_same)
        throw UserError(
            ExitCode::ranks_disagree,
            format("the members of group {} call different collectives: rank {} {}, rank {} {} or "
                   "one of other sizes; their programs do not fit together",
                   host_.name(), host_.members()[host_.position()].index(), to_string(own.kind),
                   host_.members()[i].index(), to_string(other.kind)));
    }
  }

  /// What this member does of one tensor.
  void work(const DeviceCollective& what, std::size_t tensor, Stream stream) {
    const Sides own = sides(host_.position(), tensor);
    const CollectiveFacts& facts = facts_of(what.kind);
    if (facts.is_in_place()) {
      reduce_in_place(what, tensor, own, stream);
    } else if (facts.reduces()) {
      for (std::size_t i = 0; i < size(); ++i)
        terms_[i] = sides(i, tensor).from + host_.position() * own.to_bytes;
      results_[0] = own.to;
      reduce(what, own.to_bytes, 1, stream);
    } else {
      const std::size_t bytes = facts.scatters() ? own.from_bytes / size() : own.from_bytes;
      const std::size_t first = facts.scatters() ? host_.position() * bytes : 0;
      for (std::size_t i = 0; i < size(); ++i)
        copy(own.to + i * bytes, sides(i, tensor).from + first, bytes, stream);
    }
  }

  /// Some elements are this member's: it reads them in all buffers and writes them there, each by
  /// one thread of its kernel.
  void reduce_in_place(const DeviceCollective& what, std::size_t tensor, const Sides& own,
                       Stream stream) {
    const std::size_t equal = (own.to_bytes + size() - 1) / size();
    const std::size_t whole = (equal + line_bytes - 1) / line_bytes * line_bytes;
    const std::size_t begin = std::min(host_.position() * whole, own.to_bytes);
    const std::size_t end = std::min(begin + whole, own.to_bytes);
    for (std::size_t i = 0; i < size(); ++i) {
      results_[i] = sides(i, tensor).to + begin;
      terms_[i] = results_[i];
    }
    reduce(what, end - begin, size(), stream);
  }

  void reduce(const DeviceCollective& what, std::size_t bytes, std::size_t results, Stream stream) {
    const auto count = static_cast<std::int64_t>(bytes) / size_bytes(what.dtype);
    kernels::cuda::reduce_members(terms_, std::span(results_).first(results), count, what.dtype,
                                  what.reduction, stream);
  }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stream stream) {
    if (bytes > 0 && to != from) device_.copy(dense(to, from, bytes), stream);
  }

  Device& device_;
  comm::Group& host_;
  Event ready_, done_;
  std::vector<const std::byte*> terms_;
  std::vector<std::byte*> results_;
  std::size_t stride_ = 0;
  std::vector<std::byte> own_, all_, met_;
};

SharedGpuWorld::SharedGpuWorld(SharedGpu& gpu, comm::World& world) : gpu_(gpu), world_(world) {}
SharedGpuWorld::~SharedGpuWorld() = default;

void SharedGpuWorld::create_groups(std::span<const comm::GroupSpec> specs) {
  world_.create_groups(specs);
  for (const comm::GroupSpec& spec : specs) {
    if (std::ranges::find(spec.members, world_.rank()) == spec.members.end()) continue;
    groups_.push_back(std::make_unique<Group>(gpu_, world_.group(spec.members, spec.name)));
  }
}

comm::DeviceGroup& SharedGpuWorld::group(std::span<const Rank> members, std::string_view name) {
  for (const auto& group : groups_)
    if (group->host().name() == name && std::ranges::equal(group->host().members(), members))
      return *group;
  fail_internal(
      format("the group {} of {} ranks was made before it is used", name, members.size()));
}

SharedGpuWorld::Events SharedGpuWorld::events_of(Stream stream) {
  const std::lock_guard lock(mutex_);
  Events& events = events_[stream];
  if (events.ready == nullptr) events = {gpu_.make_event(), gpu_.make_event()};
  return events;
}

void SharedGpuWorld::send(Rank peer, int tag, std::span<const std::byte> bytes, Stream stream) {
  const Events events = events_of(stream);
  gpu_.device().record(events.ready, stream);
  const Letter letter{bytes.data(), bytes.size(), events.ready, events.taken};
  world_.send(peer, tag, bytes_of(letter));
  // The receiver takes this one when it has given the device its copy.
  constexpr std::byte over{1};
  world_.send(peer, tag, bytes_of(over));
  gpu_.device().wait(stream, events.taken);
}

void SharedGpuWorld::recv(Rank peer, int tag, std::span<std::byte> bytes, Stream stream) {
  Letter letter{};
  world_.recv(peer, tag, std::as_writable_bytes(std::span(&letter, 1)));
  if (letter.bytes != bytes.size())
    throw UserError(ExitCode::ranks_disagree,
                    format("rank {} sends {} bytes to rank {} with tag {}, which expects {}; their "
                           "programs do not fit together",
                           peer.index(), letter.bytes, world_.rank().index(), tag, bytes.size()));
  Device& device = gpu_.device();
  device.wait(stream, letter.ready);
  if (!bytes.empty()) device.copy(dense(bytes.data(), letter.from, bytes.size()), stream);
  device.record(letter.taken, stream);
  std::byte over{};
  world_.recv(peer, tag, {&over, 1});
}

}  // namespace fourfold::run::cuda
