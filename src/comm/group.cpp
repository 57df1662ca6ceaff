#include "comm/group.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::comm {
namespace {

/// True if two pieces of memory share a byte.
bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}

void require_whole_elements(std::size_t bytes, DType type) {
  require(bytes % static_cast<std::size_t>(size_bytes(type)) == 0,
          "a collective moves whole elements");
}

std::size_t total_bytes(std::span<const Bytes> tensors) {
  std::size_t total = 0;
  for (const Bytes tensor : tensors) total += tensor.size();
  return total;
}

/// Copies equal parts of tensors into `packed`: the first part of each tensor, then the second of
/// each, and so on.
void pack(std::span<const Bytes> tensors, std::size_t parts, Bytes packed) {
  for (std::size_t part = 0; part < parts; ++part)
    for (const Bytes tensor : tensors) {
      const std::size_t bytes = tensor.size() / parts;
      if (bytes != 0) std::memcpy(packed.data(), tensor.data() + part * bytes, bytes);
      packed = packed.subspan(bytes);
    }
}
/// The way back.
void unpack(Bytes packed, std::size_t parts, std::span<const Bytes> tensors) {
  for (std::size_t part = 0; part < parts; ++part)
    for (const Bytes tensor : tensors) {
      const std::size_t bytes = tensor.size() / parts;
      if (bytes != 0) std::memcpy(tensor.data() + part * bytes, packed.data(), bytes);
      packed = packed.subspan(bytes);
    }
}

}  // namespace

Group::Group(GroupSpec spec, std::size_t position)
    : spec_(std::move(spec)),
      position_(position),
      packed_(static_cast<std::size_t>(spec_.largest_list_bytes)) {
  require(position < size(), "a rank is a member of the groups it makes");
}

void Group::all_reduce(std::span<std::byte> data, DType type, Reduction reduction) {
  carry_out_one(Collective::all_reduce, data, data, type, reduction);
}

void Group::reduce_scatter(std::span<const std::byte> from, std::span<std::byte> to, DType type,
                           Reduction reduction) {
  carry_out_one(Collective::reduce_scatter, from, to, type, reduction);
}

void Group::all_gather(std::span<const std::byte> from, std::span<std::byte> to) {
  carry_out_one(Collective::all_gather, from, to, DType::u8, Reduction::sum);
}

void Group::all_to_all(std::span<const std::byte> from, std::span<std::byte> to) {
  carry_out_one(Collective::all_to_all, from, to, DType::u8, Reduction::sum);
}

void Group::check(Collective kind, std::span<const std::byte> from, std::span<const std::byte> to,
                  DType type) const {
  const CollectiveFacts& facts = facts_of(kind);
  require(facts.fits(from.size(), to.size(), size()), [&] {
    return format("{} moves an equal part of a tensor for each of {} members, not {} bytes to {}",
                  facts.name, size(), from.size(), to.size());
  });
  if (facts.reduces()) require_whole_elements(to.size(), type);
  if (facts.is_in_place()) {
    require(from.data() == to.data(), "both sides of a collective in place are one tensor");
  } else if (from.size() == to.size() && size() > 1) {
    require(!overlap(from, to),
            [&] { return format("{} writes elsewhere than it reads", facts.name); });
  } else {
    // The smaller side may be this rank's part of the larger one.
    const auto smaller = from.size() < to.size() ? from : to,
               larger = from.size() < to.size() ? to : from;
    const auto mine = larger.subspan(position_ * smaller.size(), smaller.size());
    require(mine.data() == smaller.data() || !overlap(from, to), [&] {
      return format("{} works on its own part in place, or writes elsewhere than it reads",
                    facts.name);
    });
  }
}

void Group::carry_out_one(Collective kind, std::span<const std::byte> from, std::span<std::byte> to,
                          DType type, Reduction reduction) {
  check(kind, from, to, type);
  if (!facts_of(kind).reduces()) {  // all members say the same where it means nothing
    type = DType::u8;
    reduction = Reduction::sum;
  }
  Counter& counter = counters_[static_cast<std::size_t>(kind)];
  counter.calls.fetch_add(1, std::memory_order_relaxed);
  counter.payload_bytes.fetch_add(static_cast<std::int64_t>(std::max(from.size(), to.size())),
                                  std::memory_order_relaxed);
  if (size() > 1)
    exchange(kind, from, to, type, reduction);
  else if (!to.empty() && from.data() != to.data())
    std::memcpy(to.data(), from.data(), to.size());
}

// --- several tensors

Group::Packed Group::room(std::size_t from_bytes, std::size_t to_bytes) {
  if (packed_.size() < from_bytes + to_bytes) packed_.resize(from_bytes + to_bytes);
  const Bytes all(packed_);
  return {all.first(from_bytes), all.subspan(from_bytes, to_bytes)};
}

void Group::carry_out(Collective kind, std::span<const Bytes> from, std::span<const Bytes> to,
                      DType type, Reduction reduction) {
  const CollectiveFacts& facts = facts_of(kind);
  require(from.size() == to.size(), "both sides of a collective have as many tensors");
  if (from.size() == 1) return carry_out_one(kind, from[0], to[0], type, reduction);
  for (std::size_t k = 0; k < from.size(); ++k)
    require(facts.fits(from[k].size(), to[k].size(), size()),
            "a collective moves an equal part of each tensor for each member");
  Packed packed = room(total_bytes(from), facts.is_in_place() ? 0 : total_bytes(to));
  if (facts.is_in_place()) packed.to = packed.from;
  pack(from, facts.shares_before(size()), packed.from);
  carry_out_one(kind, packed.from, packed.to, type, reduction);
  unpack(packed.to, facts.shares_after(size()), to);
}

Traffic Group::traffic(Collective kind) const {
  const Counter& counter = counters_[static_cast<std::size_t>(kind)];
  Traffic traffic{counter.calls.load(std::memory_order_relaxed),
                  counter.payload_bytes.load(std::memory_order_relaxed), 0};
  traffic.ring_bytes = facts_of(kind).sent_share(static_cast<double>(size())) *
                       static_cast<double>(traffic.payload_bytes);
  return traffic;
}

}  // namespace fourfold::comm
