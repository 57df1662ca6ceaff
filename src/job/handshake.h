// The proof that all ranks of a job are the same program about the same work: compared once, before
// the first of them touches a file. Ranks that are threads share all of it.
#pragma once

#include <string>
#include <vector>

#include "comm/launcher.h"
#include "comm/world.h"
#include "data/source.h"
#include "job/job.h"
#include "machine/cuda_facts.h"

namespace fourfold::job {

/// One thing that all ranks must have in common.
struct CommonFact {
  std::string what;    // "binary"
  std::string value;   // whole; only its hash is sent while all agree
  std::string remedy;  // what to do where it differs
};

/// Versions of the libraries of CUDA that ranks have loaded: two of them choose other kernels, and
/// NCCL of another version may not understand the others.
CommonFact cuda_libraries_fact(const std::vector<machine::CudaLibrary>& libraries);

/// Binary, libraries, on a GPU those of CUDA too, instruction sets, variables that choose kernels,
/// configuration (threads of a rank left out), plan and what its programs exchange, data, kernel
/// table. Cost: the binary is read.
std::vector<CommonFact> common_facts(const Job& job, const data::Source& source,
                                     const comm::Variable& variable);

/// All ranks together, with facts of the same kinds. Errors: UserError(ranks_disagree) on all of
/// them, with the same text: for the first fact that differs the ranks in the minority, or all
/// where there is no majority, and what they have. `hosts` are those of the ranks.
void require_common(const std::vector<CommonFact>& facts, const std::vector<std::string>& hosts,
                    comm::World& world);

}  // namespace fourfold::job
