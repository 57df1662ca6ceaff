// Jobs of several ranks, built by hand: all programs of all ranks, which the tests verify and
// break.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "program/job.h"

namespace fourfold::program {

struct Grid {
  std::int64_t data = 1, z = 1, y = 1, x = 1;
  std::int64_t ranks() const { return data * z * y * x; }
};

/// A GPT block on a 4D grid, init, train and digest: an odd vocabulary cut on x, layer norm over a
/// hidden size cut on y, heads scattered on y through blocked buffers, weights gathered on z,
/// gradients reduced on the axes that cut the batch, and an embedding whose optimizer state is cut
/// by data.
std::vector<Bundle> grid_job(const Grid& grid);
/// The bundle of one of its ranks, with any number of micro-batches: to reach any size.
Bundle grid_bundle(const Grid& grid, Rank rank, std::int64_t micros);

/// Two meshes of `width` ranks each, cut by data: the first embeds, the second computes the loss;
/// activations and gradients of two micro-batches travel between them.
std::vector<Bundle> pipeline_job(std::int64_t width);

/// A tensor [samples, rows, columns] that goes from the ranks of one mesh to those of another.
struct HandOver {
  Shape shape;
  std::int64_t senders = 1, receivers = 1;
  std::vector<std::string> sender_cuts = {};  // of each dim: "r", or "" where it is whole
  std::vector<std::string> receiver_cuts = {};
  bool is_uneven = false;   // some tile has padding
  bool is_chain = false;    // each receiver passes on what it receives to the next one
  std::int64_t chunks = 1;  // of a chain
  std::int64_t micros = 2;  // two at least
};
/// A program "pass" of some micro-batches: each sender computes its tile, sends boxes of it, and
/// each receiver puts its own tile together from them, and uses it.
std::vector<Bundle> hand_over_job(const HandOver& edge);

/// A job in which each rank is a class of its own, whatever its programs are.
inline Job job_of(std::vector<Bundle> by_rank) {
  Job job;
  for (Bundle& bundle : by_rank) {
    Binding binding{static_cast<std::uint32_t>(job.classes.size()), {}};
    for (const Channel& channel : channels_of(bundle)) binding.peers.push_back(channel.peer);
    job.ranks.push_back(std::move(binding));
    job.classes.push_back(std::move(bundle));
  }
  return job;
}

/// The job of these bundles, which send no messages. Ranks are one class where the bundle of the
/// first, bound to the other, is that of the other.
inline Job folded(const std::vector<Bundle>& by_rank) {
  Job job;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto first = std::ranges::find_if(job.classes, [&](const Bundle& bundle) {
      return channels_of(bundle).empty() && bound_to(bundle, Rank(rank), {}) == by_rank[rank];
    });
    job.ranks.push_back({static_cast<std::uint32_t>(first - job.classes.begin()), {}});
    if (first == job.classes.end()) job.classes.push_back(by_rank[rank]);
  }
  return job;
}

}  // namespace fourfold::program
