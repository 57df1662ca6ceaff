// What AxoNN's algorithm sends, in closed form (Singh et al. 2024, arXiv:2305.13525, equations 1 to
// 10): pure functions over numbers. Not what a plan of ours sends (volumes.h).
//
// Volumes are elements or bytes that one rank sends, as the sizes given are; rates are bytes a
// second. Latency and computation are left out (the paper's assumptions 3 and 4).
#pragma once

#include <vector>

namespace fourfold::search {

/// A number for each axis of AxoNN's grid: its ranks, what is sent along it, or its rate.
struct AxisNumbers {
  double x = 1, y = 1, z = 1, data = 1;
};

/// Equation 1: an all-gather by a ring, where each of `ranks` begins with `share`.
double ring_all_gather(double ranks, double share);
/// Equation 2: a reduce-scatter of `size` on each rank.
double ring_reduce_scatter(double ranks, double size);
/// Equation 3: an all-reduce of `size` on each rank.
double ring_all_reduce(double ranks, double size);

/// A product (m, k) by (k, n), m being the rows of one data-parallel replica: tokens of the batch
/// divided by the ranks on data. `is_transposed`: every second linear, where x and y change places.
struct Linear {
  double m = 1, k = 1, n = 1;
  bool is_transposed = false;
};

/// Equations 4 to 8 of one linear, forward and backward pass together.
struct LinearVolumes {
  double weight_gather = 0;     // 4, on z
  double gradient_scatter = 0;  // 5, on z
  double output_reduce = 0;     // 6, on y; where transposed on x
  double input_reduce = 0;      // 7, of the gradient of the input, on x; where transposed on y
  double replica_reduce = 0;    // 8, on data
  double total() const;
};
LinearVolumes axonn_volumes(const AxisNumbers& grid, const Linear& linear);
/// The same by axis, of several linears.
AxisNumbers axonn_by_axis(const AxisNumbers& grid, const std::vector<Linear>& linears);

/// Equation 9 with a rate for each axis: placement-aware; with one rate on all axes: agnostic. An
/// axis along which nothing is sent takes no time.
double axonn_seconds(const AxisNumbers& bytes, const AxisNumbers& rates);

/// The four linears of a GPT's layer: queries with keys and values, attention's output, up, down.
std::vector<Linear> gpt_linears(double m, double hidden);
/// The sum over a whole GPT of `layers`, whose step has `tokens`, with one rate everywhere. It
/// depends on the product of z and data alone, so that grids tie:
///   L [24 h^2 / (Gx Gy) (1 - 1 / (Gz Gd)) + 2 M h (12 (Gy - 1) + 4 (Gx - 1)) / (Gx Gy Gz Gd)].
double axonn_gpt_volume(const AxisNumbers& grid, double layers, double hidden, double tokens);

/// Equation 10: the rate on each axis, x innermost. `node`: ranks of a node; `within`: the rate
/// between two of them; `between`: that of a pair of nodes. Groups are within a node where the
/// ranks up to their axis divide it; the paper's case 1 also takes groups of 3 in nodes of 4, which
/// straddle nodes. mesh_bandwidth.h counts groups of any sizes and levels.
AxisNumbers axonn_rates(const AxisNumbers& grid, double node, double within, double between);

}  // namespace fourfold::search
