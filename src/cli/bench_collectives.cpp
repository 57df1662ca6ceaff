#include "cli/bench_collectives.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "comm/launch.h"
#include "comm/mpi.h"
#include "comm/threads.h"
#include "job/cuda_run.h"
#include "job/device.h"
#include "job/job.h"
#include "machine/known_clusters.h"
#include "machine/mesh_bandwidth.h"
#include "measure/device_exchanges.h"
#include "measure/exchanges.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// Nothing that is measured takes as long.
constexpr double longest_exchange_s = 300;

/// Ranks at equal steps that exchange something, and what they are called: all of them, or those
/// that an axis of the grid joins.
struct NamedGroup {
  std::string name;
  std::int64_t ranks = 1, stride = 1;
};

using GridSizes = std::array<std::int64_t, 4>;

std::optional<GridSizes> grid_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  GridSizes grid{};
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

std::int64_t ranks_of(const GridSizes& grid) {
  return grid[0] * grid[1] * grid[2] * grid[3];
}

/// All ranks, then each axis of more than one; an axis that joins the same ranks as another group
/// has its name there.
std::vector<NamedGroup> groups_of(std::int64_t world, const std::optional<GridSizes>& grid) {
  std::vector<NamedGroup> groups = {{"world", world, 1}};
  if (!grid) return groups;
  constexpr std::array<const char*, 4> axes{"x", "y", "z", "data"};
  std::int64_t stride = 1;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const std::int64_t ranks = (*grid)[axis];
    if (ranks == 1) continue;
    if (ranks == world)
      groups.front().name += format(", {}", axes[axis]);
    else
      groups.push_back({axes[axis], ranks, stride});
    stride *= ranks;
  }
  return groups;
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
struct Wanted {
  std::optional<GridSizes> grid;
  std::vector<std::string> kinds;
  std::vector<std::int64_t> sizes;
  std::optional<machine::Cluster> machine;
};
Wanted read_wanted(const BenchArguments& arguments) {
  const CollectivesArguments& said = arguments.collectives;
  Wanted wanted{grid_of(said.grid), {}, sizes_of(arguments), {}};
  for (const std::string& kind : machine::measured_kinds())
    if (said.kinds.empty() || std::ranges::count(said.kinds, kind) > 0)
      wanted.kinds.push_back(kind);
  if (!said.machine.empty()) wanted.machine = machine::load_cluster(said.machine);
  return wanted;
}

/// Errors: UserError where these ranks do not fit what is wanted.
void check_ranks(const Wanted& wanted, std::int64_t world) {
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
  std::unique_ptr<job::DeviceOfRank> device;  // of GPUs alone; outlives the carrier
  std::unique_ptr<measure::Carrier> carrier;
  std::string words;
};

std::string words_of_place(const job::GpuPlace& place) {
  if (place.between == job::Between::nccl)
    return place.what_nccl_lacks.empty() ? "NCCL" : format("NCCL ({})", place.what_nccl_lacks);
  return format("{} by way of the host ({})",
                place.between == job::Between::mpi ? "MPI, collectives" : "MPI",
                place.why_not_nccl);
}

