#include "cli/bench.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cores.h"
#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "comm/launch.h"
#include "comm/mpi.h"
#include "comm/threads.h"
#include "job/device.h"
#include "machine/known_clusters.h"
#include "measure/cuda_run.h"
#include "measure/device_exchanges.h"
#include "measure/exchange_table.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// Nothing that is measured takes as long.
constexpr double longest_exchange_s = 300;

std::optional<measure::GridSizes> grid_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  measure::GridSizes grid{};
  const std::vector<std::string> sizes = split(text, 'x');
  bool is_right = sizes.size() == grid.size();
  for (std::size_t axis = 0; is_right && axis < grid.size(); ++axis) {
    const char* const end = sizes[axis].data() + sizes[axis].size();
    const auto read = std::from_chars(sizes[axis].data(), end, grid[axis]);
    constexpr std::int64_t most = 1 << 20;
    is_right = read.ec == std::errc() && read.ptr == end && grid[axis] >= 1 && grid[axis] <= most;
  }
  if (!is_right)
    throw UserError(ExitCode::bad_config,
                    format("--grid {}: expected the sizes of x, y, z and data, as 2x2x1x2", text));
  return grid;
}

std::int64_t ranks_of(const measure::GridSizes& grid) {
  return grid[0] * grid[1] * grid[2] * grid[3];
}

std::vector<std::int64_t> sizes_of(const BenchArguments& arguments) {
  if (arguments.collectives.sizes.empty())
    return arguments.is_quick ? measure::quick_sizes() : measure::usual_sizes();
  constexpr std::int64_t most = std::int64_t{4} << 30;
  std::vector<std::int64_t> sizes;
  for (const std::string& text : arguments.collectives.sizes) {
    const auto bytes = parse_bytes(text);
    if (!bytes || *bytes < 4 || *bytes > most)
      throw UserError(ExitCode::bad_config,
                      format("--sizes {}: expected sizes from 4 bytes to {}, as 64KiB,16MiB", text,
                             format_bytes(most)));
    sizes.push_back(*bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

/// What does not depend on the ranks, read before any of them starts.
measure::ExchangeRequest read_wanted(const BenchArguments& arguments) {
  const CollectivesArguments& said = arguments.collectives;
  measure::ExchangeRequest wanted{.grid = grid_of(said.grid),
                                  .kinds = {},
                                  .sizes = sizes_of(arguments),
                                  .machine = {},
                                  .seconds = arguments.is_quick ? 0.001 : arguments.seconds,
                                  .is_json = arguments.format == "json"};
  for (const ExchangeKind kind : exchange_kinds())
    if (said.kinds.empty() || std::ranges::count(said.kinds, to_string(kind)) > 0)
      wanted.kinds.push_back(kind);
  if (!said.machine.empty()) wanted.machine = machine::load_cluster(said.machine);
  return wanted;
}

/// Errors: UserError where these ranks do not fit what is wanted.
void check_ranks(const measure::ExchangeRequest& wanted, std::int64_t world) {
  if (wanted.grid && ranks_of(*wanted.grid) != world)
    throw UserError(ExitCode::bad_config,
                    format("the grid has {} ranks, and there are {}; start {}",
                           ranks_of(*wanted.grid), world, ranks_of(*wanted.grid)));
  if (world < 2)
    throw UserError(ExitCode::bad_config,
                    "collectives need two ranks or more; start more, or say --ranks 2");
  if (wanted.machine) machine::require_ranks(*wanted.machine, world);
}

/// What carries tensors between the ranks, and the words for it.
struct Carried {
  std::unique_ptr<measure::DeviceOfRank> device;  // of GPUs alone; outlives the carrier
  std::unique_ptr<measure::Carrier> carrier;
  std::string words;
};

std::string words_of_place(const measure::GpuPlace& place) {
  if (place.between == measure::Between::nccl)
    return place.what_nccl_lacks.empty() ? "NCCL" : format("NCCL ({})", place.what_nccl_lacks);
  return format("{} by way of the host ({})",
                place.between == measure::Between::mpi ? "MPI, collectives" : "MPI",
                place.why_not_nccl);
}

Carried carried(const BenchArguments& arguments, const measure::ExchangeRequest& wanted,
                comm::World& world) {
  Carried made;
  if (arguments.device == "cuda") {
    const measure::GpuPlace place = measure::place_gpu(world);
    made.device = measure::open_device_of_rank(place.index, world, place.between);
    // Sizes are rounded to what members share evenly, upwards where one is less than that.
    const std::int64_t most =
        wanted.sizes.back() + static_cast<std::int64_t>(world.size() * sizeof(float));
    made.carrier = std::make_unique<measure::DeviceCarrier>(world, made.device->device(),
                                                            made.device->carries(), most);
    made.words = format("GPUs, {}", words_of_place(place));
    return made;
  }
  made.carrier = std::make_unique<measure::HostCarrier>(world);
  made.words = arguments.is_job ? comm::mpi_library() : "threads of one process";
  return made;
}

/// What one rank does.
void measure_rank(const BenchArguments& arguments, const measure::ExchangeRequest& wanted,
                  comm::World& world) {
  const Carried by = carried(arguments, wanted, world);
  measure::measure_exchanges(world, *by.carrier, by.words, wanted, [](const std::string& text) {
    screen::print_text(text);
    std::fflush(stdout);
  });
}

}  // namespace

void bench_collectives(const BenchArguments& arguments) {
  const measure::ExchangeRequest what = read_wanted(arguments);
  if (arguments.is_job) {
    comm::LaunchOptions launch;
    launch.watchdog_s = longest_exchange_s;
    launch.report = screen::report_error;
    comm::ProcessJob processes(arguments.launcher, launch);
    comm::World& world = *processes.world();
    processes.run([&] {
      processes.each([&] { check_ranks(what, static_cast<std::int64_t>(world.size())); });
      measure_rank(arguments, what, world);
    });
    return;
  }
  std::int64_t ranks = arguments.ranks;
  if (ranks == 0) ranks = what.grid ? ranks_of(*what.grid) : num_usable_cores();
  constexpr std::int64_t most_threads = 1024;
  if (ranks > most_threads)
    throw UserError(ExitCode::bad_config,
                    format("{} ranks are more than the {} that are threads of one process; start "
                           "processes and say --job",
                           ranks, most_threads));
  check_ranks(what, ranks);
  comm::ThreadJob job(static_cast<std::size_t>(ranks));
  // As `train` runs its ranks.
  job.run([&](comm::World& world) { measure_rank(arguments, what, world); },
          comm::ThreadJob::Cores::own_share);
}

}  // namespace fourfold::cli
