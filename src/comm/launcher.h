// Who started this process, with how many others, and how many threads each may use. Pure functions
// of the environment and of affinity masks: nothing is started here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/world.h"

namespace fourfold::comm {

/// What the environment says of a launcher.
struct LauncherFacts {
  enum class Kind : std::uint8_t {
    none,
    open_mpi,
    hydra,
    slurm,
    pmix,
    flux,
    pals,
    jsrun,
    torchrun
  } kind = Kind::none;
  /// Processes that it started together; nothing where it does not say.
  std::optional<std::int64_t> tasks;
  std::int64_t rank = 0;  // of this process, as the launcher counts
  /// True if it left the variables by which MPI finds the other processes.
  bool pmix = false, pmi = false;

  /// True if ranks are processes. A single task runs all ranks as threads.
  bool launched_by_mpi() const;
};

/// Reads the variables that mpirun, mpiexec and srun set. `variable` gives the value of one, or
/// nothing.
using Variable = std::function<std::optional<std::string>(const std::string& name)>;
LauncherFacts launcher_facts(const Variable& variable);

/// Before MPI starts. Errors: UserError(bad_config) where a launcher that is not MPI's own started
/// several tasks and left this MPI library no way to find them, which MPI itself reports badly or
/// not at all.
void check_launch(const LauncherFacts& facts, std::string_view library);
/// Once MPI has started. Errors: UserError(bad_config) where it sees another number of ranks than
/// the launcher started: each would train alone. `library` is MpiWorld::library().
void check_world_size(const LauncherFacts& facts, std::size_t world_size, std::string_view library);

/// The cores that a rank may run on, by number; and its host.
struct Placement {
  std::string host;
  std::vector<bool> cores;
};
/// The placement of this process.
Placement own_placement();

struct ThreadAdvice {
  int threads = 1;
  std::string warning;  // empty: all is well
};
/// How many threads rank number `rank` should use: its cores, divided by the number of ranks on its
/// host that share any of them, at least 1; fewer where control groups allow the ranks of this host
/// the time of `limit` cores. Warns where it is pinned to one core although its host has more for
/// each rank; `host_cores` are the cores of this host.
ThreadAdvice advise_threads(std::span<const Placement> ranks, std::size_t rank, int host_cores,
                            std::optional<double> limit = std::nullopt);
/// For this rank; all ranks call together.
ThreadAdvice advise_threads(World& world);

}  // namespace fourfold::comm
