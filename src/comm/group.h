// Collectives over some of the ranks, as one of them sees them. Not programs or streams: the caller
// decides which thread calls, and in which order.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/collective.h"
#include "base/dtype.h"
#include "base/mesh.h"
#include "base/reduction.h"

namespace fourfold::comm {

/// Which ranks take part, in the order in which parts are dealt out and terms are summed. Groups of
/// the same members that are used from several threads need different names.
struct GroupSpec {
  std::string name;
  std::vector<Rank> members;
  /// The largest collective it will see, all its tensors together; what is needed beyond is
  /// allocated when it comes.
  std::int64_t largest_bytes = 0;
  /// The same of both sides together, among collectives of several tensors.
  std::int64_t largest_list_bytes = 0;
};

/// A tensor of a collective that takes several.
using Bytes = std::span<std::byte>;

/// What a collective did since its group was made.
struct Traffic {
  std::int64_t calls = 0;
  /// The tensor's bytes, all parts together: of `data`, of the larger of `from` and `to`.
  std::int64_t payload_bytes = 0;
  /// What each rank sends of it (CollectiveFacts::sent_share), by a ring where it could be a tree.
  double ring_bytes = 0;
};

/// One group, for one thread at a time. All members make the same calls in the same order, with
/// the same sizes, types and reductions. Every call returns when this rank's buffers may be read
/// and written again. Errors: Aborted when the job ends (world.h); UserError(ranks_disagree) where
/// the members' calls differ and that shows.
class Group {
 public:
  /// `position` is this rank's among the members.
  Group(GroupSpec spec, std::size_t position);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  const std::string& name() const { return spec_.name; }
  std::span<const Rank> members() const { return spec_.members; }
  std::size_t size() const { return spec_.members.size(); }
  std::size_t position() const { return position_; }

  /// data = reduction of data over the members. A NaN of any member stays a NaN, for max too.
  void all_reduce(std::span<std::byte> data, DType type, Reduction reduction);
  /// to = part number position() of the reduction of `from`, which has size() equal parts. `to` may
  /// be just that part of `from`; otherwise they do not overlap.
  void reduce_scatter(std::span<const std::byte> from, std::span<std::byte> to, DType type,
                      Reduction reduction);
  /// to = the `from` of all members, in their order. `from` may be this rank's part of `to`;
  /// otherwise they do not overlap.
  void all_gather(std::span<const std::byte> from, std::span<std::byte> to);
  /// Part j of member i's `from` becomes part i of member j's `to`. They do not overlap.
  void all_to_all(std::span<const std::byte> from, std::span<std::byte> to);

  /// A collective of one kind or another, for each of several tensors of one type, in one exchange:
  /// they are packed one after another on the way out and unpacked on the way back. Every element
  /// is reduced as it would be alone where ranks are threads; MPI may choose another order of its
  /// terms. `to[k]` belongs to `from[k]`, and is the same where the collective works in place; with
  /// one tensor, nothing is packed. Type and reduction are of those that reduce.
  void carry_out(Collective kind, std::span<const Bytes> from, std::span<const Bytes> to,
                 DType type, Reduction reduction);

  /// May be asked from any thread.
  Traffic traffic(Collective kind) const;

 protected:
  const GroupSpec& spec() const { return spec_; }

 private:
  /// Called with checked sizes, for groups of two members and more. Type and reduction mean nothing
  /// where the kind does not reduce.
  virtual void exchange(Collective kind, std::span<const std::byte> from, std::span<std::byte> to,
                        DType type, Reduction reduction) = 0;

  void check(Collective kind, std::span<const std::byte> from, std::span<const std::byte> to,
             DType type) const;
  /// Carries out a collective on one tensor.
  void carry_out_one(Collective kind, std::span<const std::byte> from, std::span<std::byte> to,
                     DType type, Reduction reduction);

  /// Memory for both sides of a collective of several tensors.
  struct Packed {
    Bytes from, to;
  };
  Packed room(std::size_t from_bytes, std::size_t to_bytes);

  GroupSpec spec_;
  std::size_t position_;
  std::vector<std::byte> packed_;
  struct Counter {
    std::atomic<std::int64_t> calls{0}, payload_bytes{0};
  };
  std::array<Counter, collectives.size()> counters_;  // by kind
};

}  // namespace fourfold::comm
