// What may be wrong with checkpoints that are read, row by row of the catalogue of failures.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/restore.h"
#include "support/slow_views.h"
#include "unit/checkpoint/small_checkpoints.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold::checkpoint {
namespace {

namespace fs = std::filesystem;

const std::string newest_folder = "/ckpt/step-000000020";

std::string file_of(const std::string& name) {
  return format("{}/{}", newest_folder, name);
}

struct Outcome {
  std::string error;  // of rank 0; empty: loaded
  std::int64_t step = -1;
  bool is_equal = false;  // the state is that of the step
  std::vector<std::string> warnings;
};

/// Loads the newest checkpoint on all ranks of a mesh.
Outcome restore_on(const FilesOf& files_of, const Mesh& mesh, bool may_fall_back,
                   double patience_s = 0) {
  Outcome outcome;
  SmallState state(mesh, 0);
  state.scramble();
  on_ranks(mesh.ranks.size(), [&](std::size_t rank, comm::World* world) {
    Store store(files_of(rank), "/ckpt", patience_s);
    RestoreChoice choice{.may_fall_back = may_fall_back, .check = {}, .warn = {}};
    choice.warn = [&](const std::string& text) { outcome.warnings.push_back(text); };
    std::string error;
    std::int64_t step = -1;
    try {
      std::optional<Found> first;
      if (rank == 0) first = store.newest().found;
      if (world != nullptr) first = share(first, *world);
      if (!first) throw UserError(ExitCode::no_checkpoint, "none");
      step = restore(store, *first, choice, state.program(rank), state.bytes_of(rank), world)
                 .manifest.step;
    } catch (const UserError& problem) {
      EXPECT_EQ(problem.code(), ExitCode::no_checkpoint) << problem.what();
      error = problem.what();
    }
    // All ranks agree.
    if (world != nullptr) {
      EXPECT_EQ(world->broadcast(error).empty(), error.empty());
      EXPECT_EQ(world->broadcast(std::to_string(step)), std::to_string(step));
    }
    if (rank == 0) {
      outcome.error = error;
      outcome.step = step;
    }
  });
  outcome.is_equal = outcome.step >= 0 && state.is_of(outcome.step);
  return outcome;
}
Outcome restore_on(SimulatedDisk& disk, const Mesh& mesh, bool may_fall_back = true) {
  return restore_on([&](std::size_t) -> FileSystem& { return disk; }, mesh, may_fall_back);
}

TEST(Reading, row_27_each_file_that_is_gone_empty_or_cut_makes_way_for_the_one_before) {
  const Mesh mesh = mesh_of(1, 2, 1);
  for (const char* name : {"manifest.json", "shard-00000.safetensors", "shard-00001.safetensors"})
    for (const int damage : {0, 1, 2}) {
      SimulatedDisk disk;
      prepare(disk, mesh);
      auto& bytes = disk.bytes(file_of(name));
      if (damage == 0) disk.remove_file(file_of(name));
      if (damage == 1) bytes.clear();
      if (damage == 2) bytes.resize(bytes.size() / 2);
      const auto newest = Store(disk, "/ckpt").newest();
      ASSERT_TRUE(newest.found) << name;
      EXPECT_EQ(newest.found->manifest.step, 10);
      ASSERT_EQ(newest.refused.size(), 1U);
      expect_words(newest.refused[0].why, {file_of(name)});
      EXPECT_TRUE(restore_on(disk, mesh).is_equal);
      expect_words(user_error(ExitCode::no_checkpoint, [&] { Store(disk, "/ckpt").open(20); }),
                   {file_of(name)});
    }
}

TEST(Reading, row_27_a_file_too_many_and_a_folder_without_a_manifest_do_not_matter) {
  const Mesh mesh = mesh_of(1, 2, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  write_new_file(disk, file_of("shard-00007.safetensors"), "not listed");
  disk.make_directory("/ckpt/step-000000030");
  disk.make_directory("/ckpt/step-31");
  const Outcome outcome = restore_on(disk, mesh);
  EXPECT_EQ(outcome.step, 20);
  EXPECT_TRUE(outcome.is_equal);
}

TEST(Reading, row_28_a_damaged_chunk_makes_way_for_the_one_before_on_all_ranks) {
  for (const Mesh& mesh : {mesh_of(1, 1, 1), mesh_of(1, 2, 2)}) {
    SimulatedDisk disk;
    prepare(disk, mesh);
    const std::string name = shard_name(mesh.ranks.size() - 1);
    disk.bytes(file_of(name)).back() ^= std::byte{8};
    Outcome outcome = restore_on(disk, mesh);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.step, 10);
    EXPECT_TRUE(outcome.is_equal);
    ASSERT_EQ(outcome.warnings.size(), 1U);
    expect_words(outcome.warnings[0],
                 {"the checkpoint of step 20 is damaged and passed over for that of step 10: ",
                  file_of(name) + ": chunk 0 of 1 has the hash "});
    EXPECT_EQ(std::count(outcome.warnings[0].begin(), outcome.warnings[0].end(), '\n'), 0);
    outcome = restore_on(disk, mesh, false);
    expect_words(outcome.error, {file_of(name) + ": chunk 0 of 1"});
    EXPECT_EQ(outcome.step, -1);
  }
}

TEST(Reading, row_28_when_all_are_damaged_each_is_told) {
  const Mesh mesh = mesh_of(1, 2, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  disk.bytes(file_of("shard-00001.safetensors")).back() ^= std::byte{8};
  disk.bytes("/ckpt/step-000000010/shard-00000.safetensors").back() ^= std::byte{8};
  expect_words(restore_on(disk, mesh).error,
               {"/ckpt: every checkpoint is damaged", "step-000000020/shard-00001.safetensors",
                "step-000000010/shard-00000.safetensors"});
}

TEST(Reading, row_28_ten_thousand_bits_of_data_are_found_when_they_flip) {
  const Mesh mesh = mesh_of(1, 2, 1);
  SimulatedDisk disk;
  prepare(disk, mesh);
  const Found found = Store(disk, "/ckpt").open(20);
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    auto& bytes = disk.bytes(file_of(shard_name(random() % 2)));
    std::byte& byte = bytes[random() % bytes.size()];
    const std::byte flip{static_cast<unsigned char>(1U << random() % 8)};
    byte ^= flip;
    EXPECT_THROW(verify(disk, found), UserError);
    byte ^= flip;
  }
  verify(disk, found);
}

TEST(Reading, row_34_what_is_loaded_has_the_digests_of_what_was_saved) {
  for (const Mesh& from : {mesh_of(1, 1, 1), mesh_of(2, 2, 1), mesh_of(1, 2, 3)}) {
    SimulatedDisk disk;
    prepare(disk, from);
    const Found found = Store(disk, "/ckpt").open(20);
    for (const Mesh& to : {mesh_of(1, 1, 1), mesh_of(2, 1, 2), mesh_of(1, 4, 4)}) {
      SmallState state(to, 20), other(to, 21);
      state.scramble();
      on_ranks(to.ranks.size(), [&](std::size_t rank, comm::World* world) {
        Digests loaded = load_state(disk, found, state.program(rank), state.bytes_of(rank));
        check_digests(found, loaded, world);
        // They are those of the memory, element by element.
        EXPECT_EQ(loaded, owned_digests(state.program(rank), state.bytes_of(rank)));
        // One rank with one tensor of another step is enough; rank 0 owns part of everything.
        if (rank == 0)
          loaded["odd"] = owned_digests(other.program(rank), other.bytes_of(rank)).at("odd");
        expect_words(
            user_error(ExitCode::no_checkpoint, [&] { check_digests(found, loaded, world); }),
            {newest_folder + ": odd has the digest "});
      });
    }
  }
}

TEST(Reading, row_23_and_36_ranks_load_what_rank_0_names_however_late_they_see_it) {
  const Mesh mesh = mesh_of(1, 2, 2);
  for (const int error : {ENOENT, ESTALE}) {
    SimulatedDisk disk;
    prepare(disk, mesh);
    test::StaleView stale(disk, 0.15, error);
    const FilesOf files_of = [&](std::size_t rank) -> FileSystem& {
      return rank == 2 ? static_cast<FileSystem&>(stale) : disk;
    };
    Outcome outcome = restore_on(files_of, mesh, false, 10);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.step, 20);
    EXPECT_TRUE(outcome.is_equal);
    EXPECT_GT(stale.refusals(), 0);
    // A rank that never sees it: all say so, none hangs.
    test::StaleView blind(disk, 1e6, error);
    outcome = restore_on(
        [&](std::size_t rank) -> FileSystem& {
          return rank == 2 ? static_cast<FileSystem&>(blind) : disk;
        },
        mesh, false, 0.05);
    expect_words(outcome.error, {file_of("shard-0000")});
  }
}

