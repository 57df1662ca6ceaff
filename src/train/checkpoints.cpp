#include "train/checkpoints.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"

namespace fourfold::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Checkpoints::Checkpoints(const CheckpointSpec& spec, checkpoint::Store& store,
                         run::Executor& executor, comm::World* world, checkpoint::Manifest facts,
                         const std::atomic<bool>& stop_asked, Tell tell)
    : spec_(spec),
      store_(store),
      executor_(executor),
      world_(world),
      facts_(std::move(facts)),
      stop_asked_(stop_asked),
      tell_(std::move(tell)),
      saver_(store, world),
      last_begin_(Clock::now()) {
  if (spec.is_on()) saver_.reserve(executor.bundle().at(op::ProgramKind::train));
}

Checkpoints::~Checkpoints() {
  if (pruning_.joinable()) pruning_.join();
}

bool Checkpoints::is_root() const {
  return world_ == nullptr || world_->rank().index() == 0;
}

void Checkpoints::set_origin(const checkpoint::Found& origin) {
  saver_.set_last(origin.manifest.step, checkpoint::digests_in(origin.manifest));
  is_at_origin_ = origin.path == store_.path_of(origin.manifest.step);
  if (is_at_origin_) origin_ = last_saved_ = origin.manifest.step;
  if (is_at_origin_ && origin.manifest.untold) untold_ = origin_;
}

Checkpoints::Met Checkpoints::meet(std::int64_t number) const {
  std::array<std::int64_t, 2> values{stop_asked_ ? 1 : 0, number};
  if (world_ != nullptr) world_->all_reduce(std::span(values), Reduction::max);
  return {values[0] != 0, values[1]};
}

bool StopLooks::must_end() {
  if (since_++ % rounds_ != 0) return false;
  // By the slowest rank's clock, so that all meet again in the same round.
  constexpr std::int64_t often_ms = 100, seldom_ms = 400;
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - met_);
  const auto [is_asked, most_ms] = checkpoints_.meet(passed.count());
  met_ = Clock::now();
  if (most_ms < often_ms) rounds_ *= 2;
  if (most_ms > seldom_ms) rounds_ = std::max<std::int64_t>(rounds_ / 2, 1);
  since_ = 1;
  return is_asked;
}

void Checkpoints::before_first(std::int64_t steps_done, std::int64_t samples_seen,
                               const std::optional<checkpoint::Untold>& untold,
                               const BestSoFar& best) {
  must_stop_ = is_stop_asked();
  if (!must_stop_ || is_at_origin_) return;
  start({.steps_done = steps_done, .samples_seen = samples_seen, .best = best, .untold = untold});
  take(saver_.finish(), true);
}

void Checkpoints::save_untold(const Place& place) {
  if (untold_ == place.steps_done) return;
  const auto begin = Clock::now();
  if (saver_.is_under_way()) take(saver_.finish(), false);
  start(place);
  take(saver_.finish(), true);
  untold_ = place.steps_done;
  stalled_s_ += seconds_since(begin);
}

void Checkpoints::before_last_evaluation(const Place& place) {
  if (spec_.is_on()) save_untold(place);
}

void Checkpoints::stop_untold(const Place& place) {
  save_untold(place);
  must_stop_ = true;
}

void Checkpoints::complete(const Place& place) {
  untold_.reset();
  if (!is_root()) return;
  end_pruning();
  try {
    checkpoint::Manifest manifest = store_.open(place.steps_done).manifest;
    const bool is_finite = manifest.is_finite;
    set_facts(manifest, place);
    manifest.is_finite = is_finite && place.is_finite;
    store_.amend(manifest);
    set_facts(facts_, place);
    prune();
  } catch (const UserError& error) {
    tell_.warn(
        format("the evaluation of step {} could not be noted in its checkpoint, and is made "
               "again by a run that goes on from there: {}",
               place.steps_done, error.what()));
  }
}

