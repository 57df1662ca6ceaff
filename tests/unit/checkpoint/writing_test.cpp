// What may go wrong while checkpoints are written, row by row of the catalogue of failures.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>

#include "support/slow_views.h"
#include "unit/checkpoint/small_checkpoints.h"
#include "unit/data/expect_error.h"

namespace fourfold::checkpoint {
namespace {

TEST(Writing, row_19_every_error_once_or_for_ever_ends_the_save_and_nothing_else) {
  constexpr std::int64_t for_ever = std::int64_t{1} << 40;
  std::size_t count = 0;
  std::vector<int> errors{ENOSPC, EIO, ESTALE};
  if (is_long_run())
    errors.insert(errors.end(), {EDQUOT, EROFS, EACCES, EMFILE, ENOENT, EBUSY, EINTR, ENOTEMPTY});
  for (const Mesh& mesh : {mesh_of(1, 1, 1), mesh_of(1, 2, 2)})
    for (const int error : errors)
      for (const std::int64_t times : {std::int64_t{1}, for_ever}) {
        bool has_ended = false;
        for (std::int64_t at = 0; !has_ended; ++at, ++count) {
          SimulatedDisk disk;
          prepare(disk, mesh);
          disk.set_plan({.kill_at = {}, .fail_at = at, .error = error, .times = times});
          SmallState state(mesh, 30);
          const auto result = save(disk, state, 30);
          has_ended = disk.operations() <= at;
          SCOPED_TRACE(format("{} ranks, operation {}, error {}, {} times", mesh.ranks.size(), at,
                              error, times));
          if (result && !result->error.empty()) {
            expect_words(result->error, {"/ckpt"});
          }
          expect_usable(disk, mesh, result && result->error.empty() ? 30 : 20, 30);
          if (HasFatalFailure()) return;
        }
      }
  std::printf("%zu failing operations\n", count);
}

TEST(Writing, row_19_the_next_save_of_the_same_job_succeeds_after_one_that_failed) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  Store store(disk, "/ckpt", 0);
  Saver saver(store);
  disk.set_plan({.kill_at = {}, .fail_at = 3, .error = ENOSPC});
  SmallState state(mesh, 30), later(mesh, 40);
  saver.start(facts(30), state.program(0), state.bytes_of(0));
  expect_words(saver.finish().error, {"/ckpt", "No space left"});
  saver.start(facts(40), later.program(0), later.bytes_of(0));
  EXPECT_EQ(saver.finish().error, "");
  EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{40, 20, 10}));
}

/// A write that is reported as done, and is not what was to be written.
class LyingDisk final : public test::View {
 public:
  explicit LyingDisk(SimulatedDisk& disk) : View(disk), disk_(disk) {}
  std::unique_ptr<Reader> open(const std::string& path) override {
    if (path.ends_with(".safetensors")) disk_.bytes(path).back() ^= std::byte{1};
    return View::open(path);
  }

 private:
  void look_at(const std::string&) override {}
  SimulatedDisk& disk_;
};

TEST(Writing, row_19_what_is_read_back_otherwise_than_it_was_written_is_not_committed) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  LyingDisk lying(disk);
  SmallState state(mesh, 30);
  Store store(lying, "/ckpt");
  Saver saver(store);
  saver.start(facts(30), state.program(0), state.bytes_of(0));
  expect_words(saver.finish().error, {"shard-00000.safetensors: chunk 0 of 1 has the hash"});
  EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{20, 10}));
}

/// The state of one step while it is copied, in part that of the next one: what an optimizer that
/// does not wait for the copy leaves.
BufferBytes torn(SmallState& now, SmallState& next, std::string from) {
  return [&now, &next, from = std::move(from),
          is_next = false](const program::Buffer& buffer) mutable {
    is_next = is_next || buffer.name == from;
    return (is_next ? next : now).bytes_of(0)(buffer);
  };
}

TEST(Writing, row_20_a_copy_during_which_a_step_runs_is_never_committed) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  SmallState now(mesh, 30), next(mesh, 31);
  Store store(disk, "/ckpt");
  const Digests expected = owned_digests(now.program(0), now.bytes_of(0));
  for (const char* from : {"w.m", "bias", "odd", "updates"}) {
    Saver saver(store);
    saver.start(facts(30), now.program(0), torn(now, next, from), expected);
    expect_words(saver.finish().error, {"the copy is not of one step", from});
  }
  EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{20, 10}));
  Saver saver(store);
  saver.start(facts(30), now.program(0), now.bytes_of(0), expected);
  EXPECT_EQ(saver.finish().error, "");
}

