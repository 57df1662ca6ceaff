#include "comm/group.h"

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

/// Requires tensor k of `whole` to be `parts` times as large as that of `part`, for all k.
void require_parts(std::span<const Bytes> whole, std::span<const Bytes> part, std::size_t parts) {
  require(whole.size() == part.size(), "both sides of a collective have as many tensors");
  for (std::size_t k = 0; k < whole.size(); ++k)
    require(whole[k].size() == parts * part[k].size(),
            "a collective moves an equal part of each tensor for each member");
}

}  // namespace

Group::Group(GroupSpec spec, std::size_t position)
    : spec_(std::move(spec)),
      position_(position),
      packed_(static_cast<std::size_t>(spec_.largest_list_bytes)) {
  require(position < size(), "a rank is a member of the groups it makes");
}

void Group::all_reduce(std::span<std::byte> data, DType type, Reduction reduction) {
  require_whole_elements(data.size(), type);
  count(Kind::all_reduce, data.size());
  if (size() > 1) do_all_reduce(data, type, reduction);
}

void Group::reduce_scatter(std::span<const std::byte> from, std::span<std::byte> to, DType type,
                           Reduction reduction) {
  require(from.size() == to.size() * size(), "a reduce-scatter leaves each member an equal part");
  require_whole_elements(to.size(), type);
  const auto mine = from.subspan(position_ * to.size(), to.size());
  require(mine.data() == to.data() || !overlap(from, to),
          "a reduce-scatter writes its own part of what it reads, or elsewhere");
  count(Kind::reduce_scatter, from.size());
  if (size() > 1)
    do_reduce_scatter(from, to, type, reduction);
  else if (!to.empty() && from.data() != to.data())
    std::memcpy(to.data(), from.data(), to.size());
}

void Group::all_gather(std::span<const std::byte> from, std::span<std::byte> to) {
  require(to.size() == from.size() * size(), "an all-gather brings an equal part of each member");
  const auto mine = to.subspan(position_ * from.size(), from.size());
  require(mine.data() == from.data() || !overlap(from, to),
          "an all-gather reads its own part of what it writes, or elsewhere");
  count(Kind::all_gather, to.size());
  if (size() > 1)
    do_all_gather(from, to);
  else if (!from.empty() && from.data() != to.data())
    std::memcpy(to.data(), from.data(), from.size());
}

void Group::all_to_all(std::span<const std::byte> from, std::span<std::byte> to) {
  require(from.size() == to.size() && from.size() % size() == 0,
          "an all-to-all exchanges equal parts");
  require(!overlap(from, to), "an all-to-all writes elsewhere than it reads");
  count(Kind::all_to_all, from.size());
  if (size() > 1)
    do_all_to_all(from, to);
  else if (!from.empty())
    std::memcpy(to.data(), from.data(), from.size());
}

// --- several tensors

Group::Packed Group::room(std::size_t from_bytes, std::size_t to_bytes) {
  if (packed_.size() < from_bytes + to_bytes) packed_.resize(from_bytes + to_bytes);
  const Bytes all(packed_);
  return {all.first(from_bytes), all.subspan(from_bytes, to_bytes)};
}

void Group::all_reduce(std::span<const Bytes> data, DType type, Reduction reduction) {
  if (data.size() == 1) return all_reduce(data[0], type, reduction);
  const Packed packed = room(total_bytes(data), 0);
  pack(data, 1, packed.from);
  all_reduce(packed.from, type, reduction);
  unpack(packed.from, 1, data);
}

void Group::reduce_scatter(std::span<const Bytes> from, std::span<const Bytes> to, DType type,
                           Reduction reduction) {
  require_parts(from, to, size());
  if (from.size() == 1) return reduce_scatter(from[0], to[0], type, reduction);
  const Packed packed = room(total_bytes(from), total_bytes(to));
  pack(from, size(), packed.from);
  reduce_scatter(packed.from, packed.to, type, reduction);
  unpack(packed.to, 1, to);
}

void Group::all_gather(std::span<const Bytes> from, std::span<const Bytes> to) {
  require_parts(to, from, size());
  if (from.size() == 1) return all_gather(from[0], to[0]);
  const Packed packed = room(total_bytes(from), total_bytes(to));
  pack(from, 1, packed.from);
  all_gather(packed.from, packed.to);
  unpack(packed.to, size(), to);
}

void Group::all_to_all(std::span<const Bytes> from, std::span<const Bytes> to) {
  require_parts(from, to, 1);
  if (from.size() == 1) return all_to_all(from[0], to[0]);
  for (const Bytes tensor : from)
    require(tensor.size() % size() == 0, "an all-to-all exchanges equal parts");
  const Packed packed = room(total_bytes(from), total_bytes(to));
  pack(from, size(), packed.from);
  all_to_all(packed.from, packed.to);
  unpack(packed.to, size(), to);
}

void Group::count(Kind kind, std::size_t payload_bytes) {
  Counter& counter = counters_[static_cast<std::size_t>(kind)];
  counter.calls.fetch_add(1, std::memory_order_relaxed);
  counter.payload_bytes.fetch_add(static_cast<std::int64_t>(payload_bytes),
                                  std::memory_order_relaxed);
}

Traffic Group::traffic(Kind kind) const {
  const Counter& counter = counters_[static_cast<std::size_t>(kind)];
  Traffic traffic{counter.calls.load(std::memory_order_relaxed),
                  counter.payload_bytes.load(std::memory_order_relaxed), 0};
  const auto n = static_cast<double>(size());
  const double passes = kind == Kind::all_reduce ? 2 : 1;
  traffic.ring_bytes = passes * (n - 1) / n * static_cast<double>(traffic.payload_bytes);
  return traffic;
}

std::string_view to_string(Group::Kind kind) {
  constexpr std::array<std::string_view, Group::num_kinds> names{"all_reduce", "reduce_scatter",
                                                                 "all_gather", "all_to_all"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace fourfold::comm
