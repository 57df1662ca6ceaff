// The checkpoints of a run while it trains: when one is due, on which all ranks agree, and what
// becomes of it. Files and formats are checkpoint/'s.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "checkpoint/save.h"
#include "comm/world.h"
#include "op/blocks.h"
#include "run/executor.h"
#include "train/checkpoint_spec.h"
#include "train/observer.h"

namespace fourfold::train {

class Checkpoints {
 public:
  /// What rank 0 tells people.
  struct Tell {
    std::function<void(const std::string&)> info, warn;
  };

  /// `facts` are the manifest's, without step, samples, tensors and files. `stop_asked` is set from
  /// outside, on any rank, when the run shall save and end. `store` must be prepared, and all
  /// references outlive this.
  Checkpoints(const CheckpointSpec& spec, checkpoint::Store& store, run::Executor& executor,
              comm::World* world, checkpoint::Manifest facts, const std::atomic<bool>& stop_asked,
              Tell tell);
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;
  ~Checkpoints();

  /// What the run goes on from, if it does: it is never removed. Its digests are those of the
  /// state.
  void set_origin(const checkpoint::Found& origin);
  /// Called on every rank just before the state of a checkpoint is copied.
  void on_save(std::function<void()> call) { before_save_ = std::move(call); }
  /// Once the state is there, before the first step here, on all ranks together. Saves where a stop
  /// was asked for meanwhile, unless that state is the origin's.
  void before_first(std::int64_t steps_done, std::int64_t samples_seen,
                    const std::optional<checkpoint::Untold>& untold = {},
                    const BestSoFar& best = {});

  /// Where a run stands after a step.
  struct Place {
    std::int64_t steps_done = 0;
    std::int64_t samples_seen = 0;                  // of all ranks since the first step
    bool is_finite = true;                          // every number of the step
    bool ends = false;                              // the run ends here
    op::Votes votes = {};                           // of all ranks, from the program of the step
    BestSoFar best = {};                            // this step included
    bool is_among_best = false;                     // and among those of which the state is kept
    std::optional<checkpoint::Untold> untold = {};  // what the step has still to tell
  };
  /// What this rank has to say in the next step, at the end of which all act on what all have said.
  op::Votes vote() const;
  /// True if one is due after so many steps, whatever the ranks vote.
  bool is_due_behind(std::int64_t steps_done) const {
    return spec_.interval_steps > 0 && steps_done % spec_.interval_steps == 0;
  }
  /// True if any rank was asked to stop; all ranks call together.
  bool is_stop_asked() const { return meet(0).is_stop_asked; }
  /// What all ranks learn where they meet: whether any was asked to stop, and the largest of the
  /// numbers that they brought.
  struct Met {
    bool is_stop_asked = false;
    std::int64_t most = 0;
  };
  Met meet(std::int64_t number) const;
  /// After the last step of a run that saves, so that no step is lost where its evaluation is cut:
  /// the step is saved as untold. `after_step` then puts the rest into that checkpoint. Errors: as
  /// of after_step.
  void before_last_evaluation(const Place& place);
  /// A stop has cut what follows a step: the state is saved as untold, unless it is.
  void stop_untold(const Place& place);
  /// After a step, on all ranks together. Saves if one is due; at the end, and where a stop was
  /// asked for, waits until it is committed. Errors: UserError(storage) when a save fails that must
  /// not, or `most_failures` fail in a row.
  void after_step(const Place& place);

  /// What was saved last, and what is being saved, is never removed, for the reason given.
  void protect_last(const std::string& why);

  /// Some rank was asked to stop, and this run is to end.
  bool must_stop() const { return must_stop_; }
  /// Seconds that steps have waited for saves.
  double stalled_s() const { return stalled_s_; }

  static constexpr int most_failures = 3;

 private:
  bool is_root() const;
  std::size_t ranks() const { return world_ == nullptr ? 1 : world_->size(); }
  void start(const Place& place);
  /// Saves the state and waits until it is committed.
  void save_untold(const Place& place);
  /// Puts what is known of a step now into its checkpoint, which was saved as untold.
  void complete(const Place& place);
  void set_facts(checkpoint::Manifest& facts, const Place& place) const;
  void prune();
  void end_pruning();
  void take(const checkpoint::SaveResult& result, bool must_succeed);

  const CheckpointSpec& spec_;
  checkpoint::Store& store_;
  run::Executor& executor_;
  comm::World* world_;
  checkpoint::Manifest facts_;
  const std::atomic<bool>& stop_asked_;
  Tell tell_;
  std::function<void()> before_save_;
  checkpoint::Saver saver_;
  std::chrono::steady_clock::time_point last_begin_;
  bool must_stop_ = false;
  int failures_ = 0;
  double stalled_s_ = 0;
  std::optional<std::int64_t> origin_;      // in the run's own store
  bool is_at_origin_ = false;               // nothing was done since
  std::optional<std::int64_t> last_saved_;  // there
  std::optional<std::int64_t> untold_;      // the step there that is saved as untold
  // Large files take long to remove, and those of earlier jobs to read.
  std::thread pruning_;
  std::string prune_problems_;  // of the last time; read once it has ended
};

/// Looks for a stop in a loop of rounds that may be short: ranks meet a few times a second, or in
/// each round where rounds take longer.
class StopLooks {
 public:
  explicit StopLooks(const Checkpoints& checkpoints) : checkpoints_(checkpoints) {}
  /// All ranks call together, once a round. True once any of them was asked to stop.
  bool must_end();

 private:
  const Checkpoints& checkpoints_;
  std::int64_t rounds_ = 1, since_ = 0;  // between meetings, and since the last one
  std::chrono::steady_clock::time_point met_ = std::chrono::steady_clock::now();
};

}  // namespace fourfold::train
