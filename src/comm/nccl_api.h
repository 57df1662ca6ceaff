// The part of NCCL that is called, as a table of functions: loaded when a program runs, so that one
// without NCCL starts, and made up in tests. Not what is done with it: nccl_communicators.h.
//
// NCCL's header is not needed to build this: it wants CUDA's, which rooms do not see, and binds a
// build to one version. What is declared here has been the same in every NCCL from 2.19 to 2.30;
// where a build finds nccl.h, tests/numerics/cuda/nccl_header_test.cpp compares the two.
// Source: nccl.h of 2.28.9 and 2.30.7; https://docs.nvidia.com/deeplearning/nccl, "NCCL API".
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/reduction.h"

struct CUstream_st;  // CUDA's own name for what a stream is
struct ncclComm;     // NCCL's own name for what a communicator is

namespace fourfold::comm {

using NcclComm = ::ncclComm*;

enum class NcclResult : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};
enum class NcclType : int { u8 = 1, i32 = 2, i64 = 4, u64 = 5, f32 = 7, f64 = 8, bf16 = 9 };
enum class NcclReduction : int { sum = 0, max = 2 };

/// Made by one rank; with it all ranks of a communicator find each other.
struct NcclUniqueId {
  std::array<char, 128> bytes{};
};

/// As in NCCL 2.18, which later ones read too: they go by `size` and `version`, and take their
/// defaults for what is not there.
struct NcclConfig {
  static constexpr int undefined = INT_MIN;
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = undefined;
  int cga_cluster_size = undefined;
  int min_ctas = undefined, max_ctas = undefined;
  const char* net_name = nullptr;
  int split_share = undefined;
};
constexpr int nccl_no_color = -1;

/// NCCL's functions under their names without "nccl". All must be there but those that say else.
struct NcclApi {
  NcclResult (*get_version)(int* version);
  NcclResult (*get_unique_id)(NcclUniqueId* id);
  NcclResult (*comm_init_rank_config)(NcclComm* comm, int ranks, NcclUniqueId id, int rank,
                                      NcclConfig* config);
  NcclResult (*comm_split)(NcclComm comm, int color, int key, NcclComm* made, NcclConfig* config);
  NcclResult (*comm_finalize)(NcclComm comm);
  NcclResult (*comm_destroy)(NcclComm comm);
  NcclResult (*comm_abort)(NcclComm comm);
  NcclResult (*comm_get_async_error)(NcclComm comm, NcclResult* error);
  const char* (*get_error_string)(NcclResult result);
  const char* (*get_last_error)(NcclComm comm);
  NcclResult (*group_start)();
  NcclResult (*group_end)();
  NcclResult (*all_reduce)(const void* from, void* to, std::size_t count, NcclType type,
                           NcclReduction reduction, NcclComm comm, CUstream_st* stream);
  NcclResult (*reduce_scatter)(const void* from, void* to, std::size_t to_count, NcclType type,
                               NcclReduction reduction, NcclComm comm, CUstream_st* stream);
  NcclResult (*all_gather)(const void* from, void* to, std::size_t from_count, NcclType type,
                           NcclComm comm, CUstream_st* stream);
  NcclResult (*send)(const void* from, std::size_t count, NcclType type, int peer, NcclComm comm,
                     CUstream_st* stream);
  NcclResult (*recv)(void* to, std::size_t count, NcclType type, int peer, NcclComm comm,
                     CUstream_st* stream);
  NcclResult (*mem_alloc)(void** memory, std::size_t bytes);
  NcclResult (*mem_free)(void* memory);
  /// Both null where the library lacks one of them: it then copies through buffers of its own.
  NcclResult (*comm_register)(NcclComm comm, void* memory, std::size_t bytes, void** handle);
  NcclResult (*comm_deregister)(NcclComm comm, void* handle);

  bool can_register() const { return comm_register != nullptr; }
};

/// 10000 major + 100 minor + patch, as NCCL counts from 2.9 on. The first one with ncclMemAlloc.
constexpr int oldest_nccl = 21900;

/// Loads the library that the loader finds, or else the one that lay on this machine at build time.
/// It stays loaded. Errors: UserError(environment) where there is none, or one that is too old.
NcclApi load_nccl();
/// The same of one library: a path, or a name for the loader.
NcclApi load_nccl(const std::string& library);

/// "2.28.9".
std::string nccl_version(const NcclApi& api);

NcclType nccl_type(DType type);
NcclReduction nccl_reduction(Reduction reduction);

}  // namespace fourfold::comm