TEST(Reading, row_26_the_newest_is_the_one_of_the_last_step_whatever_the_clocks_say) {
  const TemporaryFolder folder;
  Store store(real_files(), folder.file("ckpt"));
  store.prepare();
  Saver saver(store);
  for (const std::int64_t step : {5, 20, 100, 3, 11}) {
    SmallState state(mesh_of(1, 1, 1), step);
    saver.start(facts(step), state.program(0), state.bytes_of(0));
    ASSERT_EQ(saver.finish().error, "");
  }
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    for (const auto& entry : fs::recursive_directory_iterator(folder.file("ckpt"))) {
      const auto days = std::chrono::hours(24 * static_cast<std::int64_t>(random() % 5000));
      fs::last_write_time(entry.path(),
                          fs::file_time_type::clock::now() - days + std::chrono::hours(24));
    }
    EXPECT_EQ(store.newest().found->manifest.step, 100);
    EXPECT_EQ(store.steps(), (std::vector<std::int64_t>{100, 20, 11, 5, 3}));
  }
}

/// What of the sources of a room holds any of the words.
std::string lines_with(const std::vector<std::string>& rooms,
                       const std::vector<std::string>& words) {
  std::string found;
  for (const std::string& room : rooms)
    for (const auto& entry : fs::directory_iterator(FOURFOLD_SOURCE_DIR "/src/" + room)) {
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);)
        for (const std::string& word : words)
          if (line.find(word) != std::string::npos) found += entry.path().string() + ": " + line;
    }
  return found;
}

