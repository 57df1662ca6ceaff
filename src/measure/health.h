// A look at whether this build and this machine can train, item by item: the build, CPU, memory,
// limits, OpenMP, launchers, GPUs and disk. Not how a person sees the items
// (cli/commands/doctor.cpp), and nothing is measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/host_facts.h"
#include "comm/launcher.h"

namespace fourfold::measure {

enum class Verdict : std::uint8_t {
  ok,
  warn,  // runs work, but are slower or smaller than they could be
  bad    // no run works
};

struct HealthItem {
  Verdict verdict = Verdict::ok;
  std::string name, text;
  std::string advice;  // what to do about it; empty where nothing need be done
};

/// The items in the order in which they are shown. CPU, cores and memory are judged by `host`;
/// limits, GPUs and the present folder are those of this process. `telling_variables` are the names
/// among which settings of OpenMP and of libraries are looked for; `variable` reads the
/// environment. Throws nothing for what is absent. Starts no MPI and no threads and leaves no files
/// behind; a GPU tells its free memory only to a process that has a context on it, for that moment.
std::vector<HealthItem> health(const HostFacts& host,
                               std::span<const char* const> telling_variables,
                               const comm::Variable& variable);

}  // namespace fourfold::measure