op::Votes Checkpoints::vote() const {
  // A rank's clock is its own: that of rank 0 counts. A stop may be asked of any rank.
  const bool is_due = is_root() && spec_.interval_minutes > 0 &&
                      seconds_since(last_begin_) >= 60 * spec_.interval_minutes;
  return {.stop = stop_asked_ ? 1 : 0,
          .written = saver_.is_under_way() && saver_.is_written() ? 1 : 0,
          .save = is_due ? 1 : 0};
}

void Checkpoints::after_step(const Place& place) {
  const auto begin = Clock::now();
  const bool is_stop_asked = place.votes.stop > 0;
  must_stop_ = is_stop_asked && !place.ends;
  const bool must_succeed = place.ends || is_stop_asked;
  if (untold_ == place.steps_done) {
    complete(place);
    if (must_succeed) end_pruning();
    stalled_s_ += seconds_since(begin);
    return;
  }
  const bool is_due = place.votes.save > 0 || (must_succeed && (spec_.is_on() || is_stop_asked)) ||
                      is_due_behind(place.steps_done) ||
                      (place.is_among_best && spec_.keep_best > 0 && spec_.is_on());
  const bool is_written = place.votes.written == static_cast<std::int64_t>(ranks());
  if (saver_.is_under_way() && (is_due || is_written)) take(saver_.finish(), false);
  if (is_due) {
    start(place);
    if (must_succeed || !spec_.in_background) take(saver_.finish(), must_succeed);
  }
  stalled_s_ += seconds_since(begin);
}

void Checkpoints::start(const Place& place) {
  end_pruning();
  last_begin_ = Clock::now();
  set_facts(facts_, place);
  if (before_save_) before_save_();
  saver_.start(facts_, executor_.bundle().at(op::ProgramKind::train),
               [this](const program::Buffer& buffer) { return executor_.read(buffer); });
}

void Checkpoints::set_facts(checkpoint::Manifest& facts, const Place& place) const {
  facts.step = place.steps_done;
  facts.samples_seen = place.samples_seen;
  facts.is_finite = place.is_finite;
  facts.best.clear();
  for (const BestSoFar::Entry& entry : place.best.lowest)
    facts.best.push_back({entry.step, entry.loss});
  facts.since_best = place.best.since_best;
  facts.untold = place.untold;
}

void Checkpoints::take(const checkpoint::SaveResult& result, bool must_succeed) {
  failures_ = result.error.empty() ? 0 : failures_ + 1;
  if (!result.error.empty()) {
    const std::string text =
        format("the checkpoint of step {} could not be saved: {}", result.step, result.error);
    if (must_succeed || failures_ == most_failures) throw UserError(result.code, text);
    if (is_root()) tell_.warn(text + "; training goes on, the next one is tried when it is due");
    return;
  }
  last_saved_ = result.step;
  if (!is_root()) return;
  tell_.info(format("checkpoint: {} ({})", result.path, format_bytes(result.bytes)));
  prune();
  if (must_succeed || !spec_.in_background) end_pruning();
}

void Checkpoints::protect_last(const std::string& why) {
  if (!is_root()) return;
  try {
    if (last_saved_) store_.protect(*last_saved_, why);
    if (saver_.is_under_way()) store_.protect(facts_.step, why);
  } catch (const UserError& error) {
    tell_.warn(format("the checkpoint before it may be removed later: {}", error.what()));
  }
}

void Checkpoints::prune() {
  checkpoint::Retention retention{
      .keep_last = spec_.keep_last, .keep_every = spec_.keep_every, .also = {}};
  for (const checkpoint::Evaluated& one : facts_.best)
    if (spec_.keep_best > 0) retention.also.insert(one.step);
  pruning_ = std::thread([this, retention] {
    try {
      prune_problems_ = store_.prune(retention, origin_);
    } catch (const std::exception& error) {
      prune_problems_ = error.what();
    }
  });
}

void Checkpoints::end_pruning() {
  if (!pruning_.joinable()) return;
  pruning_.join();
  if (!prune_problems_.empty())
    tell_.warn("old checkpoints could not be removed: " + prune_problems_);
}

}  // namespace fourfold::train
