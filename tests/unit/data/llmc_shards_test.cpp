// A folder of llm.c: which of its shards train, which validate, and how many may be open.
#include "data/llmc_shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/format.h"
#include "data/describe.h"
#include "data/token_source.h"
#include "support/few_files.h"
#include "unit/data/expect_error.h"
#include "unit/data/token_files.h"

namespace fourfold::data {
namespace {

using Ids = std::vector<std::int32_t>;

/// So many tokens of one value.
void write_shard(const std::string& path, std::int32_t tokens, std::int64_t value) {
  Bytes bytes;
  bytes.add(std::int32_t{20240520}).add(std::int32_t{1}).add(tokens);
  for (int word = 3; word < 256; ++word) bytes.add(std::int32_t{0});
  for (std::int32_t i = 0; i < tokens; ++i) bytes.add_id(value, 2);
  write_bytes(path, bytes.text());
}

class LlmcTest : public DataFolderTest {
 protected:
  void SetUp() override {
    DataFolderTest::SetUp();
    std::filesystem::create_directories(path("set"));
    write_shard(path("set/fineweb_train_000001.bin"), 300, 1);
    write_shard(path("set/fineweb_train_000002.bin"), 300, 2);
    write_shard(path("set/fineweb_val_000000.bin"), 200, 7);
  }
  DataSpec spec() const {
    DataSpec spec;
    spec.format = Format::llmc;
    spec.path = path("set");
    spec.seq_length = 8;
    spec.samples_per_step = 4;
    spec.vocab_size = 64;
    return spec;
  }
};

/// The values that stand in the windows of so many steps.
std::vector<std::int32_t> values_that_train(const TokenSource& data) {
  std::vector<std::int32_t> values;
  Ids ids(8);
  for (std::int64_t step = 0; step < 40; ++step)
    for (std::int64_t sample = 0; sample < 4; ++sample) {
      data.fill_train_tokens(step, sample, ids);
      values.insert(values.end(), ids.begin(), ids.end());
    }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

TEST_F(LlmcTest, shards_with_val_in_their_names_validate_and_all_others_train) {
  const TokenSource data(spec());
  EXPECT_EQ(data.num_train(), 600);
  EXPECT_EQ(data.num_validation(), 200);
  EXPECT_EQ(values_that_train(data), (Ids{1, 2}));
  Ids ids(8);
  data.fill_validation_tokens(0, ids);
  EXPECT_EQ(ids, Ids(8, 7));
  EXPECT_EQ(data.validation_name(), path("set"));
  const Description shown = describe(path("set"), "text", {});
  const auto row = std::ranges::find(shown.rows, "validate", &Row::label);
  ASSERT_NE(row, shown.rows.end());
  EXPECT_EQ(row->text, "200 tokens, by their names");
}

TEST_F(LlmcTest, they_do_not_train_where_others_validate_and_are_named) {
  write_shard(path("other.bin"), 100, 9);
  DataSpec other = spec();
  other.validation = path("other.bin");
  const TokenSource data(other);
  EXPECT_EQ(data.num_train(), 600);
  EXPECT_EQ(data.num_validation(), 100);
  ASSERT_EQ(data.warnings().size(), 1U);
  expect_words(data.warnings()[0], {"1 name passed over", "fineweb_val_000000.bin", "validation"});
  // The folder named for both is what leaving it out means.
  DataSpec same = spec();
  same.validation = same.path;
  EXPECT_EQ(TokenSource(same).num_validation(), 200);
  EXPECT_EQ(TokenSource(same).num_train(), 600);
  // In a blend they do not train either.
  DataSpec blend = spec();
  blend.blend = {{path("set"), 1}, {path("other.bin"), 1}};
  blend.path.clear();
  EXPECT_EQ(values_that_train(TokenSource(blend)), (Ids{1, 2, 9}));
}

TEST_F(LlmcTest, a_folder_of_one_kind_is_split_and_other_names_are_told) {
  std::filesystem::remove(path("set/fineweb_val_000000.bin"));
  write_shard(path("set/valley.bin"), 200, 3);
  write_bytes(path("set/fineweb_train_000003.bin.part"), "half");
  write_bytes(path("set/.fineweb_train_000004.bin"), "half");
  const TokenSource data(spec());
  EXPECT_EQ(data.num_train() + data.num_validation(), 800) << "a valley is no validation";
  ASSERT_EQ(data.warnings().size(), 1U);
  const std::initializer_list<std::string> told = {
      "2 names passed over", ".fineweb_train_000004.bin: is hidden",
      "fineweb_train_000003.bin.part: is no .bin file"};
  expect_words(data.warnings()[0], told);
  const Description shown = describe(path("set"), "text", {});
  const auto row = std::ranges::find(shown.rows, "note", &Row::label);
  ASSERT_NE(row, shown.rows.end());
  expect_words(row->text, told);
}

TEST_F(LlmcTest, a_set_may_have_more_shards_than_a_process_may_open) {
  for (int shard = 0; shard < 300; ++shard)
    write_shard(path(format("set/train_{:06}.bin", shard)), 10, 3);
  auto few = std::make_optional<test::FewFiles>();
  std::int64_t tokens = 0;
  std::string changed;
  Ids ids(3600 - 600);
  try {
    const LlmcShards shards(path("set"), LlmcShards::Part::training);
    tokens = shards.num_tokens();
    EXPECT_FALSE(shards.read(600, 64, ids).has_value());
    shards.fingerprint();
    write_shard(path("set/train_000100.bin"), 9, 3);
    changed = user_error(ExitCode::bad_data, [&] { shards.read(600, 64, ids); });
  } catch (const UserError& error) {
    ADD_FAILURE() << error.what();
  }
  few.reset();
  EXPECT_EQ(tokens, 3600);
  EXPECT_EQ(ids, Ids(3000, 3));
  expect_words(changed, {"train_000100.bin: has changed since it was first opened"});
}

}  // namespace
}  // namespace fourfold::data
