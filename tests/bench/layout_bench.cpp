// Time to find the layout of a GPT, and how it grows with its layers (Zhang et al. 2023, "Rhino",
// figure 10): one of width 512, each layer for itself, by every solver. CPU seconds of one thread.
//   layout_bench                                the table, without the integer forms
//   layout_bench GRID SOLVERS LAYERS...         "data=8" "elimination,o2" 12 24
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "machine/known_clusters.h"
#include "model/model.h"
#include "search/choose_layout.h"
#include "solve/problem_numbers.h"
#include "solve/solvers.h"

namespace fourfold {
namespace {

double cpu_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// "data=2,x=4"
plan::Grid parse_grid(std::string_view text) {
  plan::Grid grid;
  for (const std::string& word : split(text, ',')) {
    const auto at = word.find('=');
    const std::int64_t ranks = std::stol(word.substr(at + 1));
    const std::string axis = word.substr(0, at);
    (axis == "x" ? grid.x : axis == "y" ? grid.y : axis == "z" ? grid.z : grid.data) = ranks;
  }
  return grid;
}

/// A GPT, a mesh, and the strategy's layout, which a search begins with.
struct Case {
  Case(std::int64_t layers, const plan::Grid& grid)
      : cluster(machine::load_cluster("perlmutter-40gb")), mesh(plan::make_mesh(grid)) {
    const model::GptSpec gpt{.num_layers = layers,
                             .num_attention_heads = 8,
                             .hidden_size = 512,
                             .ffn_hidden_size = 2048,
                             .max_position_embeddings = 512,
                             .vocab_size = 50304};
    spec.global_batch_size = 16 * grid.data * grid.z;
    spec.micro_batch_size = 4;
    spec.seq_length = 512;
    spec.grid = grid;
    model =
        model::build(gpt, {4 * grid.data * grid.z, spec.seq_length, spec.global_batch_size}, {});
    batching = std::get<plan::Batching>(plan::solve_batching(spec));
    start = std::get<plan::Layout>(plan::make_layout(model, spec, mesh));
  }
  const graph::Graph& train() const { return model.at(op::ProgramKind::train); }
  search::LayoutSetting setting() const {
    search::LayoutSetting setting;
    setting.mesh = &mesh;
    setting.groups = search::groups_in_order(mesh, spec.grid.order);
    setting.batching = batching;
    setting.bucket_bytes = spec.bucket_bytes;
    return setting;
  }

  machine::Cluster cluster;
  Mesh mesh;
  plan::PlanSpec spec;
  graph::ModelGraphs model;
  plan::Batching batching;
  plan::Layout start;
};

void print_row(const Case& of, std::int64_t layers, bool are_alike,
               const std::vector<std::string>& solvers) {
  search::Pricer pricer(of.cluster, *machine::rate_of(of.cluster.device, DType::f32),
                        of.spec.bucket_bytes);
  search::LayoutSetting setting = of.setting();
  setting.open = search::axes_to_cut(of.mesh, of.start.samples);
  setting.layers_alike = are_alike;
  const double begin_s = cpu_s();
  const search::LayoutProblem problem(of.train(), of.start, setting, pricer);
  std::printf("%ld layers%s, %zu ops, built in %.2f s: %s\n", layers, are_alike ? " alike" : "",
              of.train().nodes.size(), cpu_s() - begin_s,
              to_string(solve::numbers_of(problem.problem())).c_str());
  for (const std::string& solver : solvers) {
    const double before_s = cpu_s();
    const solve::Outcome outcome = solve::solve(problem.problem(), solver);
    const double took_s = cpu_s() - before_s;
    if (const auto* solution = std::get_if<solve::Solution>(&outcome))
      std::printf("  %s: %.2f s, cost %.6f ms, width %zu\n", solver.c_str(), took_s,
                  1e3 * solution->cost, solution->statistics.width.value_or(0));
    else
      std::printf("  %s: %.2f s, %s\n", solver.c_str(), took_s,
                  std::get<solve::Refused>(outcome).reason.c_str());
    std::fflush(stdout);
  }
}

int run(const std::vector<std::string>& words) {
  const plan::Grid grid = parse_grid(words.empty() ? "data=8" : words[0]);
  const std::vector<std::string> solvers =
      split(words.size() > 1 ? words[1] : "elimination,o3,o2,o2-once", ',');
  std::vector<std::int64_t> layers;
  for (std::size_t i = 2; i < words.size(); ++i) layers.push_back(std::stol(words[i]));
  if (layers.empty()) layers = {12, 24, 36, 48, 72, 96};
  for (const std::int64_t number : layers) {
    const Case of(number, grid);
    for (const bool are_alike : {false, true}) print_row(of, number, are_alike, solvers);
  }
  return 0;
}

}  // namespace
}  // namespace fourfold

int main(int argc, char** argv) {
  return fourfold::run({argv + 1, argv + argc});
}
