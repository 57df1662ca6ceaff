#include "search/rivals.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/format.h"
#include "machine/mesh_bandwidth.h"
#include "search/rival_forms.h"

namespace fourfold::search {
namespace {

using machine::AxisGroup;

class Rivals {
 public:
  Rivals(const machine::Cluster& cluster, std::int64_t ranks, const std::vector<Linear>& linears,
         double element_bytes)
      : cluster_(cluster), ranks_(ranks), linears_(linears), element_bytes_(element_bytes) {}

  void megatron(std::int64_t node_ranks) {
    const std::int64_t x = std::gcd(ranks_, node_ranks), data = ranks_ / x;
    add(format("Megatron (x {}, data {})", x, data), of_grid(x, 1, data, {x, 1}, {1, 1}));
  }

  void sharded(double micros) {
    double parameters = 0;
    for (const Linear& linear : linears_) parameters += linear.k * linear.n;
    add("ZeRO-3",
        seconds(sharded_volume(number(ranks_), parameters, micros, Gathers::again), {ranks_, 1}));
  }

  void summa(std::int64_t q, std::int64_t depth) {
    const DimVolumes sent = summa_volume(number(q), number(depth), linears_);
    add(depth == 1 ? format("SUMMA ({} x {})", q, q) : format("SUMMA ({} x {} x {})", q, q, depth),
        seconds(sent.rows, {q, 1}) + seconds(sent.columns, {q, q}) +
            seconds(sent.depth, {depth, q * q}));
  }

  /// ATP's mesh: y is innermost.
  void google(std::int64_t q) {
    const std::int64_t d1 = q / 2, d2 = 2 * q;
    add(format("Google's mesh ({} x {})", d1, d2), of_grid(d1, d2, 1, {d1, d2}, {d2, 1}));
  }

  /// The best of all numbers of stages, and of runs of layers that a stage has.
  void pipeline(const std::string& name, std::int64_t node_ranks, std::int64_t most_chunks,
                Boundary boundary, const PipelinedModel& model) {
    const std::int64_t x = std::gcd(ranks_, node_ranks);
    std::optional<Rival> best;
    for (std::int64_t stages = 2; stages <= ranks_ / x; stages *= 2)
      for (std::int64_t chunks = 1; chunks <= most_chunks; chunks *= 2) {
        const std::int64_t data = ranks_ / x / stages;
        if (x * stages * data != ranks_ || model.samples % data != 0 ||
            model.layers % (stages * chunks) != 0 ||
            (chunks > 1 && model.samples / data % stages != 0))
          continue;
        const PipelineShape shape{number(x), number(stages), number(data), number(chunks),
                                  number(model.samples / data)};
        const double waiting = waiting_share(shape) * model.compute_s;
        const double seconds = waiting + of_pipeline(shape, boundary);
        if (best && best->seconds <= seconds) continue;
        best = {format("{} (x {}, {} stages{}, data {})", name, x, stages,
                       chunks > 1 ? format(" of {} chunks", chunks) : "", data),
                seconds, waiting};
      }
    if (best) list.push_back(std::move(*best));
  }

  std::vector<Rival> list;

 private:
  /// What a rank sends; copies lie within stages.
  double of_pipeline(const PipelineShape& shape, Boundary boundary) const {
    const auto x = static_cast<std::int64_t>(shape.tensor),
               data = static_cast<std::int64_t>(shape.data),
               stages = static_cast<std::int64_t>(shape.stages);
    const double of_layers = of_grid(x, 1, data, {x, 1}, {1, 1}) / shape.stages;
    const double activation = linears_.front().m * linears_.front().k;
    return of_layers + seconds(boundary_volume(shape, activation, boundary), {stages, x * data});
  }

  static double number(std::int64_t n) { return static_cast<double>(n); }

  double seconds(double elements, AxisGroup group) const {
    if (elements == 0) return 0;
    return elements * element_bytes_ / machine::axis_bytes_per_s(cluster_, group);
  }

  double of_grid(std::int64_t x, std::int64_t y, std::int64_t data, AxisGroup on_x,
                 AxisGroup on_y) const {
    std::vector<Linear> linears = linears_;
    for (Linear& linear : linears) linear.m /= number(data);
    const AxisNumbers sent =
        axonn_by_axis({.x = number(x), .y = number(y), .z = 1, .data = number(data)}, linears);
    return seconds(sent.x, on_x) + seconds(sent.y, on_y) + seconds(sent.data, {data, x * y});
  }

  void add(std::string name, double seconds) { list.push_back({std::move(name), seconds, 0}); }

  const machine::Cluster& cluster_;
  std::int64_t ranks_;
  const std::vector<Linear>& linears_;
  double element_bytes_;
};

/// The number whose square it is; 0 where there is none.
std::int64_t root_of(std::int64_t number) {
  const auto root = std::llround(std::sqrt(static_cast<double>(number)));
  return root * root == number ? root : 0;
}

}  // namespace

std::vector<Rival> price_rivals(const machine::Cluster& cluster, std::int64_t ranks,
                                std::int64_t node_ranks, const std::vector<Linear>& linears,
                                double micros, double element_bytes) {
  Rivals rivals(cluster, ranks, linears, element_bytes);
  rivals.megatron(node_ranks);
  rivals.sharded(micros);
  if (const std::int64_t q = root_of(ranks)) {
    rivals.summa(q, 1);
    if (q % 2 == 0) rivals.google(q);
  }
  if (ranks % 2 == 0)
    if (const std::int64_t q = root_of(ranks / 2)) rivals.summa(q, 2);
  std::ranges::stable_sort(rivals.list, {}, &Rival::seconds);
  return std::move(rivals.list);
}

std::vector<Rival> price_pipelined_rivals(const machine::Cluster& cluster, std::int64_t ranks,
                                          std::int64_t node_ranks,
                                          const std::vector<Linear>& linears, double element_bytes,
                                          const PipelinedModel& model) {
  constexpr std::int64_t most_chunks = 8;
  Rivals rivals(cluster, ranks, linears, element_bytes);
  rivals.pipeline("Megatron", node_ranks, most_chunks, Boundary::scattered, model);
  rivals.pipeline("DeepSpeed", node_ranks, 1, Boundary::whole, model);
  return std::move(rivals.list);
}

}  // namespace fourfold::search
