// The ranks of a job, as one of them sees them: groups, messages between two ranks, and the end of
// the job when something breaks. Made by threads.h (ranks are threads) or mpi.h (ranks are
// processes).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mesh.h"
#include "base/reduction.h"
#include "comm/group.h"
#include "comm/progress.h"

namespace fourfold::comm {

/// Thrown by whatever waits for other ranks once the job has been ended by one of them. Not the
/// reason: that is the first fault, which the job reports.
class Aborted : public std::runtime_error {
 public:
  Aborted() : std::runtime_error("the job was ended by another rank") {}
};

class World {
 public:
  World(Rank rank, std::size_t size);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World();

  Rank rank() const { return rank_; }
  std::size_t size() const { return size_; }
  /// Among the ranks on this host.
  virtual std::size_t local_rank() const = 0;
  virtual std::size_t local_size() const = 0;
  /// True if several threads may communicate at once, each with a group of its own. If not, one
  /// thread must do all of it, in one order that is the same on all ranks.
  virtual bool concurrent() const { return true; }

  /// Makes groups; all ranks call it together, each with the same list, or leaving out groups it is
  /// no member of. Groups already there (same name, same members) are left as they are.
  void create_groups(std::span<const GroupSpec> specs);
  /// A group made before, of which this rank is a member. Errors: InternalError.
  Group& group(std::span<const Rank> members, std::string_view name);
  std::vector<const Group*> groups() const;

  /// Returns when the bytes may be written again, which can be as late as when the peer takes them.
  /// Pairs with the peer's recv of this tag (0 ... 32767) and size. For any thread. Errors:
  /// Aborted; UserError(ranks_disagree) in the receiver where sizes differ.
  void send(Rank peer, int tag, std::span<const std::byte> bytes);
  void recv(Rank peer, int tag, std::span<std::byte> bytes);
  /// Messages and bytes that this rank has sent.
  Traffic sent() const;

  // For the host's side of a job, between programs: all ranks call together, one thread each.

  void barrier();
  void all_reduce(std::span<double> values, Reduction reduction);
  void all_reduce(std::span<std::int64_t> values, Reduction reduction);
  void all_reduce(std::span<std::uint64_t> values, Reduction reduction);
  /// Texts by rank, on all ranks. For small texts: each is padded to the longest.
  std::vector<std::string> all_gather(std::string_view text);
  /// The text of rank 0.
  std::string broadcast(std::string_view text);
  /// The group that serves all of these, for its traffic.
  const Group& everyone() const { return *everyone_; }

  /// Ends the job on all ranks, for the reason given; the first caller's counts. Threads: releases
  /// every waiting rank with Aborted and returns. MPI: reports and ends all processes with that
  /// exit code, and does not return.
  virtual void abort_all(ExitCode code, std::string_view message) = 0;
  /// True once a rank has ended the job, for those who wait for something else than this world.
  /// From any thread. MPI: never, as the process ends.
  virtual bool has_ended() const { return false; }

  /// What this rank is doing, for whoever watches.
  Progress& progress() { return progress_; }

 protected:
  /// For constructors: makes the group that the host's side uses.
  void make_everyone();
  void clear_groups();

 private:
  virtual std::unique_ptr<Group> make_group(const GroupSpec& spec, std::size_t position) = 0;
  virtual void do_send(Rank peer, int tag, std::span<const std::byte> bytes) = 0;
  virtual void do_recv(Rank peer, int tag, std::span<std::byte> bytes) = 0;

  Rank rank_;
  std::size_t size_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::unique_ptr<Group> everyone_;
  std::atomic<std::int64_t> messages_sent_{0}, bytes_sent_{0};
  Progress progress_;
};

/// The code with which a process ends for this exception, and its text.
struct Fault {
  ExitCode code = ExitCode::internal;
  std::string message;
};
Fault fault_of(const std::exception& exception);

}  // namespace fourfold::comm
