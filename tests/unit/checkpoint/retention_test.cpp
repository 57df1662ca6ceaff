// Random histories of saves, failures, states that are not finite, crashes, damage and restarts:
// the newest healthy checkpoints are always there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "checkpoint/shard.h"
#include "unit/checkpoint/small_checkpoints.h"

namespace fourfold::checkpoint {
namespace {

/// One job after another with one folder, and what must be in it.
class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed) {
    retention_.keep_last = 1 + below(4);
    if (below(2) == 0) retention_.keep_every = 1 + below(6);
    restart();
  }

  /// Ends at the first violation.
  void run(int events) {
    for (int i = 0; i < events && !testing::Test::HasFailure(); ++i) {
      try {
        next();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what() << "; events" << told_;
      }
    }
  }

 private:
  static constexpr const char* folder = "/ckpt";

  void next() {
    const std::int64_t event = below(8);
    told_ += format(" {}", event);
    switch (event) {
      case 0:
        save_on_a_disk_that_fails();
        break;
      case 1:
        crash();
        break;
      case 2:
        damage_and_restart();
        break;
      case 3:
        save(false);
        break;
      default:
        save(true);
    }
    check();
  }

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }

  void restart() {
    disk_.set_plan({});
    store_.emplace(disk_, folder, 0);
    store_->prepare();
    const auto newest = store_->newest();
    origin_.reset();
    if (newest.found) origin_ = newest.found->manifest.step;
  }

  /// One tensor of one element: the sums of larger ones are other tests' matter.
  void save(bool is_finite) {
    const std::int64_t step = ++step_;
    const std::string begun = store_->begin(step);
    const double value = static_cast<double>(step);
    Manifest manifest = facts(step);
    const TensorView view{"w", DType::f64, {1}, std::as_bytes(std::span(&value, 1))};
    manifest.files = {write_shard(disk_, begun, shard_name(0), std::span(&view, 1))};
    const Box box = whole_box({1});
    manifest.tensors = {
        {"w", DType::f64, {1}, digest_of("w", DType::f64, {1}, box, box, view.bytes), {{0, box}}}};
    manifest.is_finite = is_finite;
    store_->commit(begun, manifest);
    if (is_finite) healthy_.insert(step);
    store_->prune(retention_, origin_);
  }

  void save_on_a_disk_that_fails() {
    disk_.set_plan({.kill_at = {}, .fail_at = below(30), .error = ENOSPC, .times = 1 + below(5)});
    try {
      save(true);
    } catch (const UserError&) {
    }
    disk_.set_plan({});
  }

  void crash() {
    disk_.set_plan({.kill_at = below(30), .fail_at = {}});
    try {
      save(true);
    } catch (const std::exception&) {
    }
    disk_.lose_power(below(2) == 0 ? SimulatedDisk::Loss::all : SimulatedDisk::Loss::some,
                     random_());
    disk_.set_plan({});
    if (is_whole(step_)) healthy_.insert(step_);
    restart();
  }

  /// The steps of all but the newest two that are healthy, which is what a job may rely on.
  void damage_and_restart() {
    std::vector<std::int64_t> there;
    const std::set<std::int64_t> kept = relied_on();
    for (const std::int64_t step : store_->steps())
      if (!kept.contains(step)) there.push_back(step);
    if (!there.empty()) {
      const std::int64_t step =
          there[static_cast<std::size_t>(below(static_cast<std::int64_t>(there.size())))];
      auto& bytes = disk_.bytes(format("{}/{}", store_->path_of(step), shard_name(0)));
      bytes[static_cast<std::size_t>(below(static_cast<std::int64_t>(bytes.size())))] ^=
          std::byte{1};
      healthy_.erase(step);
    }
    restart();
  }

  bool is_whole(std::int64_t step) {
    try {
      verify(disk_, Store(disk_, folder).open(step));
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  /// The newest two that are whole and finite.
  std::set<std::int64_t> relied_on() {
    std::set<std::int64_t> newest;
    for (const std::int64_t step : store_->steps())
      if (newest.size() < 2 && is_whole(step) && store_->open(step).manifest.is_finite)
        newest.insert(step);
    return newest;
  }

  /// One may go only where two newer ones are there, also such whose commit was cut off after the
  /// rename.
  void check() {
    std::int64_t newer = 0;
    for (std::int64_t step = step_; step > 0; --step) {
      const bool is_there = is_whole(step) && store_->open(step).manifest.is_finite;
      if (healthy_.contains(step) && newer < 2) {
        EXPECT_TRUE(is_there) << "step " << step << " of " << step_ << " is lost; events" << told_;
      }
      if (is_there) ++newer;
    }
    if (retention_.keep_every == 0) return;
    for (const std::int64_t step : healthy_)
      if (step % retention_.keep_every == 0) {
        EXPECT_TRUE(is_whole(step)) << "permanent step " << step << " is lost";
      }
  }

  std::mt19937_64 random_;
  SimulatedDisk disk_;
  std::optional<Store> store_;
  Retention retention_;
  std::optional<std::int64_t> origin_;
  std::int64_t step_ = 0;
  std::set<std::int64_t> healthy_;
  std::string told_;
};

TEST(Retention, row_22_no_history_loses_the_newest_healthy_checkpoints) {
  const std::uint64_t histories = is_long_run() ? 100'000 : 1000;
  for (std::uint64_t seed = 0; seed < histories; ++seed) {
    SCOPED_TRACE(seed);
    History(seed).run(8);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  std::printf("%llu histories\n", static_cast<unsigned long long>(histories));
}

TEST(Retention, row_22_what_is_not_needed_goes) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  Store store(disk, "/ckpt");
  store.prepare();
  Saver saver(store);
  for (std::int64_t step = 1; step <= 40; ++step) {
    SmallState state(mesh, step);
    saver.start(facts(step), state.program(0), state.bytes_of(0));
    ASSERT_EQ(saver.finish().error, "");
    ASSERT_EQ(store.prune({.keep_last = 3, .keep_every = 10}, 4), "");
  }
  EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{40, 39, 38, 30, 20, 10, 4}));
}

