// Options of what measures this machine.
#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "command_line/options.h"
#include "machine/cluster.h"

namespace fourfold::command_line {
namespace {

/// The options of `bench reshard`, and what says that one of them was given.
std::function<bool()> add_reshard_options(CLI::App& sub, ReshardArguments& arguments) {
  std::vector<CLI::Option*> options{
      sub.add_option("--case", arguments.cases, "reshard: of the paper's Table 2 (default: all)")
          ->delimiter(',')
          ->check(CLI::Range(1, 9)),
      sub.add_option("--bytes", arguments.bytes,
                     "reshard: of a case's tensor, at most; its dims are halved until it fits")
          ->capture_default_str(),
      sub.add_option("--from", arguments.from, "reshard: a sharding spec in place of a case: S0RR"),
      sub.add_option("--from-mesh", arguments.from_mesh, "reshard: 2x4, a row for each host"),
      sub.add_option("--to", arguments.to, "reshard: the spec on the other mesh"),
      sub.add_option("--to-mesh", arguments.to_mesh, "reshard: the other mesh"),
      sub.add_option("--shape", arguments.shape, "reshard: of that tensor: 256,256,128")
          ->delimiter(',')
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24)),
      sub.add_option("--strategy", arguments.strategies,
                     "reshard: send_recv, local_all_gather, global_all_gather, broadcast, signal, "
                     "alpa (default: all)")
          ->delimiter(',')
          ->check(one_of({"send_recv", "local_all_gather", "global_all_gather", "broadcast",
                          "signal", "alpa"})),
      sub.add_option("--order", arguments.ordering, "reshard: how senders and order are chosen")
          ->check(one_of({"naive", "balance_only", "depth_first", "greedy", "best"}))
          ->capture_default_str(),
      sub.add_option("--chunks", arguments.chunks, "reshard: of each broadcast, or auto")
          ->capture_default_str(),
      sub.add_option("--rate", arguments.rate, "reshard: of a host's port, for the plan")
          ->capture_default_str(),
      sub.add_option("--latency", arguments.latency, "reshard: between hosts, for the plan")
          ->capture_default_str(),
      sub.add_option("--inside", arguments.inside, "reshard: rate within a host, for the plan")
          ->capture_default_str(),
      sub.add_flag("--no-turns", arguments.is_free,
                   "reshard: ranks of a host do not wait for each other, whatever the order"),
      sub.add_flag("--plan", arguments.is_plan, "reshard: print the plans, move nothing")};
  return [options] {
    return std::ranges::any_of(options,
                               [](const CLI::Option* option) { return option->count() > 0; });
  };
}

/// The options of `bench collectives`, and what says that one of them was given.
std::function<bool()> add_collectives_options(CLI::App& sub, CollectivesArguments& arguments) {
  std::vector<CLI::Option*> options{
      sub.add_option("--grid", arguments.grid,
                     "collectives: x, y, z and data, as 2x2x1x2: groups of each axis too"),
      sub.add_option(
             "--kind", arguments.kinds,
             format("collectives: {} (default: all)", join(machine::measured_kinds(), ", ")))
          ->delimiter(',')
          ->check(one_of(machine::measured_kinds())),
      sub.add_option("--sizes", arguments.sizes,
                     "collectives: of the whole tensor (default: from 4KiB to 16MiB)")
          ->delimiter(','),
      sub.add_option("--machine", arguments.machine,
                     "collectives: show what its links give: a name of `fourfold machines`, or a "
                     "file")};
  return [options] {
    return std::ranges::any_of(options,
                               [](const CLI::Option* option) { return option->count() > 0; });
  };
}

/// Errors: CLI::ValidationError where an option does not go with collectives, or is missing.
void check_collectives(const BenchArguments& arguments) {
  if (arguments.threads > 0 || !arguments.dtype.empty() || !arguments.config.files.empty() ||
      !arguments.config.sets.empty())
    throw CLI::ValidationError("bench",
                               "collectives move fp32 of their own; leave CONFIG, --set, --dtype "
                               "and --threads out");
  if (arguments.device == "cuda" && !arguments.is_job)
    throw CLI::ValidationError("bench",
                               "collectives between GPUs are of processes; start them with mpirun "
                               "or srun and say --job");
}

}  // namespace