TEST(Reading, row_26_no_wall_clock_decides_anything_about_checkpoints) {
  EXPECT_EQ(lines_with({"checkpoint"}, {"system_clock", "std::time(", "last_write_time", "st_mtim",
                                        "gettimeofday"}),
            "");
  EXPECT_NE(lines_with({"checkpoint"}, {"steady_clock"}), "");
}

TEST(Reading, row_37_readers_execute_nothing) {
  EXPECT_EQ(lines_with({"checkpoint", "base"},
                       {"dlopen", "dlsym", "execv", "execl", "popen(", "system(", "mmap("}),
            "");
}

/// A real checkpoint of one rank, at step 20.
class RealCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    store_.prepare();
    Saver saver(store_);
    saver.start(facts(20), state_.program(0), state_.bytes_of(0));
    ASSERT_EQ(saver.finish().error, "");
  }
  std::string path(const std::string& name) const {
    return format("{}/{}", store_.path_of(20), name);
  }
  std::string refusal() {
    return user_error(ExitCode::no_checkpoint, [&] {
      load_state(real_files(), store_.open(20), state_.program(0), state_.bytes_of(0));
    });
  }

  TemporaryFolder folder_;
  Store store_{real_files(), folder_.file("ckpt")};
  SmallState state_{mesh_of(1, 1, 1), 20};
};

TEST_F(RealCheckpoint, row_30_links_pipes_and_folders_are_refused_and_second_names_are_read) {
  for (const char* name : {"shard-00000.safetensors", "manifest.json"}) {
    const std::string place = path(name), aside = folder_.file("aside");
    fs::rename(place, aside);
    const std::vector<std::function<void()>> swaps = {
        [&] { fs::create_symlink(aside, place); },
        [&] { ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0); },
        [&] { fs::create_directory(place); },
        [&] { fs::create_symlink("/dev/zero", place); },
        [&] { fs::create_symlink("/proc/self/environ", place); },
    };
    for (const auto& swap : swaps) {
      swap();
      expect_words(refusal(), {place});
      fs::remove(place);
    }
    // As a backup by hard links makes it.
    fs::create_hard_link(aside, place);
    EXPECT_NO_THROW(store_.open(20));
    fs::remove(place);
    fs::rename(aside, place);
  }
  load_state(real_files(), store_.open(20), state_.program(0), state_.bytes_of(0));
}

