#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/bench.h"
#include "cli/command.h"
#include "cli/prepare_to_look.h"
#include "cli/shared_options.h"
#include "config/uses.h"
#include "job/job.h"
#include "job/settle.h"
#include "machine/cluster.h"
#include "measure/ceilings.h"
#include "measure/cpu_step.h"
#include "measure/cuda_parts.h"
#include "measure/kernel_table.h"
#include "measure/step_calls.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

void list_options(OptionList& options, ReshardArguments& given) {
  options.tell(given.is_given);
  options.add("--case", given.cases, "reshard: of the paper's Table 2 (default: all)",
              {.separator = ',', .within = Whole{1, 9}});
  options.add("--bytes", given.bytes,
              "reshard: of a case's tensor, at most; its dims are halved until it fits",
              {.shows_default = true});
  options.add("--from", given.from, "reshard: a sharding spec in place of a case: S0RR");
  options.add("--from-mesh", given.from_mesh, "reshard: 2x4, a row for each host");
  options.add("--to", given.to, "reshard: the spec on the other mesh");
  options.add("--to-mesh", given.to_mesh, "reshard: the other mesh");
  options.add("--shape", given.shape, "reshard: of that tensor: 256,256,128",
              {.separator = ',', .within = Whole{1, std::int64_t{1} << 24}});
  options.add("--strategy", given.strategies,
              "reshard: send_recv, local_all_gather, global_all_gather, broadcast, signal, alpa "
              "(default: all)",
              {.separator = ',',
               .one_of = "send_recv,local_all_gather,global_all_gather,broadcast,signal,alpa"});
  options.add("--order", given.ordering, "reshard: how senders and order are chosen",
              {.shows_default = true, .one_of = "naive,balance_only,depth_first,greedy,best"});
  options.add("--chunks", given.chunks, "reshard: of each broadcast, or auto",
              {.shows_default = true});
  options.add("--rate", given.rate, "reshard: of a host's port, for the plan",
              {.shows_default = true});
  options.add("--latency", given.latency, "reshard: between hosts, for the plan",
              {.shows_default = true});
  options.add("--inside", given.inside, "reshard: rate within a host, for the plan",
              {.shows_default = true});
  options.add("--inside-latency", given.inside_latency,
              "reshard: of a message within a host, for the plan", {.shows_default = true});
  options.add("--no-turns", given.is_free,
              "reshard: ranks of a host do not wait for each other, whatever the order");
  options.add("--plan", given.is_plan, "reshard: print the plans, move nothing");
}

void list_options(OptionList& options, CollectivesArguments& given) {
  options.tell(given.is_given);
  options.add("--grid", given.grid,
              "collectives: x, y, z and data, as 2x2x1x2: groups of each axis too");
  options.add(
      "--kind", given.kinds,
      "collectives: all_reduce, all_gather, reduce_scatter, all_to_all, send (default: all)",
      {.separator = ',', .one_of = join(machine::measured_kinds(), ",")});
  options.add("--sizes", given.sizes,
              "collectives: of the whole tensor (default: from 4KiB to 16MiB)", {.separator = ','});
  options.add("--machine", given.machine,
              "collectives: show what its links give: a name of `fourfold machines`, or a file",
              {.offers = machine_names});
}

