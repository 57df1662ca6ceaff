#include "search/axonn_forms.h"

#include <algorithm>
#include <cmath>

namespace fourfold::search {

double ring_all_gather(double ranks, double share) {
  return (ranks - 1) * share;
}

double ring_reduce_scatter(double ranks, double size) {
  return (ranks - 1) / ranks * size;
}

double ring_all_reduce(double ranks, double size) {
  return 2 * ring_reduce_scatter(ranks, size);
}

double LinearVolumes::total() const {
  return weight_gather + gradient_scatter + output_reduce + input_reduce + replica_reduce;
}

LinearVolumes axonn_volumes(const AxisNumbers& grid, const Linear& linear) {
  const double x = linear.is_transposed ? grid.y : grid.x,
               y = linear.is_transposed ? grid.x : grid.y, z = grid.z;
  const double weight = linear.k * linear.n / (x * y);
  return {ring_all_gather(z, weight / z), ring_reduce_scatter(z, weight),
          ring_all_reduce(y, linear.m * linear.n / (z * x)),
          ring_all_reduce(x, linear.m * linear.k / (z * y)),
          ring_all_reduce(grid.data, weight / z)};
}

AxisNumbers axonn_by_axis(const AxisNumbers& grid, const std::vector<Linear>& linears) {
  AxisNumbers sum{0, 0, 0, 0};
  for (const Linear& linear : linears) {
    const LinearVolumes sent = axonn_volumes(grid, linear);
    (linear.is_transposed ? sum.x : sum.y) += sent.output_reduce;
    (linear.is_transposed ? sum.y : sum.x) += sent.input_reduce;
    sum.z += sent.weight_gather + sent.gradient_scatter;
    sum.data += sent.replica_reduce;
  }
  return sum;
}

double axonn_seconds(const AxisNumbers& bytes, const AxisNumbers& rates) {
  const auto seconds = [](double sent, double rate) { return sent == 0 ? 0 : sent / rate; };
  return seconds(bytes.x, rates.x) + seconds(bytes.y, rates.y) + seconds(bytes.z, rates.z) +
         seconds(bytes.data, rates.data);
}

std::vector<Linear> gpt_linears(double m, double hidden) {
  return {{m, hidden, 3 * hidden, false},
          {m, hidden, hidden, true},
          {m, hidden, 4 * hidden, false},
          {m, 4 * hidden, hidden, true}};
}

double axonn_gpt_volume(const AxisNumbers& grid, double layers, double hidden, double tokens) {
  const double tensor = grid.x * grid.y, replicas = grid.z * grid.data;
  return layers *
         (24 * hidden * hidden / tensor * (1 - 1 / replicas) +
          2 * tokens / replicas * hidden * (12 * (grid.y - 1) + 4 * (grid.x - 1)) / tensor);
}

AxisNumbers axonn_rates(const AxisNumbers& grid, double node, double within, double between) {
  double inner = 1;
  const auto rate = [&](double ranks) {
    const double before = inner;
    inner *= ranks;
    const bool is_within = inner <= node && std::fmod(node, inner) == 0;
    return is_within ? within : between / std::min(node, before);
  };
  // In this order: each axis is outside of those before it.
  const double x = rate(grid.x), y = rate(grid.y), z = rate(grid.z);
  return {x, y, z, rate(grid.data)};
}

}  // namespace fourfold::search
