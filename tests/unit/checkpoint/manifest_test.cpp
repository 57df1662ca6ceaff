#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <random>

#include "base/format.h"
#include "base/hash.h"
#include "checkpoint/cover.h"
#include "support/many_columns.h"
#include "unit/data/expect_error.h"

namespace fourfold::checkpoint {
namespace {

Manifest small_manifest() {
  Manifest m;
  m.step = 1200;
  m.samples_seen = 14400;
  m.seed = 0xFFFFFFFFFFFFFFFFU;
  m.version = "0.1.0";
  m.config = "model:\n  hidden_size: 96\n";
  m.data = "text 4236031";
  m.grid = "x 2, data 2";
  m.files = {{"shard-00000.safetensors", 300, {1}},
             {"shard-00001.safetensors", 2 * chunk_bytes + 1, {2, 3, 0xABCDEF0123456789U}}};
  m.tensors = {{"w", DType::f32, {4, 6}, 77, {{0, {{0, 0}, {4, 3}}}, {1, {{0, 3}, {4, 3}}}}},
               {"updates", DType::i64, {}, 5, {{0, {{}, {}}}}}};
  return m;
}

/// The text with one thing replaced, and a hash that holds again.
std::string forged(const std::string& from, const std::string& to) {
  std::string text = to_text(small_manifest());
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  text.replace(place, from.size(), to);
  const std::size_t tail = text.rfind(",\"self_hash\"");
  text.resize(tail);
  return text + ",\"self_hash\":\"" + hash128_text(text) + "\"}\n";
}

std::string refusal(const std::string& text) {
  return user_error(ExitCode::no_checkpoint, [&] { parse_manifest(text, "a/manifest.json"); });
}

TEST(Manifest, round_trips_as_text) {
  const Manifest manifest = small_manifest();
  EXPECT_EQ(parse_manifest(to_text(manifest), "m"), manifest);
}

TEST(Manifest, what_a_step_has_still_to_tell_is_read_back_to_the_bit_or_refused) {
  Manifest manifest = small_manifest();
  manifest.untold = Untold{1.0 / 3, 1e-300, 0.1, 12345.678};
  EXPECT_EQ(parse_manifest(to_text(manifest), "m"), manifest);
  const std::string text = R"("grid":"x 2, data 2")";
  for (const char* wrong : {R"("untold":7)", R"("untold":{"loss":1,"lr":1,"grad_norm":1})",
                            R"("untold":{"loss":"1","lr":1,"grad_norm":1,"time_s":1})"})
    expect_words(refusal(forged(text, format("{},{}", text, wrong))), {"a/manifest.json: "});
}

TEST(Manifest, a_text_that_was_cut_or_changed_is_refused) {
  const std::string text = to_text(small_manifest());
  for (std::size_t size = 0; size < text.size(); ++size)
    expect_words(refusal(text.substr(0, size)), {"a/manifest.json: ", "damaged"});
  expect_words(refusal(text + "\n"), {"does not end with its hash"});
  std::string changed = text;
  changed[20] ^= 1;
  expect_words(refusal(changed), {"its hash is ", "its text has "});
}

TEST(Manifest, hostile_contents_with_a_hash_that_holds_are_refused) {
  const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
      {"names the file", {"shard-00001.safetensors", "../../.ssh/keys.safetens"}},
      {"names the file", {"shard-00001.safetensors", "shard-0000a.safetensors"}},
      {"names the file", {"shard-00001.safetensors", "shard-00001.safetensor\\u0000"}},
      {"twice", {"shard-00001.safetensors", "shard-00000.safetensors"}},
      {"overlap", {"\"origin\":[0,3]", "\"origin\":[0,2]"}},
      {"hold 20 of 24", {"\"origin\":[0,3],\"extent\":[4,3]", "\"origin\":[0,3],\"extent\":[4,2]"}},
      {"lies outside", {"\"extent\":[4,3]", "\"extent\":[5,3]"}},
      {"lies outside", {"\"extent\":[4,3]", "\"extent\":[4]"}},
      {"lies outside", {"\"origin\":[0,3]", "\"origin\":[0,1099511627776]"}},
      {"no list of at most", {"\"origin\":[0,3]", "\"origin\":[0,-3]"}},
      {"no list of at most", {"\"shape\":[4,6]", "\"shape\":[4,9223372036854775807]"}},
      {"too many elements", {"\"shape\":[4,6]", "\"shape\":[1099511627776,1099511627776]"}},
      {"a file that is not listed", {"{\"file\":1,", "{\"file\":2,"}},
      {"file is -1", {"{\"file\":1,", "{\"file\":-1,"}},
      {"no valid step", {"\"step\":1200", "\"step\":1.5"}},
      {"step is -1", {"\"step\":1200", "\"step\":-1"}},
      {"has format 3, this program reads 2", {"\"format\":2", "\"format\":3"}},
      {"expected their hashes", {"\"size\":300", "\"size\":9300000000"}},
      {"expected 0 to", {"\"size\":300", "\"size\":9223372036854775807"}},
      {"expected 0 to", {"\"step\":1200", "\"step\":9223372036854775807"}},
      {"no dtype that is known", {"\"dtype\":\"f32\"", "\"dtype\":\"f31\""}},
      {"no printable text", {"\"name\":\"w\"", "\"name\":\"\\u001b[2J\""}},
      {"the tensor w twice", {"\"name\":\"updates\"", "\"name\":\"w\""}},
      {"chunks of an unknown size", {"\"chunk_bytes\":1048576", "\"chunk_bytes\":1"}},
      {"hexadecimal digits", {"\"digest\":\"00000000000000", "\"digest\":\"0000000000000x"}},
  };
  for (const auto& [words, change] : cases)
    expect_words(refusal(forged(change.first, change.second)), {"a/manifest.json", words});
}

/// Every way of cutting covers; taking a slice away, doubling or moving it does not.
TEST(Cover, finds_each_gap_and_each_overlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto up_to = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)) + 1;
    };
    StoredTensor tensor{"t", DType::f32, {up_to(6), up_to(6)}, 0, {}};
    const std::int64_t a = up_to(tensor.shape[0]), b = up_to(tensor.shape[1]);
    for (std::int64_t i = 0; i < tensor.shape[0]; i += a)
      for (std::int64_t j = 0; j < tensor.shape[1]; j += b)
        tensor.slices.push_back({0, intersection({{i, j}, {a, b}}, whole_box(tensor.shape))});
    std::shuffle(tensor.slices.begin(), tensor.slices.end(), random);
    ASSERT_EQ(find_gap_or_overlap(tensor), "");
    StoredTensor missing = tensor, doubled = tensor, moved = tensor;
    missing.slices.pop_back();
    EXPECT_NE(find_gap_or_overlap(missing), "");
    doubled.slices.push_back(doubled.slices[0]);
    EXPECT_NE(find_gap_or_overlap(doubled), "");
    moved.slices[0].box.origin[0] = moved.slices[0].box.origin[0] == 0 ? 1 : 0;
    EXPECT_NE(find_gap_or_overlap(moved), "");
  }
}

/// ReadPromise has how long many more take.
TEST(Cover, of_columns_that_all_begin_in_row_0_is_seen) {
  StoredTensor tensor = tensor_of_columns(1000);
  EXPECT_EQ(find_gap_or_overlap(tensor), "");
  tensor.slices[7].box.origin[1] = 999;
  EXPECT_NE(find_gap_or_overlap(tensor).find("overlap"), std::string::npos);
  make_columns_short(tensor);
  EXPECT_NE(find_gap_or_overlap(tensor), "");
}

}  // namespace
}  // namespace fourfold::checkpoint
