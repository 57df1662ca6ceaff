// When the content of each buffer matters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/program.h"

namespace fourfold::compile {

/// Instructions [begin, end], both inclusive, between which a value written at `begin` is still
/// read.
struct Interval {
  std::size_t begin = 0, end = 0;
  bool operator==(const Interval&) const = default;
};

/// By buffer, the lives of its values in order of time. A write that covers the buffer begins a
/// value, the last read ends it. Feeds live throughout, so that they may arrive early; outputs live
/// to the end; what is sent lives `tasks_to_send` longer (departures.h). Persistent buffers have
/// none listed.
std::vector<std::vector<Interval>> live_intervals(const program::Program& program);

/// About what a layer has.
inline constexpr std::size_t some_instructions = 50;

/// How long what other streams than the first use stays as it is, beyond that use: so many
/// instructions, to the end of the task at most, and until the first stream has waited for that
/// stream anyway. Memory that is used again at once makes computation wait for a collective that
/// has nothing to tell it yet, or for the gradient of a weight.
struct Reach {
  std::size_t instructions = 0;  // beyond what collectives and messages use last
  /// What the stream of gradients uses stays until it is no longer alive and `some_instructions`
  /// beyond, but so many bytes of it at a time: the latest. So far that stream may lag.
  std::int64_t gradient_bytes = 0;
  bool operator==(const Reach&) const = default;
};
/// Lets what another stream than the first uses live as much longer. The sum of live bytes grows by
/// `gradient_bytes` at most for what the stream of gradients uses. Cost: n log n.
void extend(std::vector<std::vector<Interval>>& lives, const program::Program& program,
            Reach reach);

/// True if any interval of `a` meets any of `b`; both sorted. Cost: linear.
bool overlap(const std::vector<Interval>& a, const std::vector<Interval>& b);

}  // namespace fourfold::compile
