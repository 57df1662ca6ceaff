// An NCCL for ranks that are threads, over host memory: what communicators are made, in which
// order, and what passes through them is as the real one does it; devices, kernels and networks are
// not there. What is enqueued on a stream (fake_stream.h) waits for its partners there; on the
// default stream the caller waits itself.
//
// Unlike the real one it finds calls of members that do not fit together, keeps a NaN in a maximum,
// and refuses calls on communicators that are gone or were never made.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/nccl_api.h"

namespace fourfold::test {

/// One at a time: the functions of its table are free ones, as NCCL's are.
class FakeNccl {
 public:
  FakeNccl();
  ~FakeNccl();
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  comm::NcclApi api() const;

  /// Calls of a function ("ncclCommSplit") by a rank give this from now on.
  void fail(std::size_t rank, const std::string& function, comm::NcclResult result);
  /// What ncclGetLastError says from now on.
  void say(const std::string& words);
  /// Calls of it return only when a communicator of the rank is aborted, and then with an error.
  void block(std::size_t rank, const std::string& function);
  /// What ncclCommGetAsyncError says of the communicators of a rank from now on.
  void break_down(std::size_t rank, comm::NcclResult result);

  /// The calls of a rank in their order, as
  ///   "split 0 1" (color and key), "split none", "all_reduce 3 f32 sum on 2 ranks",
  ///   "send 5 u8 to 1 on 2 ranks", "group_start", "group_end", "abort", "destroy", ...
  /// Those of a thread that has no rank yet are not kept.
  std::vector<std::string> calls(std::size_t rank) const;
  /// Communicators that were made and are neither destroyed nor aborted.
  std::size_t num_alive() const;
  /// The table of a library that cannot register memory.
  comm::NcclApi api_without_registration() const;

  /// Memory that is registered with communicators which are alive, each counted.
  std::size_t num_registered() const;
  /// Allocations that were not freed.
  std::size_t num_allocations() const;
  /// With which settings a rank made its communicators, in their order.
  std::vector<comm::NcclConfig> configs(std::size_t rank) const;
};

}  // namespace fourfold::test
