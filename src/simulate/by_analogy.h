// What of a priced step nobody measured on the machine, and how that is said wherever such a time
// is shown.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "machine/cluster.h"
#include "program/job.h"
#include "simulate/simulate.h"

namespace fourfold::simulate {

/// Time in an operation that is priced as products of as many flops are, because nobody measured it
/// on the machine (machine/priced_by.h): mean over the ranks of the job.
struct ByAnalogy {
  std::string op;
  double seconds = 0;
  bool operator==(const ByAnalogy&) const = default;
};

/// The longest first; requires the job and the machine of the simulation. Cost: linear in the
/// instructions that were followed.
std::vector<ByAnalogy> priced_by_analogy(const program::Job& job, const Simulation& simulation,
                                         const machine::Cluster& cluster);

/// "~", before a time of which some is priced by analogy; else nothing.
std::string analogy_mark(const std::vector<ByAnalogy>& all);
/// "12 ms of what a rank computes, priced as products of as many flops, because nobody measured it
/// there: convolution 10 ms, attention 2 ms".
std::string analogy_text(const std::vector<ByAnalogy>& all);
/// A list of {"op", "seconds"}.
Json analogy_json(const std::vector<ByAnalogy>& all);

}  // namespace fourfold::simulate
