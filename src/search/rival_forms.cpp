#include "search/rival_forms.h"

namespace fourfold::search {
namespace {

/// ATP's closed form where all groups have the rate 1.
double cost_at_one_rate(double d1, double d2) {
  return (14 * d2 + 4 * d1 - 18) / (d1 * d2);
}

}  // namespace

double megatron_volume(double ranks, double data, const std::vector<Linear>& linears) {
  double sum = 0;
  for (const Linear& linear : linears)
    sum += axonn_volumes({.x = ranks, .y = 1, .z = 1, .data = data}, linear).total();
  return sum;
}

double sharded_volume(double ranks, double parameters, double micros, Gathers gathers) {
  const double gathered =
      (gathers == Gathers::again ? 2 : 1) * ring_all_gather(ranks, parameters / ranks);
  return micros * (gathered + ring_reduce_scatter(ranks, parameters));
}

DimVolumes summa_volume(double q, double depth, const std::vector<Linear>& linears) {
  DimVolumes sum;
  for (const auto& [m, k, n, is_transposed] : linears) {
    const double step = (q - 1) / (q * q);
    // Forward: input and weight. The input's gradient: weight and that gradient. The weight's
    // gradient: input and that gradient.
    sum.rows += 3 * step * m * k / depth;
    sum.columns += 3 * step * k * n;
    sum.depth += ring_all_reduce(depth, k * n / (q * q));
  }
  return sum;
}

double google_cost(double q) {
  return cost_at_one_rate(q / 2, 2 * q);
}

double google_transposed_cost(double q) {
  return cost_at_one_rate(2 * q, q / 2);
}

double waiting_share(const PipelineShape& shape) {
  return (shape.stages - 1) / (shape.chunks * shape.micros);
}

double boundary_volume(const PipelineShape& shape, double elements, Boundary boundary) {
  if (shape.stages == 1) return 0;
  const double of_rank = elements / shape.data / (boundary == Boundary::whole ? 1 : shape.tensor);
  return 2 * shape.chunks * of_rank;
}

}  // namespace fourfold::search