TEST_F(RealCheckpoint, row_30_names_and_words_of_a_manifest_cannot_lead_outside_or_to_a_terminal) {
  const std::string text = read_file(path("manifest.json"));
  const std::vector<std::string> names = {"",
                                          ".",
                                          "..",
                                          "/",
                                          "/etc/passwd",
                                          "../shard-00000.safetensors",
                                          "shard-00000.safetensors/",
                                          "./shard-00000.safetensors",
                                          "shard-00000.safetensors/../x",
                                          "a/shard-00000.safetensors",
                                          "shard-0000.safetensors",
                                          "shard-000000.safetensors",
                                          "shard-00000.safetensor",
                                          "shard-00000.safetensors ",
                                          " shard-00000.safetensors",
                                          "SHARD-00000.safetensors",
                                          "shard-00000.SAFETENSORS",
                                          "shard-0000a.safetensors",
                                          "shard-+0000.safetensors",
                                          "shard--0001.safetensors",
                                          "shard-0x001.safetensors",
                                          "shard-00000_safetensors",
                                          "shard_00000.safetensors",
                                          "shard-00000.safetensors.tmp",
                                          "shard-\\u0660\\u0660000.safetensors",
                                          "manifest.json",
                                          "LATEST",
                                          "~/x",
                                          "$HOME",
                                          "$(reboot)",
                                          "`reboot`",
                                          "|reboot",
                                          ";reboot",
                                          "con",
                                          "nul",
                                          "\\\\host\\share",
                                          "C:\\\\x",
                                          "file:///etc/passwd",
                                          "http://x/y",
                                          "%2e%2e/x",
                                          "..%2fx",
                                          "\\u002e\\u002e/x",
                                          "shard-00000.safetensors\\u0000",
                                          "\\u0000",
                                          "\\u001b[2J",
                                          "\\u001b]0;x\\u0007",
                                          "\\n",
                                          "\\r\\n",
                                          "\\u202eshard",
                                          "\\ud83d\\ude00",
                                          std::string(600, 'a'),
                                          "shard-00000.safetensors\\t"};
  EXPECT_GE(names.size(), 50U);
  for (const std::string& name : names) {
    std::string forged = text;
    const std::string old = "shard-00000.safetensors";
    forged.replace(forged.find(old), old.size(), name);
    forged.resize(forged.rfind(",\"self_hash\""));
    forged += ",\"self_hash\":\"" + hash128_text(forged) + "\"}\n";
    write_bytes(path("manifest.json"), forged);
    const std::string why = refusal();
    for (const char c : why) EXPECT_TRUE(c >= ' ' && c <= '~') << why;
  }
  for (const char* key : {"\"version\":\"", "\"grid\":\"", "\"data\":\""}) {
    std::string forged = text;
    forged.insert(forged.find(key) + std::string(key).size(), "\\u001b[2J");
    forged.resize(forged.rfind(",\"self_hash\""));
    forged += ",\"self_hash\":\"" + hash128_text(forged) + "\"}\n";
    write_bytes(path("manifest.json"), forged);
    const std::string why = refusal();
    expect_words(why, {"is no printable text"});
    for (const char c : why) EXPECT_TRUE(c >= ' ' && c <= '~') << why;
  }
}

/// Cuts the real file after the first read.
class ShrinkingFiles final : public test::View {
 public:
  using View::View;
  std::unique_ptr<Reader> open(const std::string& path) override {
    return std::make_unique<ShrinkingReader>(path, View::open(path));
  }

 private:
  class ShrinkingReader final : public Reader {
   public:
    ShrinkingReader(std::string path, std::unique_ptr<Reader> file)
        : path_(std::move(path)), file_(std::move(file)) {}
    std::int64_t size() const override { return file_->size(); }
    void read(std::int64_t offset, std::span<std::byte> into) const override {
      if (path_.ends_with(".safetensors")) {
        ASSERT_EQ(::truncate(path_.c_str(), file_->size() / 2), 0);
      }
      file_->read(offset, into);
    }

   private:
    std::string path_;
    std::unique_ptr<Reader> file_;
  };
  void look_at(const std::string&) override {}
};

