// Checkpoints of a small state on a simulated disk: saved and loaded by all ranks of a grid.
// Header only.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "comm/threads.h"
#include "support/long_run.h"
#include "support/simulated_disk.h"
#include "unit/checkpoint/small_state.h"

namespace fourfold::checkpoint {

using test::Killed;
using test::SimulatedDisk;

inline Manifest facts(std::int64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.config = "model: {}\n";
  manifest.version = "test";
  return manifest;
}

/// The file system as each rank sees it.
using FilesOf = std::function<FileSystem&(std::size_t rank)>;

/// Runs a body on every rank of a state; the world is null where there is but one.
inline void on_ranks(std::size_t ranks,
                     const std::function<void(std::size_t, comm::World*)>& body) {
  if (ranks == 1) {
    body(0, nullptr);
    return;
  }
  comm::ThreadJob job(ranks);
  job.run([&](comm::World& world) { body(world.rank().index(), &world); });
}

/// Saves on all ranks of the state; the result of rank 0. Kills end it on all ranks.
inline std::optional<SaveResult> save(const FilesOf& files_of, SmallState& state, std::int64_t step,
                                      double patience_s = 0) {
  std::optional<SaveResult> result;
  try {
    on_ranks(state.num_ranks(), [&](std::size_t rank, comm::World* world) {
      Store store(files_of(rank), "/ckpt", patience_s);
      if (rank == 0) store.prepare();
      Saver saver(store, world);
      saver.start(facts(step), state.program(rank), state.bytes_of(rank));
      const SaveResult own = saver.finish();
      if (rank == 0 && own.error.empty()) store.prune({.keep_last = 2});
      if (rank == 0) result = own;
    });
  } catch (const std::exception& error) {
    // The process is dead, or could not begin.
    const std::string what = error.what();
    EXPECT_TRUE(what.find("killed") != what.npos || what.find("/ckpt") != what.npos) << what;
  }
  return result;
}
inline std::optional<SaveResult> save(SimulatedDisk& disk, SmallState& state, std::int64_t step) {
  return save([&](std::size_t) -> FileSystem& { return disk; }, state, step);
}

inline void load(SimulatedDisk& disk, SmallState& state, const Found& found) {
  for (std::size_t rank = 0; rank < state.num_ranks(); ++rank)
    load_state(disk, found, state.program(rank), state.bytes_of(rank));
}

/// A disk with checkpoints of steps 10 and 20 that survive anything.
inline SimulatedDisk& prepare(SimulatedDisk& disk, const Mesh& mesh) {
  for (const std::int64_t step : {10, 20}) {
    SmallState state(mesh, step);
    const auto result = save(disk, state, step);
    EXPECT_TRUE(result && result->error.empty());
  }
  disk.lose_power(SimulatedDisk::Loss::none);
  return disk;
}

inline void expect_usable(SimulatedDisk& disk, const Mesh& mesh, std::int64_t at_least,
                          std::int64_t at_most) {
  disk.set_plan({});
  Store store(disk, "/ckpt");
  store.prepare();
  const auto newest = store.newest();
  ASSERT_TRUE(newest.found);
  const std::int64_t step = newest.found->manifest.step;
  EXPECT_GE(step, at_least);
  EXPECT_LE(step, at_most);
  SmallState state(mesh, 0);
  state.scramble();
  load(disk, state, *newest.found);
  EXPECT_TRUE(state.is_of(step));
  // And the job goes on.
  SmallState next(mesh, 40);
  const auto result = save(disk, next, 40);
  ASSERT_TRUE(result && result->error.empty()) << (result ? result->error : "killed");
}

}  // namespace fourfold::checkpoint
