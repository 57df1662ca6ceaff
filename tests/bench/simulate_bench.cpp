// Time to simulate a step, by the number of ranks: one rank of the class is followed, so what an
// instruction takes should not grow. CPU seconds of one thread, the least of five rounds.
#include <cstdio>
#include <ctime>
#include <optional>

#include "base/error.h"
#include "program/jobs.h"
#include "simulate/prediction.h"
#include "unit/simulate/small_job.h"

namespace fourfold {
namespace {

double cpu_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Cost {
  double simulate_s = 0, predict_s = 0;
};

Cost cost_of(const program::Job& job, const machine::Cluster& cluster) {
  const double begin_s = cpu_s();
  const simulate::Simulation simulation = simulate::simulate(job, op::ProgramKind::train, cluster);
  const double simulated_s = cpu_s();
  require(simulation.ranks.size() == 1, "one rank stands for all");
  require(simulate::predict(job, simulation).step_s > 0, "the step takes time");
  return {simulated_s - begin_s, cpu_s() - simulated_s};
}

void run() {
  std::puts("| ranks | instructions of a rank | simulate | of an instruction | predict |");
  std::puts("|---|---|---|---|---|");
  for (std::int64_t ranks = 16; ranks <= 16384; ranks *= 4) {
    const program::Grid grid{ranks / 16, 4, 2, 2};
    program::Job job;
    job.classes.push_back(program::grid_bundle(grid, Rank(0), 500));
    job.ranks.resize(static_cast<std::size_t>(ranks));
    const machine::Cluster cluster = simulate::two_levels(ranks / 4, 4);
    std::optional<Cost> least;
    for (int round = 0; round < 5; ++round) {
      const Cost cost = cost_of(job, cluster);
      if (!least) least = cost;
      least->simulate_s = std::min(least->simulate_s, cost.simulate_s);
      least->predict_s = std::min(least->predict_s, cost.predict_s);
    }
    const std::size_t count = job.classes[0].at(op::ProgramKind::train).instructions.size();
    std::printf("| %ld | %zu | %.3f s | %.0f ns | %.3f s |\n", ranks, count, least->simulate_s,
                1e9 * least->simulate_s / static_cast<double>(count), least->predict_s);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace fourfold

int main() {
  fourfold::run();
  return 0;
}