void list_options(OptionList& options, BenchArguments& given) {
  given.variable = options.caller().variable;
  given.launcher = comm::launcher_facts(given.variable);
  options.add(
      "WHAT", given.what,
      "gemm: products; attention; kernels: all of a step; copy: the machine's ceilings; step: "
      "ten steps of training; machine: a file of this machine, as a cluster; reshard: a "
      "tensor from one mesh to another; collectives: tensors between all ranks, and along "
      "each axis of a grid",
      {.is_required = true,
       .one_of = "gemm,attention,kernels,copy,step,machine,reshard,collectives"});
  options.add("CONFIG", given.config.files,
              "Whose step (default: a small and a large GPT's); machine: whose kernels to time too "
              "(default: nobody's)");
  add_set_option(options, given.config);
  options.add("--threads", given.threads, "Threads of the kernels; 0: as configured",
              {.within = Whole{0, 4096}});
  options.add("--dtype", given.dtype,
              "fp32, fp64 or bf16; on a GPU bf16, fp32, or tf32: fp32 with products of rounded "
              "operands (default: as configured)",
              {.one_of = "fp32,fp64,bf16,tf32"});
  options.add("--seconds", given.seconds, "To measure each kernel for",
              {.shows_default = true, .within = Real{0.001, 60}});
  options.add("--device", given.device,
              "cpu, or cuda: the first GPU; collectives: that of each rank",
              {.shows_default = true, .one_of = "cpu,cuda"});
  options.add("-o,--output", given.output,
              "Write which kernel is best for each product, for run.kernel_table; or the machine's "
              "file");
  options.add("--ranks", given.ranks,
              "machine, collectives: ranks, as threads of this process (default: one a core)",
              {.within = Whole{1, 1024}});
  options.add("--job", given.is_job,
              "machine, step, reshard, collectives: the ranks are the processes of mpirun or srun");
  options.add("--quick", given.is_quick,
              "machine, collectives: small sizes and no care, to try it; the figures mean nothing");
  add_format_option(options, given.format,
                    "step, reshard, collectives: text, or json: all figures in seconds");
  list_options(options, given.reshard);
  list_options(options, given.collectives);
}

/// The first thing that is wrong with options given together.
std::string fault_of(const BenchArguments& given) {
  const std::string& what = given.what;
  const bool is_cuda = given.device == "cuda", has_type = !given.dtype.empty(),
             has_output = !given.output.empty(), has_files = !given.config.files.empty(),
             has_sets = !given.config.sets.empty(), has_config = has_files || has_sets;
  const bool is_step = what == "step", is_reshard = what == "reshard",
             is_machine = what == "machine", is_collectives = what == "collectives";
  const bool moves_alone = has_config || has_type || given.threads > 0;
  const std::vector<std::string> types = is_cuda ? std::vector<std::string>{"bf16", "fp32", "tf32"}
                                                 : std::vector<std::string>{"bf16", "fp32", "fp64"};
  const std::vector<std::pair<bool, std::string>> faults = {
      {is_collectives && moves_alone,
       "bench: collectives move fp32 of their own; leave CONFIG, --set, --dtype and --threads out"},
      {is_collectives && is_cuda && !given.is_job,
       "bench: collectives between GPUs are of processes; start them with mpirun or srun and say "
       "--job"},
      {!is_collectives && given.collectives.is_given,
       "bench: --grid, --kind, --sizes and --machine go with collectives alone"},
      {!is_reshard && given.reshard.is_given,
       "bench: --case, --from and what follows them go with reshard alone"},
      {is_reshard && (is_cuda || moves_alone),
       "bench: reshard moves elements of 4 bytes between CPUs; leave CONFIG and other options out"},
      {is_step && (is_cuda || has_type),
       "bench: step computes as the configuration says; set run.device and precision.compute in "
       "place of --device and --dtype"},
      {is_step && !has_files, "bench: step needs a CONFIG"},
      {!is_step && !is_reshard && !is_collectives && given.format != "text",
       "bench: --format goes with step, reshard or collectives"},
      {is_cuda && what != "kernels" && !is_collectives && (has_config || has_type || has_output),
       "bench: --device cuda measures fixed sizes in all types; leave CONFIG and options out, or "
       "measure kernels in place of " +
           what},
      {has_type && std::ranges::find(types, given.dtype) == types.end(),
       format("--dtype: is '{}'; on this device choose {}", given.dtype, join(types, ", "))},
      {has_output && !is_machine && what != "gemm" && what != "kernels",
       "bench: --output goes with gemm, kernels or machine"},
      {!is_machine && !is_collectives &&
           (given.ranks > 0 || given.is_quick || (given.is_job && !is_step && !is_reshard)),
       "bench: --ranks and --quick go with machine or collectives, --job with these, step or "
       "reshard"},
      {is_machine && (is_cuda || has_type),
       "bench: machine measures ranks on CPUs, in fp32 and fp64, and the kernels of a CONFIG as it "
       "says; leave --device and --dtype out"},
      {is_machine && !has_files && has_sets, "bench: machine takes --set beside a CONFIG alone"},
      {given.is_job && given.ranks > 0,
       "bench: --job takes its ranks from the launcher; leave --ranks out"}};
  const auto first = std::ranges::find(faults, true, &std::pair<bool, std::string>::first);
  return first == faults.end() ? std::string() : first->second;
}

