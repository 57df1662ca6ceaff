#include "checkpoint/save_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/load_model.h"
#include "checkpoint/model_files.h"
#include "checkpoint/safetensors.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold::checkpoint {
namespace {

using program::Buffer;
using program::BufferRole;

/// A program's buffers and memory for them, each byte different from its neighbours.
struct Model {
  program::Program program;
  std::map<std::string, std::vector<std::byte>> memory;

  Model() { program.meshes = {Mesh{"all", {}, {program.rank}}}; }

  void add(const std::string& name, DType dtype, const Shape& shape,
           BufferRole role = BufferRole::parameter) {
    Buffer buffer;
    buffer.name = name;
    buffer.dtype = dtype;
    buffer.global = shape;
    buffer.role = role;
    buffer.size_bytes = shape.elements() * size_bytes(dtype);
    auto& bytes = memory[name];
    bytes.resize(static_cast<std::size_t>(buffer.size_bytes));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(i * 7 + name.size());
    program.buffers.push_back(buffer);
  }
  BufferBytes bytes_of() {
    return [this](const Buffer& buffer) { return std::span(memory.at(buffer.name)); };
  }
  void clear() {
    for (auto& [name, bytes] : memory) std::fill(bytes.begin(), bytes.end(), std::byte{0});
  }
};

Model small_model() {
  Model model;
  model.add("wte", DType::f32, Shape{5, 3});
  model.add("bias", DType::f64, Shape{4});
  model.add("wte.m", DType::f32, Shape{5, 3}, BufferRole::moment);
  model.add("logits", DType::f32, Shape{5}, BufferRole::output);
  return model;
}

TEST(SaveModel, parameters_round_trip_and_nothing_else_is_saved) {
  const TemporaryFolder folder;
  Model model = small_model();
  const auto saved = model.memory;
  save_model(folder.path(), model.program, model.bytes_of(), nullptr,
             {.metadata = {{"step", "7"}}});
  const auto file = SafetensorsFile::open(folder.file("model.safetensors"));
  EXPECT_EQ(file.header().tensors().size(), 2U);
  EXPECT_EQ(file.header().metadata(), (Metadata{{"format", "pt"}, {"step", "7"}}));
  model.clear();
  load_model(*open_model(*find_model(folder.path())), model.program, model.bytes_of());
  EXPECT_EQ(model.memory["wte"], saved.at("wte"));
  EXPECT_EQ(model.memory["bias"], saved.at("bias"));
  EXPECT_EQ(model.memory["wte.m"], std::vector<std::byte>(60));
}

TEST(LoadModel, all_differences_are_listed_in_one_error_and_nothing_is_touched) {
  const TemporaryFolder folder;
  Model model = small_model();
  model.add("same", DType::f32, Shape{2});
  save_model(folder.path(), model.program, model.bytes_of());
  Model other;
  other.add("wte", DType::f32, Shape{3, 5});
  other.add("bias", DType::f32, Shape{4});
  other.add("gain", DType::f32, Shape{3});
  other.add("same", DType::f32, Shape{2});
  other.clear();
  const auto message = user_error(ExitCode::no_checkpoint, [&] {
    load_model(*open_model(*find_model(folder.path())), other.program, other.bytes_of());
  });
  expect_words(message, {folder.file("model.safetensors"),
                         "wte: F32 [5, 3] in the file, the model has F32 [3, 5]",
                         "bias: F64 [4] in the file, the model has F32 [4]",
                         "gain: missing in the file, the model has F32 [3]"});
  EXPECT_EQ(message.find("same"), std::string::npos);
  EXPECT_EQ(other.memory["same"], std::vector<std::byte>(8));
}

TEST(LoadModel, a_tensor_that_the_model_lacks_is_named) {
  const TemporaryFolder folder;
  Model model = small_model();
  save_model(folder.path(), model.program, model.bytes_of());
  Model less;
  less.add("wte", DType::f32, Shape{5, 3});
  const auto message = user_error(ExitCode::no_checkpoint, [&] {
    load_model(*open_model(*find_model(folder.path())), less.program, less.bytes_of());
  });
  expect_words(message, {"\"bias\": F64 [4] in the file, the model has none of this name"});
}

TEST(SaveModel, a_rank_that_holds_only_a_part_of_a_parameter_is_a_bug) {
  const TemporaryFolder folder;
  Model model = small_model();
  model.memory["wte"].resize(20);
  EXPECT_THROW(save_model(folder.path(), model.program, model.bytes_of()), InternalError);
  EXPECT_EQ(folder.num_files(), 0U);
}

/// All tensors of the model of a folder, by name.
std::map<std::string, std::vector<std::byte>> tensors_in(const std::string& folder) {
  std::map<std::string, std::vector<std::byte>> tensors;
  const auto model = open_model(*find_model(folder));
  for (const StoredModel::Tensor& tensor : model->tensors())
    tensors[tensor.name] = model->read(tensor);
  return tensors;
}

TEST(SaveModel, a_model_that_is_too_large_for_a_file_gets_several_and_an_index) {
  const TemporaryFolder folder;
  Model model = small_model();
  save_model(folder.path(), model.program, model.bytes_of());
  const auto single = tensors_in(folder.path());
  const auto save_split = [&] {
    save_model(folder.path(), model.program, model.bytes_of(), nullptr,
               {.max_file_bytes = 60, .metadata = {{"step", "12"}}, .piece_bytes = 8});
  };
  save_split();
  EXPECT_EQ(
      list_model_files(folder.path()),
      (std::vector<std::string>{"model.safetensors.index.json", "model-00001-of-00002.safetensors",
                                "model-00002-of-00002.safetensors"}));
  EXPECT_EQ(tensors_in(folder.path()), single);
  EXPECT_EQ(step_of_model(*find_model(folder.path())), 12);
  const std::string first = read_file(folder.file("model-00001-of-00002.safetensors"));
  save_split();
  EXPECT_EQ(read_file(folder.file("model-00001-of-00002.safetensors")), first);
  save_model(folder.path(), model.program, model.bytes_of(), nullptr, {.piece_bytes = 1});
  EXPECT_EQ(list_model_files(folder.path()), std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(tensors_in(folder.path()), single);
}

}  // namespace
}  // namespace fourfold::checkpoint