void add_bench(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("bench",
                                 "Measure kernels, and compare them with what this machine can do");
  BenchArguments& arguments = commands.bench;
  sub->add_option("WHAT", arguments.what,
                  "gemm: products; attention; kernels: all of a step; copy: the machine's "
                  "ceilings; step: ten steps of training; machine: a file of this machine, as a "
                  "cluster; reshard: a tensor from one mesh to another; collectives: tensors "
                  "between all ranks, and along each axis of a grid")
      ->required()
      ->check(one_of(
          {"gemm", "attention", "kernels", "copy", "step", "machine", "reshard", "collectives"}));
  sub->add_option("CONFIG", arguments.config.files,
                  "Whose step (default: a small and a large GPT's); machine: whose kernels to time "
                  "too (default: nobody's)");
  add_set_option(*sub, arguments.config);
  sub->add_option("--threads", arguments.threads, "Threads of the kernels; 0: as configured")
      ->check(CLI::Range(0, 4096));
  sub->add_option(
         "--dtype", arguments.dtype,
         "fp32, fp64 or bf16; on a GPU bf16, fp32, or tf32: fp32 with products of rounded operands "
         "(default: as configured)")
      ->check(one_of({"fp32", "fp64", "bf16", "tf32"}));
  sub->add_option("--seconds", arguments.seconds, "To measure each kernel for")
      ->check(CLI::Range(0.001, 60.))
      ->capture_default_str();
  sub->add_option("--device", arguments.device,
                  "cpu, or cuda: the first GPU; collectives: that of each rank")
      ->check(one_of({"cpu", "cuda"}))
      ->capture_default_str();
  sub->add_option("-o,--output", arguments.output,
                  "Write which kernel is best for each product, for run.kernel_table; or the "
                  "machine's file");
  sub->add_option("--ranks", arguments.ranks,
                  "machine, collectives: ranks, as threads of this process (default: one a core)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}));
  sub->add_flag("--job", arguments.is_job,
                "machine, step, reshard, collectives: the ranks are the processes of mpirun or "
                "srun");
  sub->add_flag("--quick", arguments.is_quick,
                "machine, collectives: small sizes and no care, to try it; the figures mean "
                "nothing");
  sub->add_option("--format", arguments.format,
                  "step, reshard, collectives: text, or json: all figures in seconds")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  const auto has_reshard = add_reshard_options(*sub, arguments.reshard);
  const auto has_collectives = add_collectives_options(*sub, arguments.collectives);
  sub->callback([&, has_reshard, has_collectives] {
    const bool is_cuda = arguments.device == "cuda";
    const bool is_step = arguments.what == "step", is_reshard = arguments.what == "reshard";
    const bool is_collectives = arguments.what == "collectives";
    if (is_collectives) check_collectives(arguments);
    if (!is_collectives && has_collectives())
      throw CLI::ValidationError("bench",
                                 "--grid, --kind, --sizes and --machine go with collectives alone");
    if (!is_reshard && has_reshard())
      throw CLI::ValidationError("bench",
                                 "--case, --from and what follows them go with reshard alone");
    if (is_reshard && (is_cuda || arguments.threads > 0 || !arguments.dtype.empty() ||
                       !arguments.config.files.empty() || !arguments.config.sets.empty()))
      throw CLI::ValidationError(
          "bench",
          "reshard moves elements of 4 bytes between CPUs; leave CONFIG and other options "
          "out");
    if (is_step && (is_cuda || !arguments.dtype.empty()))
      throw CLI::ValidationError("bench",
                                 "step computes as the configuration says; set run.device and "
                                 "precision.compute in place of --device and --dtype");
    if (is_step && arguments.config.files.empty())
      throw CLI::ValidationError("bench", "step needs a CONFIG");
    if (!is_step && !is_reshard && !is_collectives && arguments.format != "text")
      throw CLI::ValidationError("bench", "--format goes with step, reshard or collectives");
    const bool has_step = !(arguments.config.files.empty() && arguments.config.sets.empty() &&
                            arguments.dtype.empty() && arguments.output.empty());
    if (is_cuda && arguments.what != "kernels" && !is_collectives && has_step)
      throw CLI::ValidationError(
          "bench",
          "--device cuda measures fixed sizes in all types; leave CONFIG and "
          "options out, or measure kernels in place of " +
              arguments.what);
    const std::vector<std::string> types = is_cuda
                                               ? std::vector<std::string>{"bf16", "fp32", "tf32"}
                                               : std::vector<std::string>{"bf16", "fp32", "fp64"};
    if (!arguments.dtype.empty() && std::ranges::find(types, arguments.dtype) == types.end())
      throw CLI::ValidationError("--dtype", format("is '{}'; on this device choose {}",
                                                   arguments.dtype, join(types, ", ")));
    const bool is_machine = arguments.what == "machine";
    if (!arguments.output.empty() && !is_machine && arguments.what != "gemm" &&
        arguments.what != "kernels")
      throw CLI::ValidationError("bench", "--output goes with gemm, kernels or machine");
    if (!is_machine && !is_collectives &&
        (arguments.ranks > 0 || (arguments.is_job && !is_step && !is_reshard) ||
         arguments.is_quick))
      throw CLI::ValidationError("bench",
                                 "--ranks and --quick go with machine or collectives, --job with "
                                 "these, step or reshard");
    if (is_machine && (is_cuda || !arguments.dtype.empty()))
      throw CLI::ValidationError(
          "bench",
          "machine measures ranks on CPUs, in fp32 and fp64, and the kernels "
          "of a CONFIG as it says; leave --device and --dtype out");
    if (is_machine && arguments.config.files.empty() && !arguments.config.sets.empty())
      throw CLI::ValidationError("bench", "machine takes --set beside a CONFIG alone");
    if (arguments.is_job && arguments.ranks > 0)
      throw CLI::ValidationError("bench",
                                 "--job takes its ranks from the launcher; leave --ranks "
                                 "out");
    commands.chosen = [&] { commands.actions.bench(commands.bench); };
  });
}

void add_doctor(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("doctor", "Say whether this build and this machine can work");
  add_color_option(*sub, commands.doctor.color);
  sub->add_flag("--job", commands.doctor.is_job,
                "Under mpirun or srun: one table of all ranks, their hosts, cores, GPUs and the "
                "ways between them");
  sub->callback([&] { commands.chosen = [&] { commands.actions.doctor(commands.doctor); }; });
}

}  // namespace fourfold::command_line
