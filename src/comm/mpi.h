// Ranks as processes, over any MPI 3.1. The only file that knows MPI is mpi.cpp. Only training,
// and `bench` and `doctor` with --job, start it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/world.h"

namespace fourfold::comm {

struct MpiOptions {
  /// Elements in one MPI call; larger collectives are split. MPI counts are 31 bits with sign.
  std::int64_t max_count = std::int64_t{1} << 30;
  /// Asks MPI for less than many threads at once, for tests of what happens where it gives less.
  bool one_thread = false;
};

class MpiHandles;

/// The processes that the launcher started together; one in each process, for its whole life. All
/// of them construct it together. Blocks the calling threads in MPI; sums are in MPI's order, so
/// bits may depend on the number and placement of ranks.
class MpiWorld : public World {
 public:
  /// Starts MPI. Errors: UserError(environment) where MPI cannot serve threads.
  static std::unique_ptr<MpiWorld> start(const MpiOptions& options = {});
  /// Does not end MPI: a process that leaves without finish() left on an error, and waiting for
  /// the others would hang.
  ~MpiWorld() override;

  std::size_t local_rank() const override;
  std::size_t local_size() const override;
  bool concurrent() const override;
  /// "Open MPI v4.1.4", one line.
  std::string library() const;
  const std::string& host() const;

  /// The end of a job without faults: waits for all ranks and ends MPI. Groups are gone then.
  void finish();

  /// Who ends all processes in place of MPI_Abort (a Monitor, which can tell all ranks the reason
  /// first); if it returns, MPI_Abort follows.
  using End = std::function<void(ExitCode, std::string_view)>;
  void set_end(End end);

  /// Prints "error: MESSAGE" on standard error, unless somebody else ends the job, and ends all
  /// processes with the code. Does not return.
  [[noreturn]] void abort_all(ExitCode code, std::string_view message) override;

 private:
  MpiWorld(Rank rank, std::size_t size, std::unique_ptr<MpiHandles> handles);

  std::unique_ptr<Group> make_group(const GroupSpec& spec, std::size_t position) override;
  void do_send(Rank peer, int tag, std::span<const std::byte> bytes) override;
  void do_recv(Rank peer, int tag, std::span<std::byte> bytes) override;

  std::unique_ptr<MpiHandles> handles_;
  End end_;
};

/// "Open MPI v4.1.4", one line; without starting MPI.
std::string mpi_library();

/// True if MPI has started and its library says that it takes memory of CUDA devices: in messages,
/// and in collectives that block. Open MPI and MPICH say so (MPIX_Query_cuda_support); of libraries
/// that cannot be asked it is false.
bool mpi_takes_device_memory();

}  // namespace fourfold::comm