TEST(Retention, row_52_what_is_protected_stays_also_for_later_jobs_until_its_line_goes) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  std::optional<Store> store(std::in_place, disk, "/ckpt");
  store->protect(10, "the loss of step 11 leapt");
  store->protect(10, "again");
  store->protect(7, "which there is not");
  store.emplace(disk, "/ckpt");
  store->prepare();
  Saver saver(*store);
  for (std::int64_t step = 50; step < 54; ++step) {
    SmallState state(mesh, step);
    saver.start(facts(step), state.program(0), state.bytes_of(0));
    ASSERT_EQ(saver.finish().error, "");
  }
  ASSERT_EQ(store->prune({.keep_last = 2}), "");
  EXPECT_EQ(store->steps(), (std::vector<std::int64_t>{53, 52, 10}));
  EXPECT_EQ(read_text(disk, "/ckpt/PROTECTED"),
            "step-000000010 the loss of step 11 leapt\nstep-000000007 which there is not\n");
  disk.remove_file("/ckpt/PROTECTED");
  ASSERT_EQ(store->prune({.keep_last = 2}), "");
  EXPECT_EQ(store->steps(), (std::vector<std::int64_t>{53, 52}));
}

TEST(Retention, row_22_a_damaged_one_of_an_earlier_job_does_not_count_as_healthy) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  for (const std::int64_t step : {30, 40}) {
    Store store(disk, "/ckpt");
    Saver saver(store);
    SmallState state(mesh, step);
    saver.start(facts(step), state.program(0), state.bytes_of(0));
    ASSERT_EQ(saver.finish().error, "");
  }
  for (const std::int64_t step : {20, 30})
    disk.bytes(format("/ckpt/{}/{}", step_name(step), shard_name(0))).back() ^= std::byte{1};
  Store store(disk, "/ckpt");
  EXPECT_EQ(store.prune({.keep_last = 2}), "");
  EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{40, 30, 20, 10}));
}

TEST(Retention, what_is_set_aside_is_lost_at_no_instant_and_never_wins_half_moved) {
  const Mesh mesh = mesh_of(1, 1, 1);
  for (std::int64_t instant = 0;; ++instant) {
    SCOPED_TRACE(instant);
    SimulatedDisk disk;
    prepare(disk, mesh);
    for (const std::int64_t step : {30, 40}) {
      SmallState state(mesh, step);
      ASSERT_EQ(save(disk, state, step)->error, "");  // keeps two
    }
    disk.lose_power(SimulatedDisk::Loss::none);
    disk.set_plan({.kill_at = instant, .fail_at = {}});
    bool is_done = false;
    try {
      Store store(disk, "/ckpt");
      store.set_aside_after(30, store.begin_line());
      is_done = true;
    } catch (const Killed&) {
    }
    disk.lose_power(SimulatedDisk::Loss::some, static_cast<std::uint64_t>(instant));
    disk.set_plan({});
    Store store(disk, "/ckpt");
    std::vector<std::int64_t> all = store.steps();
    for (const std::string& line : store.lines())
      for (const std::int64_t step : Store(disk, line).steps()) {
        EXPECT_NO_THROW(verify(disk, Store(disk, line).open(step)));
        all.push_back(step);
      }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, (std::vector<std::int64_t>{30, 40}));
    const std::int64_t newest = store.newest().found->manifest.step;
    EXPECT_TRUE(newest == 30 || (newest == 40 && !is_done)) << newest;
    if (is_done) break;
  }
}

TEST(Retention, later_steps_move_oldest_first_and_lines_are_numbered_and_cleared) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  Store store(disk, "/ckpt");
  store.prepare();
  Saver saver(store);
  for (std::int64_t step = 1; step <= 5; ++step) {
    SmallState state(mesh, step);
    saver.start(facts(step), state.program(0), state.bytes_of(0));
    ASSERT_EQ(saver.finish().error, "");
  }
  // Killed between two moves: the newest is still that of before.
  disk.set_plan({.kill_at = 6, .fail_at = {}});
  EXPECT_THROW(store.set_aside_after(2, store.begin_line()), Killed);
  disk.set_plan({});
  EXPECT_EQ(store.newest().found->manifest.step, 5);
  EXPECT_EQ(store.begin_line(), "/ckpt/line-2");
  store.set_aside_after(2, "/ckpt/line-2");
  EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(store.lines(), (std::vector<std::string>{"/ckpt/line-1", "/ckpt/line-2"}));
  EXPECT_EQ(Store(disk, "/ckpt/line-2").steps().front(), 5);
  store.clear();
  EXPECT_TRUE(store.lines().empty());
  EXPECT_TRUE(store.steps().empty());
}

TEST(Retention, a_damaged_checkpoint_of_the_same_step_is_replaced_and_a_whole_one_stays) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  auto& bytes = disk.bytes(format("/ckpt/{}/{}", step_name(20), shard_name(0)));
  const auto whole = bytes;
  SmallState state(mesh, 20);
  ASSERT_EQ(save(disk, state, 20)->error, "");
  bytes.back() ^= std::byte{1};
  ASSERT_EQ(save(disk, state, 20)->error, "");
  EXPECT_EQ(disk.bytes(format("/ckpt/{}/{}", step_name(20), shard_name(0))), whole);
}

}  // namespace
}  // namespace fourfold::checkpoint