TEST_F(RealCheckpoint, row_31_a_file_that_shrinks_while_it_is_read_is_an_error_and_no_signal) {
  ShrinkingFiles files(real_files());
  expect_words(
      user_error(
          ExitCode::no_checkpoint,
          [&] { load_state(files, store_.open(20), state_.program(0), state_.bytes_of(0)); }),
      {"shard-00000.safetensors: ends at byte ", "the file has shrunk"});
}

TEST_F(RealCheckpoint, row_32_a_model_that_differs_is_told_all_differences_and_nothing_is_touched) {
  program::Program other = state_.program(0);
  auto& buffers = other.buffers;
  buffers[0].global = {7, 13};    // w
  buffers[2].dtype = DType::f32;  // bias
  buffers[3].name = "even";
  bool was_touched = false;
  const auto bytes_of = [&](const program::Buffer&) -> std::span<std::byte> {
    was_touched = true;
    return {};
  };
  const std::string why = user_error(
      ExitCode::no_checkpoint, [&] { load_state(real_files(), store_.open(20), other, bytes_of); });
  expect_words(why, {"does not fit the model", "\n  w: f32 [7, 12], the model has f32 [7, 13]",
                     "\n  bias: f64 [12], the model has f32 [12]",
                     "\n  even: missing, the model has f32 [5, 2, 3]",
                     "\n  odd: f32 [5, 2, 3], the model has none of this name"});
  EXPECT_FALSE(was_touched);
}

TEST_F(RealCheckpoint, row_33_one_without_the_count_of_what_is_not_finite_begins_it_at_zero) {
  program::Program newer = state_.program(0);
  program::Buffer counter =
      *std::ranges::find(newer.buffers, std::string("updates"), &program::Buffer::name);
  counter.name = "non_finite";
  newer.buffers.push_back(counter);
  std::vector<std::byte> count(8, std::byte{0xA5});
  const auto bytes_of = [&](const program::Buffer& buffer) -> HostView<std::byte> {
    if (buffer.name == "non_finite") return std::span(count);
    return state_.bytes_of(0)(buffer);
  };
  load_state(real_files(), store_.open(20), newer, bytes_of);
  EXPECT_EQ(count, std::vector<std::byte>(8));
  newer.buffers.back().name = "another";
  EXPECT_THROW(load_state(real_files(), store_.open(20), newer, bytes_of), UserError);
}

TEST(Reading, row_33_checkpoints_of_every_released_format_load_and_others_are_refused) {
  const std::string golden = FOURFOLD_SOURCE_DIR "/tests/golden/checkpoint-format-2";
  if (std::getenv("FOURFOLD_MAKE_GOLDEN") != nullptr) {
    Store store(real_files(), golden);
    store.prepare();
    Saver saver(store);
    SmallState state(mesh_of(1, 1, 1), 1200);
    Manifest about = facts(1200);
    about.version = "Fourfold 0.1.0";
    saver.start(about, state.program(0), state.bytes_of(0));
    ASSERT_EQ(saver.finish().error, "");
  }
  const Found found = Store(real_files(), golden).open(1200);
  EXPECT_EQ(found.manifest.version, "Fourfold 0.1.0");
  verify(real_files(), found);
  for (const Mesh& mesh : {mesh_of(1, 1, 1), mesh_of(1, 2, 2)}) {
    SmallState state(mesh, 0);
    state.scramble();
    for (std::size_t rank = 0; rank < state.num_ranks(); ++rank)
      load_state(real_files(), found, state.program(rank), state.bytes_of(rank));
    EXPECT_TRUE(state.is_of(1200));
  }
  // The digests of format 1 were others; no version that wrote it was released.
  for (const int format_number : {1, 3}) {
    std::string other = read_file(found.path + "/manifest.json");
    other.replace(other.find("\"format\":2"), 10, format("\"format\":{}", format_number));
    other.resize(other.rfind(",\"self_hash\""));
    other += ",\"self_hash\":\"" + hash128_text(other) + "\"}\n";
    expect_words(
        user_error(ExitCode::no_checkpoint, [&] { parse_manifest(other, "manifest.json"); }),
        {format("has format {}, this program reads 2; use the version of Fourfold that wrote it "
                "(Fourfold 0.1.0)",
                format_number)});
  }
}

}  // namespace
}  // namespace fourfold::checkpoint
