// How a run was started and on what: command.txt and env.json of its directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "comm/launcher.h"

namespace fourfold::rundir {

/// Where this process works.
std::string current_directory();

/// A shell's word for this text: quoted where it must be.
std::string shell_quoted(const std::string& text);

/// A shell script that repeats the command from the current directory; what is put after its name
/// is put after the command. `processes`: as many as a launcher started, which the script does not
/// start again; 1: no launcher.
std::string command_text(std::span<const std::string> command, const std::string& directory,
                         std::size_t processes);

/// What env.json tells of the job besides the machine.
struct JobFacts {
  std::size_t ranks = 1;
  bool are_processes = false;
  int threads_per_rank = 1;
  std::vector<std::string> hosts;  // of the ranks; empty where they are threads
  std::string mpi;                 // library and version; empty where it was not started
  Json measured_peak;              // (measure/peak.h); null: none
};

/// What env.json tells of the binary and of its libraries (measure/build_info.h).
struct BuildRecord {
  Json build, libraries;
};

/// Versions of everything, host, CPU, threads, affinity, commit of the build, start time, and the
/// variables of the environment that change how a run behaves.
Json environment_json(const JobFacts& job, const BuildRecord& build,
                      const comm::Variable& variable);

/// Variables of the environment that change how OpenMP, BLAS, MPI and Slurm behave; a star stands
/// for any ending in documentation only: each is named.
std::span<const char* const> telling_variables();

}  // namespace fourfold::rundir
