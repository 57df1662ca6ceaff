// A job of many ranks as a value: what ranks of one position class have in common stands once, what
// a rank has of its own is a small binding. Compiled or read from text, proved by verify/, then
// const: run, verify, print and draw read the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/program.h"

namespace fourfold::program {

/// What one rank has of its own beside its place on the meshes, from which members of groups,
/// samples and own parts of tensors follow (bind.h).
struct Binding {
  std::uint32_t of_class = 0;
  std::vector<Rank> peers;  // at the other ends of the channels of its class, in their order
  bool operator==(const Binding&) const = default;
};

struct Job {
  /// The bundles of the classes, each as the first of its ranks has it.
  std::vector<Bundle> classes;
  std::vector<Binding> ranks;  // by rank
  bool operator==(const Job&) const = default;
};

/// Messages of one direction and tag to or from one peer.
struct Channel {
  Rank peer;
  std::int64_t tag = 0;
  bool sends = false;
  bool operator==(const Channel&) const = default;
};
/// The channels of a bundle in the order of first use. Cost: linear in its instructions.
std::vector<Channel> channels_of(const Bundle& bundle);

/// The same bundle, of the first rank of a class, as another rank of that class has it. Requires a
/// peer for each channel, and that the rank belongs to the same meshes.
Bundle bound_to(Bundle bundle, Rank rank, const std::vector<Rank>& peers);
/// The bundle of a rank of the job.
Bundle bundle_of(const Job& job, Rank rank);

}  // namespace fourfold::program
