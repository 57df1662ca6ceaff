// What other methods would take to send for the same linears on the same ranks, by the closed forms
// of rival_forms.h and the rates that their groups get. For comparison with the time of AxoNN's
// equation 9; the program trains by none of them that needs two matrices broadcast.
#pragma once

#include <string>
#include <vector>

#include "machine/cluster.h"
#include "search/axonn_forms.h"

namespace fourfold::search {

struct Rival {
  std::string name;      // "Megatron (x 8, data 2)"
  double seconds = 0;    // of what it sends and, of a pipeline, of what its stages wait
  double waiting_s = 0;  // the latter
};

/// What a pipeline needs to be known of a model of equal layers.
struct PipelinedModel {
  std::int64_t layers = 1;
  std::int64_t samples = 1;  // of a step
  double compute_s = 0;      // of a rank, in a step that waits for nothing
};

/// The communication of a step's linears, m being all its rows and every second one transposed, on
/// the first `ranks` of a cluster: Megatron within a node of so many ranks and data parallelism
/// between nodes, ZeRO-3 over all; where the ranks are a square, SUMMA and Google's mesh; where
/// they are twice a square, SUMMA of depth two. The fastest first. `micros`: the micro-batches of a
/// step in each of which ZeRO-3 gathers and reduce-scatters all weights.
std::vector<Rival> price_rivals(const machine::Cluster& cluster, std::int64_t ranks,
                                std::int64_t node_ranks, const std::vector<Linear>& linears,
                                double micros, double element_bytes);

/// Three dimensions on the same ranks, each with that number of stages which takes it least time:
/// Megatron, tensor ranks within a node, whose stages are interleaved in as many chunks as are best
/// and send shares (Narayanan et al. 2021); DeepSpeed 3D, whose stages are not, and whose optimizer
/// state is cut on data (ZeRO-1), which sends as much as an all-reduce. Micro-batches are one
/// sample; whether these fit is not asked. Nothing where no number of stages divides.
std::vector<Rival> price_pipelined_rivals(const machine::Cluster& cluster, std::int64_t ranks,
                                          std::int64_t node_ranks,
                                          const std::vector<Linear>& linears, double element_bytes,
                                          const PipelinedModel& model);

}  // namespace fourfold::search