/// The types are a key, so that what follows from it follows here too.
job::ConfigSource with_types(job::ConfigSource source, const BenchArguments& arguments,
                             const std::string& device) {
  std::string compute = arguments.dtype == "tf32" ? "fp32" : arguments.dtype;
  if (compute.empty() && device == "cuda" && source.files.empty()) compute = "bf16";
  if (!compute.empty()) source.sets.push_back("precision.compute=" + compute);
  return source;
}

/// The configurations to measure: the one given, or one for each of `layers`, whose settings go
/// before those of the command line.
std::vector<job::ConfigSource> sources(const BenchArguments& arguments,
                                       const std::vector<std::vector<std::string>>& layers) {
  if (!arguments.config.files.empty()) return {arguments.config};
  std::vector<job::ConfigSource> made;
  for (std::vector<std::string> sets : layers) {
    sets.insert(sets.end(), {"model.num_layers=1", "data.format=synthetic", "sample.tokens=0"});
    sets.insert(sets.end(), arguments.config.sets.begin(), arguments.config.sets.end());
    made.push_back({{}, std::move(sets)});
  }
  return made;
}

/// Layers like those of a character model and of GPT-2 124M.
const std::vector<std::vector<std::string>> cpu_layers = {
    {"model.hidden_size=128", "model.num_attention_heads=4", "model.vocab_size=65",
     "model.bias=false", "train.global_batch_size=12", "data.seq_length=64"},
    {"model.hidden_size=768", "model.num_attention_heads=12", "model.vocab_size=50304",
     "train.global_batch_size=4", "data.seq_length=64"}};
/// Layers of the shapes that scripts/bench-gpu trains.
const std::vector<std::vector<std::string>> gpu_layers = {
    {"model.hidden_size=768", "model.num_attention_heads=12", "train.global_batch_size=16",
     "model.vocab_size=50304", "data.seq_length=1024"},
    {"model.hidden_size=1600", "model.num_attention_heads=25", "train.global_batch_size=8",
     "model.vocab_size=50304", "data.seq_length=1024"}};

void write_table(const machine::KernelTable& table, const std::string& output) {
  if (output.empty()) return;
  write_file_atomic(output, machine::to_text(table));
  screen::print("table: %s (use it with --set run.kernel_table=%s)\n", output.c_str(),
                output.c_str());
}

void bench_kernels(const BenchArguments& arguments) {
  machine::KernelTable table{measure::kernel_cpu(), {}};
  for (const job::ConfigSource& source : sources(arguments, cpu_layers)) {
    const job::Job job = bench_job(source, arguments, "cpu");
    const DType dtype = job.settled.config().plan.compute;
    const measure::Ceilings ceilings =
        measure::measure_ceilings(dtype, job.target.threads, arguments.seconds);
    screen::print("%s, %s, %s: product %.1f GFLOP/s, triad %.1f GB/s\n\n", table.cpu.c_str(),
                  std::string(to_string(dtype)).c_str(),
                  counted(job.target.threads, "thread").c_str(), ceilings.flops_per_s / 1e9,
                  ceilings.bytes_per_s / 1e9);
    measure::measure_cpu_step(measure::calls_of(job.bundle().at(op::ProgramKind::train),
                                                job.target.threads, arguments.what),
                              job.target, arguments.seconds, ceilings, print_line, table);
  }
  write_table(table, arguments.output);
}

void bench_copy(const BenchArguments& arguments) {
  const int most = job::resolve_threads(arguments.threads);
  screen::print("%s\n\n%7s %12s %12s %16s %16s %16s\n", measure::kernel_cpu().c_str(), "threads",
                "copy GB/s", "triad GB/s", "fp32 GFLOP/s", "fp64 GFLOP/s", "bf16 GFLOP/s");
  for (int threads = 1;; threads = std::min(2 * threads, most)) {
    const double seconds = 3 * arguments.seconds;
    screen::print("%7d %12.1f %12.1f %16.1f %16.1f %16.1f\n", threads,
                  measure::measure_copy_bytes_per_s(threads, seconds) / 1e9,
                  measure::measure_triad_bytes_per_s(threads, seconds) / 1e9,
                  measure::measure_gemm_flops_per_s(DType::f32, threads, seconds) / 1e9,
                  measure::measure_gemm_flops_per_s(DType::f64, threads, seconds) / 1e9,
                  measure::measure_gemm_flops_per_s(DType::bf16, threads, seconds) / 1e9);
    std::fflush(stdout);
    if (threads >= most) return;
  }
}