TEST(Writing, row_20_steps_that_follow_do_not_change_what_is_written) {
  const Mesh mesh = mesh_of(1, 2, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  SmallState state(mesh, 30);
  std::vector<std::unique_ptr<test::DelayedView>> slow;
  for (std::size_t rank = 0; rank < 2; ++rank)
    slow.push_back(std::make_unique<test::DelayedView>(disk, std::chrono::milliseconds(20), rank));
  on_ranks(2, [&](std::size_t rank, comm::World* world) {
    Store store(*slow[rank], "/ckpt");
    Saver saver(store, world);
    saver.start(facts(30), state.program(rank), state.bytes_of(rank));
    for (const auto& tensor : state_of(state.program(rank))) {
      const auto bytes = state.bytes_of(rank)(*tensor.buffer);
      std::fill_n(bytes.data(), bytes.size(), std::byte{0x77});
    }
    EXPECT_EQ(saver.finish().error, "");
  });
  SmallState loaded(mesh, 0);
  load(disk, loaded, Store(disk, "/ckpt").open(30));
  EXPECT_TRUE(loaded.is_of(30));
}

TEST(Writing, row_21_a_save_that_repeats_the_one_before_is_an_error) {
  const Mesh mesh = mesh_of(1, 2, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  SmallState state(mesh, 30), next(mesh, 40);
  on_ranks(2, [&](std::size_t rank, comm::World* world) {
    Store store(disk, "/ckpt");
    Saver saver(store, world);
    const auto save_of = [&](SmallState& from, std::int64_t step) {
      saver.start(facts(step), from.program(rank), from.bytes_of(rank));
      return saver.finish().error;
    };
    EXPECT_EQ(save_of(state, 30), "");
    expect_words(save_of(state, 40), {"step 40: the bytes to be saved are those of step 30"});
    EXPECT_EQ(save_of(next, 40), "");
  });
}

TEST(Writing, row_21_a_save_that_repeats_what_was_loaded_is_an_error) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  Store store(disk, "/ckpt");
  SmallState state(mesh, 20);
  Saver saver(store);
  saver.set_last(20, digests_in(store.open(20).manifest));
  saver.start(facts(25), state.program(0), state.bytes_of(0));
  expect_words(saver.finish().error, {"step 25: the bytes to be saved are those of step 20"});
}

TEST(Writing, row_22_a_state_that_is_not_finite_is_marked_and_never_counts) {
  const Mesh mesh = mesh_of(1, 2, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  for (const std::int64_t step : {30, 40, 50, 60}) {
    SmallState state(mesh, step);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    for (const std::size_t rank : {0U, 1U}) {
      // The last element of what both ranks hold.
      const auto& buffers = state.program(rank).buffers;
      const auto bias = std::find_if(buffers.begin(), buffers.end(),
                                     [](const auto& b) { return b.name == "bias"; });
      const auto bytes = state.bytes_of(rank)(*bias);
      std::memcpy(bytes.data() + bytes.size() - sizeof nan, &nan, sizeof nan);
    }
    const auto result = save(disk, state, step);
    ASSERT_TRUE(result && result->error.empty());
    EXPECT_FALSE(Store(disk, "/ckpt").open(step).manifest.is_finite);
  }
  EXPECT_EQ(Store(disk, "/ckpt").steps(), (std::vector<std::int64_t>{60, 50, 40, 30, 20, 10}));
  EXPECT_TRUE(Store(disk, "/ckpt").open(20).manifest.is_finite);
}

TEST(Writing, row_23_a_rank_that_sees_the_new_folder_late_waits_for_it) {
  const Mesh mesh = mesh_of(1, 2, 2);
  for (const int error : {ENOENT, ESTALE}) {
    SimulatedDisk disk;
    prepare(disk, mesh);
    test::StaleView stale(disk, 0.15, error);
    SmallState state(mesh, 30);
    const FilesOf files_of = [&](std::size_t rank) -> FileSystem& {
      return rank == 2 ? static_cast<FileSystem&>(stale) : disk;
    };
    auto result = save(files_of, state, 30, 10);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->error, "");
    EXPECT_GT(stale.refusals(), 0);
    // Without patience the save is given up, on all ranks, and nothing else.
    test::StaleView staler(disk, 5, error);
    SmallState next(mesh, 40);
    result = save(
        [&](std::size_t rank) -> FileSystem& {
          return rank == 2 ? static_cast<FileSystem&>(staler) : disk;
        },
        next, 40, 0.05);
    ASSERT_TRUE(result);
    expect_words(result->error, {"rank 2: /ckpt/"});
    expect_usable(disk, mesh, 30, 30);
  }
}

TEST(Writing, row_24_sixteen_ranks_with_delays_save_again_and_again) {
  const Mesh mesh = mesh_of(1, 4, 4);
  SimulatedDisk disk;
  std::vector<std::unique_ptr<test::DelayedView>> views;
  for (std::size_t rank = 0; rank < 16; ++rank)
    views.push_back(
        std::make_unique<test::DelayedView>(disk, std::chrono::microseconds(400), rank));
  const std::int64_t saves = is_long_run() ? 500 : 20;
  std::vector<SmallState> states;
  for (std::int64_t step = 0; step < saves; ++step) states.emplace_back(mesh, step);
  on_ranks(16, [&](std::size_t rank, comm::World* world) {
    Store store(*views[rank], "/ckpt");
    if (rank == 0) {
      disk.make_directory("/ckpt");
      store.prepare();
    }
    Saver saver(store, world);
    for (std::int64_t step = 0; step < saves; ++step) {
      SmallState& state = states[static_cast<std::size_t>(step)];
      saver.start(facts(step), state.program(rank), state.bytes_of(rank));
      while (!saver.is_written()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      ASSERT_EQ(saver.finish().error, "") << step;
      if (rank == 0) {
        ASSERT_EQ(store.prune({.keep_last = 3}), "");
      }
    }
  });
  Store store(disk, "/ckpt");
  EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{saves - 1, saves - 2, saves - 3}));
  for (const std::int64_t step : store.steps()) verify(disk, store.open(step));
  for (const auto& entry : disk.list("/ckpt"))
    EXPECT_TRUE(entry.name.starts_with("step-") || entry.name == "LATEST") << entry.name;
}

}  // namespace
}  // namespace fourfold::checkpoint
