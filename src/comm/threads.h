// Ranks as threads of one process: nothing to install, deterministic, and under sanitizers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "comm/world.h"

namespace fourfold::comm {

class ThreadJobState;

/// Several ranks in this process.
class ThreadJob {
 public:
  explicit ThreadJob(std::size_t ranks);
  ~ThreadJob();

  std::size_t size() const { return worlds_.size(); }
  /// Rank number i's view; for that rank's threads. Lives as long as the job.
  World& world(std::size_t rank) { return *worlds_[rank]; }

  /// Where the ranks' threads run, and all threads that they start: on any core that this process
  /// may use; or each on its share of them, where they can be shared out equally, so that no two
  /// ranks of one core leave another one idle.
  enum class Cores : std::uint8_t { any, own_share };

  /// Calls `body` for every rank, each on a thread of its own, and waits for all. Once: a job that
  /// broke cannot go on. Errors: the first fault that any rank met, as UserError with its code, or
  /// as InternalError; with more than one rank it names the rank, unless all say the same.
  void run(const std::function<void(World&)>& body, Cores cores = Cores::any);

  /// The first fault so far.
  std::optional<Fault> fault() const;

 private:
  std::unique_ptr<ThreadJobState> state_;
  std::vector<std::unique_ptr<World>> worlds_;
};

}  // namespace fourfold::comm
