// Time of an all-reduce of 16 MB (f32, 2 ranks): threads of one process against Open MPI, one after
// the other in one run. Checks the answer too.
//   comm_bench           measures both and prints the ratio; needs mpirun
//   comm_bench --mpi     what mpirun starts
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/format.h"
#include "comm/mpi.h"
#include "comm/threads.h"

namespace fourfold::comm {
namespace {

constexpr std::size_t count = 4'000'000;  // 16 MB of floats
constexpr int rounds = 60;

/// The median time of one call, on this rank.
double measure(World& world) {
  GroupSpec spec{"all", {}, 4 * count};
  for (std::size_t i = 0; i < world.size(); ++i) spec.members.emplace_back(i);
  world.create_groups({&spec, 1});
  Group& group = world.group(spec.members, spec.name);
  std::vector<float> data(count);
  std::vector<double> times_s;
  for (int round = 0; round < rounds; ++round) {
    std::ranges::fill(data, static_cast<float>(world.rank().index() + 1));
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    group.all_reduce(std::as_writable_bytes(std::span(data)), DType::f32, Reduction::sum);
    times_s.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    const auto sum = static_cast<float>(world.size() * (world.size() + 1) / 2);
    if (!std::ranges::all_of(data, [&](float x) { return x == sum; })) {
      std::fprintf(stderr, "wrong sum\n");
      std::exit(1);
    }
  }
  std::ranges::sort(times_s);
  return times_s[rounds / 2];
}

double measure_threads() {
  ThreadJob job(2);
  double slowest_s = 0;
  job.run([&](World& world) {
    double time_s[] = {measure(world)};
    world.all_reduce(time_s, Reduction::max);
    if (world.rank() == Rank(0)) slowest_s = time_s[0];
  });
  return slowest_s;
}

int run_mpi() {
  const auto world = MpiWorld::start();
  double time_s[] = {measure(*world)};
  world->all_reduce(time_s, Reduction::max);
  if (world->rank() == Rank(0)) std::printf("mpi_s %.9f\n", time_s[0]);
  world->finish();
  return 0;
}

/// The time that mpirun's ranks print.
double measure_mpi(const std::string& program, const std::string& settings) {
  const std::string command =
      format("mpirun -np 2 --bind-to none --oversubscribe --allow-run-as-root {} {} --mpi 2>&1",
             settings, program);
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return -1;
  char line[256];
  double time_s = -1;
  while (std::fgets(line, sizeof line, pipe) != nullptr)
    if (std::sscanf(line, "mpi_s %lf", &time_s) != 1) std::fputs(line, stderr);
  return pclose(pipe) == 0 ? time_s : -1;
}

int compare(const std::string& program) {
  const auto rate = [](double time_s) { return 4e-9 * static_cast<double>(count) / time_s; };
  std::printf("all-reduce of 16 MB, f32, 2 ranks, median of %d\n", rounds);
  double best_mpi_s = 1e9;
  for (const char* settings : {"--mca mpi_yield_when_idle 1", "--mca mpi_yield_when_idle 0"}) {
    const double time_s = measure_mpi(program, settings);
    if (time_s <= 0) {
      std::fprintf(stderr, "mpirun failed\n");
      return 1;
    }
    std::printf("mpi      %7.3f ms  %6.2f GB/s  (%s)\n", 1e3 * time_s, rate(time_s), settings);
    best_mpi_s = std::min(best_mpi_s, time_s);
  }
  const double threads_s = measure_threads();
  std::printf("threads  %7.3f ms  %6.2f GB/s\n", 1e3 * threads_s, rate(threads_s));
  std::printf("ratio    %7.2f\n", best_mpi_s / threads_s);
  return 0;
}

}  // namespace
}  // namespace fourfold::comm

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--mpi") == 0) return fourfold::comm::run_mpi();
  return fourfold::comm::compare(argv[0]);
}
