#include "comm/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/cores.h"
#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"

namespace fourfold::comm {
namespace {

std::optional<std::int64_t> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

std::string_view launcher_name(LauncherFacts::Kind kind) {
  switch (kind) {
    case LauncherFacts::Kind::open_mpi:
      return "Open MPI's mpirun";
    case LauncherFacts::Kind::hydra:
      return "mpiexec (MPICH, Intel MPI)";
    case LauncherFacts::Kind::slurm:
      return "srun";
    case LauncherFacts::Kind::pmix:
      return "a PMIx launcher";
    case LauncherFacts::Kind::flux:
      return "flux run";
    case LauncherFacts::Kind::pals:
      return "PALS (mpiexec of HPE Cray)";
    case LauncherFacts::Kind::jsrun:
      return "jsrun";
    case LauncherFacts::Kind::torchrun:
      return "torchrun (WORLD_SIZE)";
    case LauncherFacts::Kind::none:
      break;
  }
  return "no launcher";
}

/// True for those that start tasks without MPI too.
bool may_leave_mpi_out(LauncherFacts::Kind kind) {
  using Kind = LauncherFacts::Kind;
  return kind == Kind::slurm || kind == Kind::flux || kind == Kind::pals || kind == Kind::jsrun ||
         kind == Kind::torchrun;
}

/// Says how tasks are started so that MPI joins them, and which variable says that they were.
std::string way_to_start(LauncherFacts::Kind kind) {
  using Kind = LauncherFacts::Kind;
  const auto text = [](std::string_view way, std::string_view variable) {
    return format(
        "start them with {}; a process that it did not start must not have its variables: unset {}",
        way, variable);
  };
  if (kind == Kind::slurm)
    return "start them with srun --mpi=pmix (Open MPI) or srun --mpi=pmi2 (MPICH), srun --mpi=list "
           "shows what this cluster has; a process that srun did not start must not have its "
           "variables: unset SLURM_STEP_NUM_TASKS";
  if (kind == Kind::flux)
    return text("flux run -o pmi=pmix (Open MPI) or flux run -o pmi=simple (MPICH)",
                "FLUX_JOB_SIZE");
  if (kind == Kind::pals) return text("the mpirun of the MPI library here", "PALS_SIZE");
  if (kind == Kind::jsrun) return text("the mpirun of the MPI library here", "JSM_NAMESPACE_SIZE");
  return text("mpirun -n RANKS in place of torchrun", "WORLD_SIZE");
}

bool share_a_core(const Placement& a, const Placement& b) {
  if (a.host != b.host) return false;
  for (std::size_t core = 0; core < std::min(a.cores.size(), b.cores.size()); ++core)
    if (a.cores[core] && b.cores[core]) return true;
  return false;
}

std::string to_text(const Placement& placement) {
  std::string text = placement.host + " ";
  for (const bool core : placement.cores) text += core ? '1' : '0';
  return text;
}

Placement parse_placement(const std::string& text) {
  const std::size_t space = text.find(' ');
  Placement placement{text.substr(0, space), {}};
  for (const char c : text.substr(space + 1)) placement.cores.push_back(c == '1');
  return placement;
}

}  // namespace

bool LauncherFacts::launched_by_mpi() const {
  if (tasks) return *tasks > 1;
  return kind != Kind::none;
}

LauncherFacts launcher_facts(const Variable& variable) {
  using Kind = LauncherFacts::Kind;
  LauncherFacts facts;
  facts.pmix = variable("PMIX_RANK").has_value();
  facts.pmi = variable("PMI_RANK").has_value() || variable("PMI_FD").has_value();
  const auto take = [&](Kind kind, const std::string& size, const std::string& rank) {
    const auto tasks = number(variable(size));
    if (facts.kind != Kind::none || !tasks) return;
    facts.kind = kind;
    facts.tasks = tasks;
    facts.rank = number(variable(rank)).value_or(0);
  };
  take(Kind::open_mpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK");
  // Only srun sets the size of a step. The variables of the job alone (SLURM_NTASKS) are there in a
  // batch script too, which is one process.
  take(Kind::slurm, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID");
  // Launchers of jobs leave these variables to all that they start, mpiexec too. Where they say the
  // same as PMI, the tasks are theirs.
  const auto of_pmi = number(variable("PMI_SIZE"));
  const auto take_from_job = [&](Kind kind, const std::string& size, const std::string& rank) {
    if (!of_pmi || of_pmi == number(variable(size))) take(kind, size, rank);
  };
  take_from_job(Kind::flux, "FLUX_JOB_SIZE", "FLUX_TASK_RANK");
  take_from_job(Kind::pals, "PALS_SIZE", "PALS_RANKID");
  take_from_job(Kind::jsrun, "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK");
  take(Kind::hydra, "PMI_SIZE", "PMI_RANK");
  // A variable of so common a name may be left of another program, so that MPI's own launchers know
  // better. A single task of a job may well start several by torchrun.
  if (may_leave_mpi_out(facts.kind) && facts.tasks == 1 &&
      number(variable("WORLD_SIZE")).value_or(1) > 1) {
    facts.kind = Kind::none;
    facts.pmix = facts.pmi = false;
  }
  if (!facts.pmix && !facts.pmi) take(Kind::torchrun, "WORLD_SIZE", "RANK");
  if (facts.kind == Kind::none && facts.pmix) {
    facts.kind = Kind::pmix;
    facts.rank = number(variable("PMIX_RANK")).value_or(0);
  }
  return facts;
}

void check_launch(const LauncherFacts& facts, std::string_view library) {
  if (!may_leave_mpi_out(facts.kind) || !facts.launched_by_mpi()) return;
  const bool is_srun = facts.kind == LauncherFacts::Kind::slurm;
  const bool finds_by_pmi = !is_srun || !library.starts_with("Open MPI");
  if (facts.pmix || (facts.pmi && finds_by_pmi)) return;
  const std::string what =
      facts.pmi
          ? format(
                "srun started {} tasks by PMI (--mpi=pmi2), through which {} cannot find the "
                "others",
                *facts.tasks, library)
          : format("{} started {} tasks, but left MPI ({}) no way for them to find each other",
                   launcher_name(facts.kind), *facts.tasks, library);
  throw UserError(ExitCode::bad_config, format("{}; {}", what, way_to_start(facts.kind)));
}

void check_world_size(const LauncherFacts& facts, std::size_t world_size,
                      std::string_view library) {
  const auto ranks = static_cast<std::int64_t>(world_size);
  if (facts.tasks ? *facts.tasks == ranks : ranks > 1) return;
  const std::string started =
      facts.tasks ? format("{} tasks", *facts.tasks) : std::string("several tasks");
  const bool slurm = facts.kind == LauncherFacts::Kind::slurm;
  const std::string_view way =
      slurm ? "start them with srun --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH"
            : "start them with the mpirun of that library";
  throw UserError(ExitCode::bad_config,
                  format("{} started {}, but each of them sees {} through MPI ({}): they would not "
                         "train together; {}",
                         launcher_name(facts.kind), started,
                         ranks == 1 ? "only itself" : format("{} ranks", ranks), library, way));
}

Placement own_placement() {
  Placement placement;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) placement.host = host.data();
  std::vector<int> cores = usable_cores();
  if (cores.empty()) cores = {0};
  for (const int core : cores) {
    placement.cores.resize(static_cast<std::size_t>(core) + 1);
    placement.cores.back() = true;
  }
  return placement;
}

ThreadAdvice advise_threads(std::span<const Placement> ranks, std::size_t rank, int host_cores,
                            std::optional<double> limit) {
  const Placement& mine = ranks[rank];
  const auto cores = static_cast<int>(std::ranges::count(mine.cores, true));
  int sharing = 0, on_host = 0;
  for (const Placement& other : ranks) {
    sharing += share_a_core(mine, other) ? 1 : 0;
    on_host += mine.host == other.host ? 1 : 0;
  }
  ThreadAdvice advice{std::max(1, cores / std::max(1, sharing)), {}};
  if (limit)
    advice.threads = std::min(advice.threads, cores_within(static_cast<std::size_t>(cores),
                                                           *limit / std::max(1, on_host)));
  const int possible = host_cores / std::max(1, on_host);
  if (cores == 1 && possible > 1)
    advice.warning = format(
        "each rank on {} is pinned to one core, although the host has {} for {}; start with mpirun "
        "--bind-to none, or --map-by slot:PE={}",
        mine.host, host_cores, on_host == 1 ? "1 rank" : format("{} ranks", on_host), possible);
  return advice;
}

ThreadAdvice advise_threads(World& world) {
  std::vector<Placement> ranks;
  for (const std::string& text : world.all_gather(to_text(own_placement())))
    ranks.push_back(parse_placement(text));
  return advise_threads(ranks, world.rank().index(),
                        static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), cpu_limit());
}

}  // namespace fourfold::comm
