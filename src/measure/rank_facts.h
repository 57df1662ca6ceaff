// What each rank of a job finds around it: its host and cores, MPI, its GPU and the ways from there
// to the GPUs of others. All ranks look together, and all of them learn what all have found. Not
// what is thought of it (rank_report.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/launcher.h"
#include "comm/nccl_log.h"
#include "comm/world.h"
#include "machine/cuda_facts.h"

namespace fourfold::measure {

struct RankGpu {
  int index = 0;  // among those that the rank sees
  int visible = 1;
  std::string bus_id, name;
  std::optional<int> numa_node;  // none: the system does not say
  /// To the GPUs of the ranks of this host, in the order of ranks; its own is `unknown`.
  std::vector<machine::GpuLink> links = {};
  std::string uuid = {};  // slices of one board (MIG) have one bus id
  bool operator==(const RankGpu&) const = default;
};

struct RankFacts {
  std::string host;
  std::vector<int> cores;  // that it may run on
  std::string mpi;         // its library
  bool mpi_takes_device_memory = false;
  std::string advice;  // of comm::advise_threads; empty: none
  std::optional<RankGpu> gpu = {};
  std::string why_no_gpu = {};  // empty where it has one
  /// How tensors pass between the ranks' GPUs, in words; empty where not all have one.
  std::string between = {};
  /// Where that is NCCL: its version, and which ways a group of all ranks takes from this one.
  std::string nccl = {};
  comm::NcclWays ways = {};
  bool operator==(const RankFacts&) const = default;
};

/// All ranks call together, and get the same. `nccl_log`: the file to which NCCL was told to write
/// before it was loaded, for which NCCL_DEBUG=INFO is set; it is read and removed. Where every rank
/// has a GPU to itself and NCCL, a group of all of them is made, which takes a part of a second and
/// half a GiB of each. Errors: UserError that names the rank, where its GPU cannot be used, or
/// NCCL's group cannot be made.
std::vector<RankFacts> look_at_ranks(comm::World& world, const std::string& nccl_log);

/// One line of JSON, and what it says.
std::string to_text(const RankFacts& facts);
RankFacts rank_facts_of_text(const std::string& text);

}  // namespace fourfold::measure