Carried carried(const BenchArguments& arguments, const Wanted& wanted, comm::World& world) {
  Carried made;
  if (arguments.device == "cuda") {
    const job::GpuPlace place = job::place_gpu(world);
    made.device = job::open_device_of_rank(place.index, world, place.between);
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

/// One line, or one object.
struct TimedExchange {
  const NamedGroup& group;
  const measure::ExchangeTimes& times;
  const measure::TimedBytes& sample;
  double link_bytes_per_s;  // infinite where no machine is named

  double ring_bytes_per_s() const {
    return measure::ring_share(times.exchange) * sample.bytes / sample.seconds;
  }
};

std::string exchanges_header() {
  return format("{:<15} {:<12} {:>6} {:>7} {:>10} {:>12} {:>9} {:>10} {:>7} {:>8}\n", "kind",
                "group", "ranks", "stride", "bytes", "time us", "GB/s", "link GB/s", "of it",
                "spread");
}

std::string line_of(const TimedExchange& result) {
  const bool has_link = std::isfinite(result.link_bytes_per_s);
  const measure::Exchange& exchange = result.times.exchange;
  return format(
      "{:<15} {:<12} {:>6} {:>7} {:>10} {:>12.1f} {:>9.4g} {:>10} {:>7} {:>7.0f}%\n", exchange.kind,
      result.group.name, exchange.ranks, exchange.stride,
      format_bytes(std::llround(result.sample.bytes)), 1e6 * result.sample.seconds,
      result.ring_bytes_per_s() / 1e9,
      has_link ? format("{:.4g}", result.link_bytes_per_s / 1e9) : "-",
      has_link ? format("{:.0f}%", 100 * result.ring_bytes_per_s() / result.link_bytes_per_s) : "-",
      100 * result.times.spread);
}

Json json_of(const TimedExchange& result) {
  const measure::Exchange& exchange = result.times.exchange;
  return Json::object()
      .set("kind", exchange.kind)
      .set("group", result.group.name)
      .set("ranks", exchange.ranks)
      .set("stride", exchange.stride)
      .set("bytes", static_cast<std::int64_t>(std::llround(result.sample.bytes)))
      .set("median_s", result.sample.seconds)
      .set("spread", result.times.spread)
      .set("bytes_per_s", result.sample.bytes / result.sample.seconds)
      .set("ring_bytes_per_s", result.ring_bytes_per_s())
      .set("link_bytes_per_s", result.link_bytes_per_s);
}

/// What one rank does.
void measure_rank(const BenchArguments& arguments, const Wanted& wanted, comm::World& world) {
  const auto ranks = static_cast<std::int64_t>(world.size());
  const std::int64_t hosts =
      std::max<std::int64_t>(1, ranks / static_cast<std::int64_t>(world.local_size()));
  const bool is_first = world.rank().index() == 0, is_json = arguments.format == "json";
  const Carried by = carried(arguments, wanted, world);
  const std::string title =
      format("{} on {}: {}{}", counted(ranks, "rank"), counted(hosts, "host"), by.words,
             wanted.machine ? format("; beside {}", wanted.machine->title) : "");
  const auto show = [&](const std::string& text) {
    if (!is_first || is_json) return;
    screen::print_text(text);
    std::fflush(stdout);
  };
  show(title + "\n\n" + exchanges_header());
  Json results = Json::array();
  for (const NamedGroup& group : groups_of(ranks, wanted.grid))
    for (const std::string& kind : wanted.kinds) {
      const measure::Exchange exchange{kind, kind == "send" ? 2 : group.ranks, group.stride};
      const measure::ExchangeTimes times =
          measure::measure_exchange(world, *by.carrier, exchange, wanted.sizes,
                                    arguments.is_quick ? 0.001 : arguments.seconds);
      const double link = wanted.machine ? machine::axis_bytes_per_s(
                                               *wanted.machine, {exchange.ranks, exchange.stride})
                                         : HUGE_VAL;
      for (const measure::TimedBytes& sample : times.samples) {
        const TimedExchange result{group, times, sample, link};
        results.push(json_of(result));
        show(line_of(result));
      }
    }
  show("\nGB/s: what each rank sends, if its group is a ring; medians of all ranks' slowest\n");
  if (is_first && is_json)
    screen::print_text(Json::object()
                           .set("ranks", ranks)
                           .set("hosts", hosts)
                           .set("carried_by", by.words)
                           .set("machine", wanted.machine ? Json(wanted.machine->name) : Json())
                           .set("results", results)
                           .dump() +
                       "\n");
}

}  // namespace

void bench_collectives(const BenchArguments& arguments) {
  const Wanted what = read_wanted(arguments);
  if (arguments.is_job) {
    comm::LaunchOptions launch;
    launch.watchdog_s = longest_exchange_s;
    launch.report = screen::report_error;
    comm::ProcessJob processes(arguments.launcher, launch);
    comm::World& world = processes.world();
    processes.run([&] {
      processes.together([&] { check_ranks(what, static_cast<std::int64_t>(world.size())); });
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
