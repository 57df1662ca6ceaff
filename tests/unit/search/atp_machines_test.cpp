// The shipped machines of ATP beside the paper: on each, with each number of ranks, the mesh that
// is chosen is the one for which equations 2 to 4 give the least. The equations are written here
// once more, on the hierarchical communication matrices as the paper prints them.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "machine/known_clusters.h"
#include "search/atp_forms.h"
#include "unit/search/planned.h"

namespace fourfold::search {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

/// A layer of a matrix, in GB/s. Its ranks are alike: a rank has `p2p` to each of the others of a
/// group, and at most `group` to all of them together.
struct MatrixLayer {
  std::int64_t ranks;
  double p2p, group;
};
/// A mesh whose all-reduces the paper measured, in GB/s.
struct MeasuredMesh {
  std::int64_t d1, d2;
  double all_reduce1, all_reduce2;
};
struct Paper {
  std::vector<MatrixLayer> layers;          // the innermost first
  std::vector<MeasuredMesh> measured = {};  // no other meshes of so many ranks count then
};

/// Section 2.2 (PCIe 4: 64 GB/s, NVLink: 600 GB/s, HDR: 25 GB/s), figure 7 and section 5. On IC5
/// the paper gives no rate, and none is needed on one layer.
const std::map<std::string, Paper>& papers() {
  static const std::map<std::string, Paper> all = {
      {"atp-fig7a", {{{4, 200, 600}, {4, 25, 25}}}},
      {"atp-ic1", {{{4, 64, 64}, {2, 64, 64}}, {{8, 1, 0.97, no_limit}, {2, 4, 1.2, 4.95}}}},
      {"atp-ic2", {{{2, 600, 600}, {4, 64, 64}}}},
      {"atp-ic3", {{{8, 600, 600}}}},
      {"atp-ic4", {{{16, 25, 25}}}},
      {"atp-ic5", {{{256, 1, 1}}}},
      {"atp-ic6", {{{4, 25, 50}, {4, 100, 200}}}},
  };
  return all;
}

/// Equations 3 and 4: the rate of an all-reduce of `ranks` ranks that are `stride` apart. All
/// groups that meet in a rank of a layer share what it has.
double all_reduce_rate(const Paper& paper, std::int64_t ranks, std::int64_t stride) {
  if (ranks == 1) return no_limit;
  double ring = no_limit;
  std::int64_t below = 1;
  for (const MatrixLayer& layer : paper.layers) {
    const std::int64_t met =
        std::min(ranks * stride, below * layer.ranks) / std::max(below, stride);
    if (met > 1)
      ring = std::min(ring, std::min(layer.group, static_cast<double>(met - 1) * layer.p2p) /
                                static_cast<double>(std::min(stride, below)));
    below *= layer.ranks;
  }
  return static_cast<double>(ranks) / (2 * static_cast<double>(ranks - 1)) * ring;
}

/// Equation 2, of which `along_second` is 7 as printed, and 6 by our core of attention.
double paper_cost(const Paper& paper, std::int64_t d1, std::int64_t d2, double along_second) {
  double first = all_reduce_rate(paper, d1, d2), second = all_reduce_rate(paper, d2, 1);
  bool is_measured = false, others_are = false;
  for (const MeasuredMesh& mesh : paper.measured) {
    if (mesh.d1 * mesh.d2 != d1 * d2) continue;
    others_are = true;
    if (mesh.d1 != d1) continue;
    is_measured = true;
    first = mesh.all_reduce1;
    second = mesh.all_reduce2;
  }
  if (others_are && !is_measured) return no_limit;
  return along_second / (static_cast<double>(d1) * second) + 2 / (static_cast<double>(d2) * first);
}

/// The i of the ATP-i of least cost; of equal ones the smallest.
std::int64_t best_by_equations(const Paper& paper, std::int64_t ranks, double along_second) {
  std::int64_t best = 1;
  for (std::int64_t d2 = 2; d2 <= ranks; d2 *= 2)
    if (paper_cost(paper, ranks / d2, d2, along_second) <
        paper_cost(paper, ranks / best, best, along_second))
      best = d2;
  return best;
}

/// The y of the planner's first grid among the meshes of ATP, where a rank takes no time but to
/// send: equations 2 to 4 know neither work nor latency.
std::int64_t best_by_planner(machine::Cluster cluster, std::int64_t ranks) {
  for (machine::Level& level : cluster.levels) level.latency_s = 0;
  machine::Device& device = cluster.device;
  constexpr double no_time = 1e30;
  device.instruction_s = device.handoff_s = 0;
  device.memory_bytes = device.memory_bytes_per_s = no_time;
  for (machine::ComputeRate& rate : device.rates) rate.flops_per_s = no_time;
  Planned planned(std::move(cluster), ranks, 256);  // layers enough for them to decide
  planned.setup.gpt.vocab_size = 16;
  planned.setup.gpt.num_attention_heads = 128;
  planned.setup.gpt.hidden_size = 2048;
  planned.setup.gpt.ffn_hidden_size = 8192;
  planned.question.spec.strategy = plan::Strategy::atp;
  planned.question.spec.grid.order = {"y", "x", "z", "data"};
  planned.question.spec.micro_batch_size = 64;
  planned.question.keeps_order = true;
  planned.question.admits = [](const plan::Grid& grid) { return grid.z == 1 && grid.data == 1; };
  return rank_grids(planned.question).plans.at(0).spec.grid.y;
}

TEST(AtpMachines, each_mesh_that_is_chosen_is_the_one_of_equations_2_to_4) {
  std::size_t machines = 0;
  for (const machine::KnownCluster& known : machine::known_clusters()) {
    if (!known.name.starts_with("atp-")) continue;
    ++machines;
    ASSERT_TRUE(papers().contains(known.name)) << known.name << ": add what the paper says of it";
    const Paper& paper = papers().at(known.name);
    const machine::Cluster cluster = machine::load_cluster(known.name);
    constexpr std::int64_t most_ranks = 128;
    for (std::int64_t ranks = 2; ranks <= std::min(most_ranks, cluster.ranks()); ranks *= 2) {
      const std::string place = known.name + ", " + std::to_string(ranks) + " ranks";
      const std::int64_t best = best_by_equations(paper, ranks, 7);
      EXPECT_EQ(best_atp(cluster, ranks, AtpCore::all_reduced), best) << place;
      EXPECT_EQ(best_by_planner(cluster, ranks), best_by_equations(paper, ranks, 6)) << place;
      EXPECT_EQ(best_by_equations(paper, ranks, 6), best) << place << ", with our core";
    }
  }
  EXPECT_EQ(machines, papers().size());
}

}  // namespace
}  // namespace fourfold::search
