#include "checkpoint/model_files.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold::checkpoint {
namespace {

void write_tensor(const std::string& path, const std::string& name, const Metadata& metadata = {}) {
  static constexpr std::array<std::byte, 8> bytes{};
  const TensorView view{name, DType::f32, Shape{2}, bytes};
  write_safetensors(path, std::span(&view, 1), metadata);
}

TEST(ModelFiles, names_are_those_of_hugging_face) {
  EXPECT_EQ(model_file_name(0, 1), "model.safetensors");
  EXPECT_EQ(model_file_name(1, 12), "model-00002-of-00012.safetensors");
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "model-00002-of-00012.safetensors"})
    EXPECT_TRUE(is_model_file(name)) << name;
  for (const char* name :
       {"model", "model-1.safetensors", "model-a-of-2.safetensors", "model--of-.safetensors",
        "model-00001-of-00002.safetensors.tmp-7", "other.safetensors", "model-00001-of-00002.bin"})
    EXPECT_FALSE(is_model_file(name)) << name;
}

TEST(ModelFiles, a_file_ends_before_the_tensor_that_would_make_it_too_large) {
  using Ends = std::vector<std::size_t>;
  EXPECT_EQ(ends_of_files(std::vector<std::int64_t>{3, 3, 4, 6}, 10), (Ends{3, 4}));
  EXPECT_EQ(ends_of_files(std::vector<std::int64_t>{3, 3, 5, 6}, 10), (Ends{2, 3, 4}));
  EXPECT_EQ(ends_of_files(std::vector<std::int64_t>{30, 1, 1, 30}, 10), (Ends{1, 3, 4}));
  EXPECT_EQ(ends_of_files(std::vector<std::int64_t>{3, 3}, INT64_MAX), (Ends{2}));
  EXPECT_EQ(ends_of_files({}, 10), (Ends{0}));
}

TEST(ModelFiles, a_single_file_comes_before_an_index_and_tells_its_step) {
  const TemporaryFolder folder;
  EXPECT_EQ(find_model(folder.path()), std::nullopt);
  EXPECT_EQ(find_model(folder.file("nowhere")), std::nullopt);
  write_tensor(folder.file(model_file_name(0, 2)), "a");
  write_tensor(folder.file(model_file_name(1, 2)), "b");
  EXPECT_EQ(find_model(folder.path()), std::nullopt);
  const std::vector<ListedFile> files = {{model_file_name(0, 2), {{"a", DType::f32, {2}}}},
                                         {model_file_name(1, 2), {{"b", DType::f32, {2}}}}};
  write_model_index(folder.path(), files, {{"step", "40"}});
  EXPECT_EQ(find_model(folder.path()), folder.file("model.safetensors.index.json"));
  EXPECT_EQ(step_of_model(*find_model(folder.path())), 40);
  EXPECT_EQ(open_model(*find_model(folder.path()))->tensors().size(), 2U);
  write_tensor(folder.file("model.safetensors"), "c", {{"step", "x"}});
  EXPECT_EQ(find_model(folder.path()), folder.file("model.safetensors"));
  EXPECT_EQ(step_of_model(*find_model(folder.path())), std::nullopt);
  EXPECT_EQ(list_model_files(folder.path()).size(), 4U);
}

TEST(ModelFiles, an_index_that_does_not_fit_its_files_is_refused) {
  const TemporaryFolder folder;
  write_tensor(folder.file(model_file_name(0, 2)), "a");
  const auto error_of = [&](const std::string& index) {
    write_file_atomic(folder.file("model.safetensors.index.json"), index);
    return user_error(ExitCode::no_checkpoint, [&] { open_model(*find_model(folder.path())); });
  };
  const std::string file = model_file_name(0, 2);
  expect_words(error_of("{}"), {"model.safetensors.index.json", "weight_map"});
  expect_words(error_of(R"({"weight_map": {"a": "../a"}})"), {"\"../a\"", "beside the index"});
  expect_words(error_of(R"({"weight_map": {"a": ")" + file + R"(", "b": ")" + file + "\"}}"),
               {"\"b\": not in " + file});
  write_tensor(folder.file(model_file_name(1, 2)), "b");
  expect_words(error_of(R"({"weight_map": {"a": ")" + file + R"(", "c": ")" +
                        model_file_name(1, 2) + "\"}}"),
               {"\"b\": in a file, but not in the index"});
  expect_words(error_of(R"({"weight_map": {"a": "model-00009-of-00009.safetensors"}})"),
               {"model-00009-of-00009.safetensors", "cannot be read"});
}

}  // namespace
}  // namespace fourfold::checkpoint
