// Places in memory that are taken, and when: where the next buffer fits. Not the order in which
// buffers are placed, nor which share one address on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compile/liveness.h"

namespace fourfold::compile {

/// Makes one of sorted intervals that meet or follow one another; those before `from` do not.
void join(std::vector<Interval>& lives, std::size_t from = 0);

/// What has the same place and size is one stretch with all its lives, so that there are about as
/// many stretches as buffers are alive at a time. They lie in a tree by address, of which branches
/// are looked at as a whole where none of what they hold is in the way, or where what lives longest
/// leaves no room there. Lives are sorted and joined.
class Occupancy {
 public:
  /// The lowest offset at which so many bytes fit beside what is alive at the same time. Cost: a
  /// look at each branch that is in the way in part; few, and logarithmic in stretches, where
  /// neighbours are alive together, as activations of many micro-batches are.
  std::int64_t lowest_offset(std::int64_t bytes, const std::vector<Interval>& lives) const;
  void add(std::int64_t begin, std::int64_t bytes, const std::vector<Interval>& lives);

  /// How many branches and stretches have been looked at, for tests of the cost.
  std::size_t num_looks() const { return num_looks_; }

 private:
  struct Stretch {
    std::int64_t begin, end;
    std::vector<Interval> lives;
    Interval longest;  // of the lives
  };
  /// While some are all alive, there is no free room of more than `gap` between `begin` and `end`.
  struct Cover {
    std::int64_t begin = 0, end = 0, gap = 0;
    Interval when = {1, 0};  // ends before it begins where there is no such time
  };
  struct Branch {
    std::vector<Stretch> stretches;   // in the order of their addresses; or else
    std::vector<Branch> branches;     // likewise
    std::int64_t begin = 0, end = 0;  // of the addresses
    Interval hull;                    // from when the first stretch is alive until the last one is
    Cover cover;
  };
  static Cover join_covers(std::span<const Cover> covers);
  static void summarize(Branch& branch);
  static Stretch& stretch_at(std::int64_t begin, std::int64_t end, std::vector<Stretch>& stretches);
  static void add(std::int64_t begin, std::int64_t end, const std::vector<Interval>& lives,
                  Branch& branch);
  static void split_if_full(std::vector<Branch>& branches, std::size_t index);
  /// Moves `offset` past what is in the way; whether it has found room.
  bool pass(const Branch& branch, std::int64_t bytes, const std::vector<Interval>& lives,
            std::int64_t& offset) const;

  Branch root_;
  mutable std::size_t num_looks_ = 0;
};

}  // namespace fourfold::compile