/// What is measured together is started together, and the other way round.
void check_launcher(const BenchArguments& arguments) {
  const bool is_launched = arguments.launcher.launched_by_mpi();
  if (arguments.is_job && !is_launched)
    throw UserError(ExitCode::bad_config,
                    "--job measures the processes of a launcher, and none started this one; "
                    "start it with mpirun or srun, or leave --job out");
  if (!arguments.is_job && is_launched)
    throw UserError(ExitCode::bad_config,
                    "several processes were started, and each would measure alone; say --job to "
                    "measure them together");
}

}  // namespace

job::Job bench_job(const job::ConfigSource& source, const BenchArguments& arguments,
                   const std::string& device) {
  const config::Config config = job::load_config(with_types(source, arguments, device));
  refuse_open_grid(config);
  return job::prepare(job::settle(config::for_measuring(config, device, arguments.threads), {}));
}

std::vector<job::Job> bench_steps(const job::ConfigSource& source, const BenchArguments& arguments,
                                  std::int64_t ranks, int threads) {
  if (source.files.empty()) return {};
  const config::Config config = job::load_config(with_types(source, arguments, "cpu"));
  refuse_open_grid(config);
  const config::Config measured = config::for_measuring(config, "cpu", threads);
  const plan::PlanSpec spec = measured.plan_spec();
  const std::int64_t samples = spec.micro_batch_size,
                     micros = spec.global_batch_size >= 2 * samples ? 2 : 1;
  std::vector<job::Job> jobs;
  for (std::int64_t divisor = 1; divisor <= 2 * ranks && samples % divisor == 0; divisor *= 2)
    jobs.push_back(
        job::prepare(job::settle(config::for_one_rank(measured, samples / divisor, micros), {})));
  return jobs;
}

void print_line(const std::string& line) {
  screen::print("%s", line.c_str());
  std::fflush(stdout);
}

void bench_device_step(const BenchArguments& arguments, const measure::DeviceKernels& kernels) {
  machine::KernelTable table;
  table.device = measure::kernel_device().value_or("");
  for (const job::ConfigSource& source : sources(arguments, gpu_layers)) {
    const job::Job job = bench_job(source, arguments, "cuda");
    screen::print("%s, %s, micro-batch of %lld\n\n", table.device.c_str(),
                  std::string(to_string(job.settled.config().plan.compute)).c_str(),
                  static_cast<long long>(job.settled.plan().micro_batch_size));
    measure::measure_step(
        measure::calls_of(job.bundle().at(op::ProgramKind::train), job.target.threads, "kernels"),
        measure::allowed_by(job.target, kernels), print_line, table);
  }
  write_table(table, arguments.output);
}

namespace {

void bench(const BenchArguments& arguments) {
  if (arguments.what == "machine" || arguments.what == "step" || arguments.what == "reshard" ||
      arguments.what == "collectives")
    check_launcher(arguments);
  if (arguments.what == "machine")
    bench_machine(arguments);
  else if (arguments.what == "step")
    bench_step(arguments);
  else if (arguments.what == "reshard")
    bench_reshard(arguments);
  else if (arguments.what == "collectives")
    bench_collectives(arguments);
  else if (arguments.device == "cuda")
    bench_cuda(arguments);
  else if (arguments.what == "copy")
    bench_copy(arguments);
  else
    bench_kernels(arguments);
}

}  // namespace

void add_bench(Commands& commands) {
  commands.add(
      {"bench", After{"config"}, "Measure kernels, and compare them with what this machine can do",
       "bench step configs/gpt-tiny.yaml"},
      list_options, bench, fault_of);
}

}  // namespace fourfold::cli
