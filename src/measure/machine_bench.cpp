#include "measure/machine_bench.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "kernels/cpu/target.h"
#include "machine/priced_by.h"
#include "measure/best_rate.h"
#include "measure/ceilings.h"
#include "measure/instruction_time.h"
#include "measure/kernel_bench.h"
#include "measure/step_times.h"

namespace fourfold::measure {
namespace {

/// A step is run for so many times as long as other figures: each of its calls is one.
constexpr double step_rounds = 20;

/// What this rank does among the others.
struct Team {
  comm::World& world;
  const MachineBenchOptions& options;
  bool is_active;  // its device's first rank
};

/// The kernel that a program of this machine would run.
KernelBench bench_of(const kernels::Problem& problem) {
  const machine::Target target = kernels::cpu::target(problem.threads);
  const std::string& name = machine::choose(target, problem.op, problem.shapes, problem.dtype);
  return {name, problem, target.workspace_bytes(name, problem.op, problem.shapes, problem.dtype)};
}

Timing time_bench(const Team& team, KernelBench& bench) {
  return time_together(team.world, 3 * team.options.seconds, [&] {
    if (team.is_active) bench.call();
  });
}

std::vector<ProductTime> measure_products(const Team& team) {
  const std::vector<std::int64_t> sizes =
      team.options.is_quick ? std::vector<std::int64_t>{32, 64}
                            : std::vector<std::int64_t>{32, 64, 128, 256, 512, 1024};
  std::vector<ProductTime> products;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t size : sizes) {
      const kernels::Problem problem = square_product(size, dtype, team.options.threads);
      KernelBench bench = bench_of(problem);
      products.push_back(
          {dtype, size, op::flops(problem.op, problem.shapes), time_bench(team, bench)});
    }
  return products;
}

/// The slowest device's best rate, and how far apart they are.
void measure_memory(const Team& team, MachineTimes& times) {
  const double seconds = team.options.is_quick ? 0.001 : 3 * team.options.seconds;
  team.world.barrier();
  const double own = team.is_active ? measure_triad_bytes_per_s(team.options.threads, seconds) : 0;
  std::vector<double> most = {own, team.is_active ? -own : -1e300};
  team.world.all_reduce(most, Reduction::max);
  times.triad_bytes_per_s = -most[1];
  times.triad_spread = (most[0] + most[1]) / most[0];

  // 32 MiB each: three operands are beyond the caches of a core.
  const Shape shape{team.options.is_quick ? std::int64_t{1} << 14 : std::int64_t{1} << 23};
  const kernels::Problem sum{
      op::sum_of_two(), DType::f32, {shape, shape, shape}, team.options.threads};
  KernelBench rows = bench_of(sum);
  const Timing timing = time_bench(team, rows);
  times.rows_bytes_per_s = op::traffic_bytes(sum.op, sum.shapes, sum.dtype) / timing.best_s;
  times.rows_spread = timing.spread();
}

/// Reduces a tensor over all ranks again and again, on a thread and in a group of its own.
class Beside {
 public:
  explicit Beside(comm::World& world) : data_(elements) {
    comm::GroupSpec spec{"bench beside", {}, elements * std::int64_t{sizeof(float)}};
    for (std::size_t i = 0; i < world.size(); ++i) spec.members.emplace_back(i);
    world.create_groups({&spec, 1});
    thread_ = std::thread([this, &group = world.group(spec.members, spec.name)] { run(group); });
  }
  ~Beside() {
    wants_end_ = true;
    thread_.join();
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

 private:
  static constexpr std::int64_t elements = 1 << 18;

  /// The first element counts the ranks that want to end: all see the same number.
  void run(comm::Group& group) {
    const auto members = static_cast<float>(group.size());
    try {
      do {
        data_[0] = wants_end_ ? 1 : 0;
        group.all_reduce(std::as_writable_bytes(std::span(data_)), DType::f32, Reduction::sum);
      } while (data_[0] < members);
    } catch (const comm::Aborted&) {
      // Another rank ended the job; the rank's own thread meets that too.
    }
  }

  std::vector<float> data_;
  std::atomic<bool> wants_end_ = false;
  std::thread thread_;
};

/// By means: a round waits for a core as a whole, or not at all. Where one thread must do all that
/// communicates, nothing runs beside it.
double measure_slowdown(const Team& team) {
  if (team.world.size() == 1 || !team.world.concurrent()) return 1;
  KernelBench bench =
      bench_of(square_product(team.options.is_quick ? 64 : 256, DType::f32, team.options.threads));
  const Timing alone = time_bench(team, bench);
  const Beside beside(team.world);
  return std::max(1., time_bench(team, bench).mean_s / alone.mean_s);
}

/// Ranks of a host must follow one another, and each host must have as many.
void check_places(comm::World& world) {
  const auto own = static_cast<double>(world.local_size());
  const bool is_in_place = world.rank().index() % world.local_size() == world.local_rank();
  std::vector<double> local = {own, -own, is_in_place ? 0. : 1.};
  world.all_reduce(local, Reduction::max);
  if (local[0] != -local[1] || local[2] > 0)
    throw UserError(ExitCode::bad_config,
                    "ranks do not follow one another on hosts of as many ranks each; start them "
                    "with `mpirun --map-by slot`, as many on each host");
}

std::vector<ExchangeTimes> measure_exchanges(const Team& team) {
  comm::World& world = team.world;
  const std::vector<std::int64_t> sizes = team.options.is_quick ? quick_sizes() : usual_sizes();
  std::vector<ExchangeTimes> all;
  for (const Exchange& exchange : exchanges_of(static_cast<std::int64_t>(world.size()),
                                               static_cast<std::int64_t>(world.local_size())))
    all.push_back(measure_exchange(world, exchange, sizes, team.options.seconds));
  return all;
}

std::string product_line(const ProductTime& product) {
  return format("  {:<5} {:>5} squared  {}   spread {:>3.0f}%", to_string(product.dtype),
                product.size, flops_text(product.flops / product.timing.best_s),
                100 * product.timing.spread());
}

std::string exchange_line(const ExchangeTimes& times) {
  return format(
      "  {:<14} {:>4} ranks, stride {:>3}  {:>8.1f} us + {:>7.4g} GB/s   spread {:>3.0f}%"
      "   line within {:.0f}%",
      to_string(times.exchange.kind), times.exchange.ranks, times.exchange.stride,
      1e6 * times.fit.latency_s, times.fit.bytes_per_s / 1e9, 100 * times.spread,
      100 * times.fit.worst_error);
}

/// Three digits: a fourth is noise.
double rounded(double value) {
  const std::string digits = format("{:.2e}", value);
  double number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

machine::MeasuredGroup measured_group(const ExchangeTimes& exchange) {
  machine::MeasuredGroup group{
      exchange.exchange.kind,          exchange.exchange.ranks,           exchange.exchange.stride,
      rounded(exchange.fit.latency_s), rounded(exchange.fit.bytes_per_s), {}};
  for (const TimedBytes& sample : exchange.samples)
    group.times.push_back({sample.bytes, rounded(sample.seconds)});
  return group;
}

/// By operation and type; calls that move equally many bytes count as one of their mean.
std::vector<machine::MeasuredKernel> measured_kernels(const std::vector<CallTime>& calls) {
  struct Sum {
    double flops = 0, seconds = 0, count = 0;
  };
  std::map<std::pair<std::string, DType>, std::map<double, Sum>> sums;
  for (const CallTime& one : calls) {
    const kernels::Problem& problem = one.call.problem;
    const double bytes = op::traffic_bytes(problem.op, problem.shapes, problem.dtype);
    if (bytes <= 0) continue;
    Sum& sum = sums[{std::string(op::name(problem.op)), problem.dtype}][bytes];
    sum.flops += one.call.count * op::flops(problem.op, problem.shapes);
    sum.seconds += one.call.count * one.seconds;
    sum.count += one.call.count;
  }
  std::vector<machine::MeasuredKernel> kernels;
  for (const auto& [key, by_bytes] : sums) {
    machine::MeasuredKernel kernel{key.first, key.second, {}};
    for (const auto& [bytes, sum] : by_bytes)
      kernel.times.push_back({bytes, sum.flops / sum.count, rounded(sum.seconds / sum.count)});
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

machine::ComputeRate rate_of(const std::vector<ProductTime>& products, DType dtype) {
  machine::ComputeRate rate;
  rate.dtype = dtype;
  for (const ProductTime& product : products)
    if (product.dtype == dtype)
      rate.flops_per_s = std::max(rate.flops_per_s, product.flops / product.timing.best_s);
  for (const ProductTime& product : products)
    if (product.dtype == dtype)
      rate.efficiency.push_back(
          {product.flops, rounded(product.flops / product.timing.best_s / rate.flops_per_s)});
  rate.flops_per_s = rounded(rate.flops_per_s);
  return rate;
}

/// What messages between ranks this far apart reach.
const LineFit& send_at(const MachineTimes& times, std::int64_t stride) {
  for (const ExchangeTimes& exchange : times.exchanges)
    if (exchange.exchange == Exchange{message_of_two, 2, stride}) return exchange.fit;
  fail_internal("messages were timed at every level");
}

machine::Level level_of(const char* name, std::int64_t units, const LineFit& send,
                        std::int64_t ranks_of_unit) {
  machine::Level level;
  level.name = name;
  level.units = units;
  level.latency_s = rounded(send.latency_s);
  level.link_bytes_per_s = rounded(send.bytes_per_s);
  // All ranks of a unit sent at once when this was timed.
  level.port_bytes_per_s = rounded(send.bytes_per_s * static_cast<double>(ranks_of_unit));
  return level;
}

}  // namespace

MachineTimes measure_machine(comm::World& world, const MachineBenchOptions& options,
                             const Tell& tell) {
  const auto rank = static_cast<std::int64_t>(world.rank().index());
  const Team team{world, options, rank % options.ranks_per_device == 0};
  check_places(world);
  MachineTimes times;
  // Steps come before anything that gives this thread helpers: with more of them than cores, OpenMP
  // lets helpers sleep between calls, and those of a step would be slower than they are in a run.
  times.instruction = measure_instruction(world, team.is_active, options.seconds);
  tell(format("an instruction: {:.2f} us, spread {:.0f}%", 1e6 * times.instruction.median_s,
              100 * times.instruction.spread()));
  times.calls = time_steps(world, options.steps,
                           {.threads = options.threads,
                            .seconds = options.is_quick ? 0 : step_rounds * options.seconds,
                            .ranks_per_device = options.ranks_per_device,
                            .instruction_s = times.instruction.median_s});
  double calls_s = 0;
  for (const CallTime& one : times.calls) calls_s += one.seconds;
  if (!times.calls.empty())
    tell(format("{} of the steps: {:.4g} ms together",
                counted(static_cast<std::int64_t>(times.calls.size()), "kernel call"),
                1e3 * calls_s));
  tell("products of square matrices, a device:");
  times.products = measure_products(team);
  for (const ProductTime& product : times.products) tell(product_line(product));
  measure_memory(team, times);
  tell(
      format("memory, a device while all read: triad {:.1f} GB/s, spread {:.0f}%; element-wise "
             "rows {:.1f} GB/s, spread {:.0f}%",
             times.triad_bytes_per_s / 1e9, 100 * times.triad_spread, times.rows_bytes_per_s / 1e9,
             100 * times.rows_spread));
  times.handoff = measure_handoff(world, options.seconds);
  tell(format("an instruction that waits for one of another stream: {:.2f} us, spread {:.0f}%",
              1e6 * times.handoff.median_s, 100 * times.handoff.spread()));
  times.slowdown = measure_slowdown(team);
  if (world.size() == 1) return times;
  tell(format("a product beside an all-reduce takes {:.2f} times as long", times.slowdown));
  tell("exchanges of all ranks, in groups:");
  times.exchanges = measure_exchanges(team);
  for (const ExchangeTimes& exchange : times.exchanges) tell(exchange_line(exchange));
  return times;
}

machine::Cluster cluster_of(const MachineTimes& times, const MachineBenchOptions& options,
                            std::int64_t world_size, std::int64_t host_ranks) {
  machine::Cluster cluster;
  const std::int64_t host_devices = host_ranks / options.ranks_per_device;
  const std::int64_t hosts = world_size / host_ranks;
  cluster.title =
      format("Measured: {} on {}", counted(hosts * host_devices, "device"), counted(hosts, "host"));
  machine::Device& device = cluster.device;
  device.name = options.device_name;
  constexpr double gib = 0x1p30;
  device.memory_bytes = rounded(static_cast<double>(options.memory_bytes) / gib) * gib;
  // Rows that write past the caches may move more than the triad, whose stores read first.
  const double memory_bytes_per_s = std::max(times.triad_bytes_per_s, times.rows_bytes_per_s);
  device.memory_bytes_per_s = rounded(memory_bytes_per_s);
  device.memory_share = rounded(times.rows_bytes_per_s / memory_bytes_per_s);
  device.instruction_s = rounded(times.instruction.median_s);
  device.handoff_s = rounded(std::max(0., times.handoff.median_s - times.instruction.median_s));
  device.slowdown_beside_communication = rounded(times.slowdown);
  for (const DType dtype : {DType::f32, DType::f64})
    device.rates.push_back(rate_of(times.products, dtype));
  device.kernels = measured_kernels(times.calls);
  for (const std::string& op : machine::operations_beside_products())
    if (std::ranges::find(device.kernels, op, &machine::MeasuredKernel::op) == device.kernels.end())
      device.unmeasured.push_back(op);
  cluster.ranks_per_device = options.ranks_per_device;
  if (host_devices > 1)
    cluster.levels.push_back(level_of("host", host_devices, send_at(times, 1), 1));
  cluster.levels_of_node = cluster.levels.size();
  if (hosts > 1)
    cluster.levels.push_back(level_of("network", hosts, send_at(times, host_ranks), host_ranks));
  for (const ExchangeTimes& exchange : times.exchanges)
    if (world_size % (exchange.exchange.ranks * exchange.exchange.stride) == 0)
      cluster.groups.push_back(measured_group(exchange));
  return cluster;
}

}  // namespace fourfold::measure
