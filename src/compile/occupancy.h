// Places in memory that are taken, and when: where the next buffer fits. Not the order in which
// buffers are placed, nor which share one address on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compile/liveness.h"

namespace fourfold::compile {

/// Makes one of sorted intervals that meet or follow one another; those before `from` do not.
void join(std::vector<Interval>& lives, std::size_t from = 0);

/// What has the same place and size is one stretch with all its lives, so that there are about as
/// many stretches as buffers are alive at a time. Blocks of them are looked at as a whole where
/// none or all are in the way. Lives are sorted and joined.
class Occupancy {
 public:
  /// The lowest offset at which so many bytes fit beside what is alive at the same time. Cost: a
  /// look at every block, and at each stretch of those that are in the way in part.
  std::int64_t lowest_offset(std::int64_t bytes, const std::vector<Interval>& lives) const;
  void add(std::int64_t begin, std::int64_t bytes, const std::vector<Interval>& lives);

 private:
  struct Stretch {
    std::int64_t begin, end;
    std::vector<Interval> lives;
    Interval longest;  // of the lives
  };
  struct Block {
    std::vector<Stretch> stretches;  // in the order of their addresses
    std::int64_t end = 0;            // of the last address
    Interval hull;                   // from when the first stretch is alive until the last one is
    Interval common;       // when all are alive; ends before it begins where they never are
    std::int64_t gap = 0;  // the largest between stretches that are alive at the same time
  };
  static void summarize(Block& block);
  Stretch& stretch_at(std::int64_t begin, std::int64_t end, Block& block);
  void split_if_full(std::size_t index);

  std::vector<Block> blocks_;  // in the order of their addresses
};

}  // namespace fourfold::compile
