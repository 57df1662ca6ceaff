// Saving and loading on a disk that fails: no instant of a crash loses a checkpoint, no damage is
// loaded, and any grid loads what another one saved.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>

#include "checkpoint/report.h"
#include "unit/checkpoint/small_checkpoints.h"
#include "unit/data/expect_error.h"

namespace fourfold::checkpoint {
namespace {

using Loss = SimulatedDisk::Loss;

const std::vector<Mesh>& grids() {
  static const std::vector<Mesh> all = {mesh_of(1, 1, 1), mesh_of(2, 1, 1), mesh_of(1, 2, 1),
                                        mesh_of(1, 1, 3), mesh_of(1, 2, 2), mesh_of(2, 2, 2),
                                        mesh_of(1, 3, 2), mesh_of(1, 1, 6), mesh_of(1, 7, 1),
                                        mesh_of(2, 1, 4), mesh_of(1, 4, 4), mesh_of(1, 2, 7)};
  return all;
}

TEST(SaveLoad, row_34_every_grid_loads_what_every_other_has_saved) {
  for (const Mesh& from : grids()) {
    SimulatedDisk disk;
    SmallState saved(from, 7);
    const auto result = save(disk, saved, 7);
    ASSERT_TRUE(result && result->error.empty()) << (result ? result->error : "killed");
    const auto newest = Store(disk, "/ckpt").newest();
    ASSERT_TRUE(newest.found);
    for (const Mesh& to : grids()) {
      SmallState loaded(to, 0);
      loaded.scramble();
      load(disk, loaded, *newest.found);
      EXPECT_TRUE(loaded.is_of(7)) << from.ranks.size() << " ranks to " << to.ranks.size();
    }
  }
}

TEST(SaveLoad, row_17_and_18_a_kill_at_any_operation_and_a_loss_of_power_lose_no_checkpoint) {
  std::size_t count = 0;
  for (const Mesh& mesh : {mesh_of(1, 1, 1), mesh_of(1, 2, 2)}) {
    bool has_ended = false;
    for (std::int64_t at = 0; !has_ended; ++at)
      for (const std::uint64_t seed : {0, 1, 2, 3, 4}) {
        SimulatedDisk disk;
        prepare(disk, mesh);
        disk.set_plan({.kill_at = at, .fail_at = {}});
        SmallState state(mesh, 30);
        const auto result = save(disk, state, 30);
        const bool is_committed = result && result->error.empty();
        has_ended = disk.operations() <= at;
        const Loss loss = seed == 0 ? Loss::none : seed == 1 ? Loss::all : Loss::some;
        disk.lose_power(loss, seed);
        SCOPED_TRACE(
            format("{} ranks, killed at operation {}, seed {}", mesh.ranks.size(), at, seed));
        expect_usable(disk, mesh, is_committed ? 30 : 20, 30);
        ++count;
        if (HasFatalFailure()) return;
      }
  }
  std::printf("%zu crashes\n", count);
}

/// True if a flipped bit is found by whoever opens, verifies and loads the newest checkpoint.
bool is_found(SimulatedDisk& disk, const Mesh& mesh) {
  const auto newest = Store(disk, "/ckpt").newest();
  if (!newest.found || newest.found->manifest.step != 20) return true;
  SmallState state(mesh, 0);
  try {
    load(disk, state, *newest.found);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::no_checkpoint);
    EXPECT_NE(std::string(error.what()).find("/ckpt/step-000000020"), std::string::npos);
    return true;
  }
  return false;
}

TEST(SaveLoad, row_28_every_flipped_bit_is_found) {
  const Mesh mesh = mesh_of(1, 2, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  std::size_t count = 0;
  for (const char* name : {"manifest.json", "shard-00000.safetensors", "shard-00001.safetensors"}) {
    auto& bytes = disk.bytes(format("/ckpt/step-000000020/{}", name));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      for (int bit = 0; bit < 8; ++bit, ++count) {
        const std::byte flip{static_cast<unsigned char>(1 << bit)};
        bytes[i] ^= flip;
        EXPECT_TRUE(is_found(disk, mesh)) << name << ", byte " << i << ", bit " << bit;
        bytes[i] ^= flip;
      }
  }
  EXPECT_FALSE(is_found(disk, mesh));
  std::printf("%zu bits\n", count);
}

TEST(SaveLoad, row_27_a_damaged_checkpoint_is_passed_over_and_the_reason_told) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  disk.bytes("/ckpt/step-000000020/manifest.json")[100] ^= std::byte{1};
  const auto newest = Store(disk, "/ckpt").newest();
  ASSERT_TRUE(newest.found);
  EXPECT_EQ(newest.found->manifest.step, 10);
  ASSERT_EQ(newest.refused.size(), 1U);
  EXPECT_NE(newest.refused[0].why.find("/ckpt/step-000000020/manifest.json: its hash is "),
            std::string::npos)
      << newest.refused[0].why;
}

TEST(SaveLoad, row_28_verify_reads_all_bytes_and_digests) {
  const Mesh mesh = mesh_of(1, 2, 2);
  SimulatedDisk disk;
  prepare(disk, mesh);
  const Found found = Store(disk, "/ckpt").open(20);
  verify(disk, found);
  auto& bytes = disk.bytes("/ckpt/step-000000020/shard-00003.safetensors");
  bytes.back() ^= std::byte{4};
  expect_words(user_error(ExitCode::no_checkpoint, [&] { verify(disk, found); }),
               {"shard-00003.safetensors: chunk 0 of 1 has the hash"});
  bytes.back() ^= std::byte{4};
  Found other = found;
  other.manifest.tensors[0].digest += 1;
  expect_words(user_error(ExitCode::no_checkpoint, [&] { verify(disk, other); }),
               {"has the digest"});
}

TEST(SaveLoad, row_20_a_copy_that_is_not_of_one_step_is_not_committed) {
  const Mesh mesh = mesh_of(1, 1, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  Store store(disk, "/ckpt");
  SmallState state(mesh, 30);
  Saver saver(store);
  saver.start(facts(30), state.program(0), state.bytes_of(0), {{"w", 1}});
  const SaveResult result = saver.finish();
  EXPECT_NE(result.error.find("the copy is not of one step"), std::string::npos) << result.error;
  EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{20, 10}));
}

TEST(SaveLoad, row_54_a_rank_without_memory_ends_the_save_with_the_code_of_that) {
  RankReport report;
  report.error = "out of memory while it was written";
  report.code = ExitCode::out_of_memory;
  Manifest manifest;
  const RankReport read = parse_report(to_text(report));
  EXPECT_EQ(read, report);
  expect_words(user_error(ExitCode::out_of_memory, [&] { add_report(manifest, read, 2); }),
               {"rank 2: out of memory"});
}

}  // namespace
}  // namespace fourfold::checkpoint
