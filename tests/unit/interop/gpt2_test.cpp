// Names, shapes and settings of GPT-2 on both sides.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "base/file.h"
#include "base/format.h"
#include "checkpoint/safetensors.h"
#include "config/schema.h"
#include "interop/export_model.h"
#include "interop/gpt2.h"
#include "interop/import_model.h"
#include "model/gpt.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold::interop {
namespace {

using checkpoint::ElementType;

std::vector<HubTensor> gpt2_tensors(const model::GptSpec& spec) {
  return gpt2_family().tensors(spec);
}
Json gpt2_config(const model::GptSpec& spec, const HubExtras& extras) {
  return gpt2_family().config(spec, extras);
}
model::GptSpec gpt_of(const HubModel& model) {
  return std::get<model::GptSpec>(model.spec);
}

model::GptSpec small_gpt() {
  return {.num_layers = 2,
          .num_attention_heads = 2,
          .hidden_size = 6,
          .ffn_hidden_size = 10,
          .max_position_embeddings = 5,
          .vocab_size = 7};
}

/// A model of which every element of every tensor is different.
class CountedModel {
 public:
  explicit CountedModel(const model::GptSpec& spec, ElementType dtype = DType::f32) {
    double next = 1;
    for (const HubTensor& tensor : gpt2_tensors(spec)) {
      if (tensor.is_zero) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor.our_shape.elements()));
      for (float& value : values) value = static_cast<float>(next++);
      auto& bytes = bytes_[tensor.ours];
      bytes.resize(values.size() * static_cast<std::size_t>(checkpoint::size_bytes(dtype)));
      convert_elements(std::as_bytes(std::span(values)), DType::f32, bytes, dtype);
      views_.push_back({tensor.ours, dtype, tensor.our_shape, bytes});
    }
  }
  std::unique_ptr<checkpoint::StoredModel> stored(const std::string& path) const {
    checkpoint::write_safetensors(path, views_);
    return checkpoint::open_model_file(path);
  }
  const std::vector<std::byte>& bytes(const std::string& name) const { return bytes_.at(name); }
  std::vector<checkpoint::TensorView>& views() { return views_; }

 private:
  std::map<std::string, std::vector<std::byte>> bytes_;
  std::vector<checkpoint::TensorView> views_;
};

TEST(Gpt2Tensors, they_are_all_parameters_of_the_model) {
  for (const bool tied : {true, false}) {
    model::GptSpec spec = small_gpt();
    spec.tied_head = tied;
    std::int64_t expected = 0, ours = 0, theirs = 0;
    for (const auto& part : model::count_parameters(spec)) expected += part.parameters;
    std::set<std::string> names;
    for (const HubTensor& tensor : gpt2_tensors(spec)) {
      ours += tensor.our_shape.elements();
      theirs += tensor.their_shape.elements();
      names.insert(tensor.theirs);
    }
    EXPECT_EQ(ours, expected);
    EXPECT_EQ(theirs, expected);
    EXPECT_EQ(names.size(), gpt2_tensors(spec).size());
    EXPECT_EQ(names.contains("lm_head.weight"), !tied);
  }
}

// Shapes of transformers' GPT2LMHeadModel.
TEST(Gpt2Tensors, shapes_are_those_of_conv1d) {
  std::map<std::string, Shape> shapes;
  for (const HubTensor& tensor : gpt2_tensors(small_gpt()))
    shapes[tensor.theirs] = tensor.their_shape;
  EXPECT_EQ(shapes.at("transformer.wte.weight"), (Shape{7, 6}));
  EXPECT_EQ(shapes.at("transformer.wpe.weight"), (Shape{5, 6}));
  EXPECT_EQ(shapes.at("transformer.h.1.attn.c_attn.weight"), (Shape{6, 18}));
  EXPECT_EQ(shapes.at("transformer.h.1.attn.c_attn.bias"), (Shape{18}));
  EXPECT_EQ(shapes.at("transformer.h.0.attn.c_proj.weight"), (Shape{6, 6}));
  EXPECT_EQ(shapes.at("transformer.h.0.mlp.c_fc.weight"), (Shape{6, 10}));
  EXPECT_EQ(shapes.at("transformer.h.0.mlp.c_proj.weight"), (Shape{10, 6}));
  EXPECT_EQ(shapes.at("transformer.h.0.ln_2.bias"), (Shape{6}));
  EXPECT_EQ(shapes.at("transformer.ln_f.weight"), (Shape{6}));
}

TEST(Gpt2Tensors, masks_are_told_from_parameters) {
  for (const char* mask : {"h.0.attn.bias", "transformer.h.11.attn.masked_bias"})
    EXPECT_TRUE(gpt2_family().is_left_aside(without_prefix(gpt2_family(), mask))) << mask;
  for (const char* other : {"h.0.attn.c_attn.bias", "h.x.attn.bias", "attn.bias", "h.0.ln_1.bias",
                            "h..attn.bias", "wte.weight", "h.0"})
    EXPECT_FALSE(gpt2_family().is_left_aside(without_prefix(gpt2_family(), other))) << other;
}

TEST(Gpt2Config, a_configuration_reads_back) {
  model::GptSpec spec = small_gpt();
  spec.dropout = 0.25;
  spec.layer_norm_epsilon = 1e-6;
  spec.init_stddev = 0.01;
  for (const bool tied : {true, false}) {
    spec.tied_head = tied;
    const HubModel read = parse_hub_config(gpt2_config(spec, {}).dump(), "config.json");
    EXPECT_EQ(gpt_of(read), spec);
    EXPECT_TRUE(read.notes.empty());
  }
}

TEST(Gpt2Config, the_beginning_and_the_end_of_a_text_are_written_apart) {
  const Json both = gpt2_config(small_gpt(), {DType::f32, 7, 3});
  EXPECT_EQ(both.find("eos_token_id")->as_integer(), 7);
  EXPECT_EQ(both.find("bos_token_id")->as_integer(), 3);
  const Json none = gpt2_config(small_gpt(), {});
  for (const char* key : {"bos_token_id", "eos_token_id"})
    EXPECT_EQ(none.find(key)->kind(), Json::Kind::null);
}

TEST(Gpt2Config, what_is_left_out_has_the_values_of_transformers) {
  const model::GptSpec spec = gpt_of(parse_hub_config(R"({"model_type":"gpt2"})", "config.json"));
  EXPECT_EQ(spec.num_layers, 12);
  EXPECT_EQ(spec.hidden_size, 768);
  EXPECT_EQ(spec.ffn_hidden_size, 3072);
  EXPECT_EQ(spec.vocab_size, 50257);
  EXPECT_EQ(spec.max_position_embeddings, 1024);
  EXPECT_EQ(spec.dropout, 0.1);
  EXPECT_TRUE(spec.tied_head);
  // The other names of the same keys, and null for the default.
  const model::GptSpec other = gpt_of(parse_hub_config(
      R"({"architectures":["GPT2LMHeadModel"],"hidden_size":64,"num_hidden_layers":3,
          "num_attention_heads":4,"max_position_embeddings":32,"n_inner":null})",
      "config.json"));
  EXPECT_EQ(other.hidden_size, 64);
  EXPECT_EQ(other.num_layers, 3);
  EXPECT_EQ(other.num_attention_heads, 4);
  EXPECT_EQ(other.max_position_embeddings, 32);
  EXPECT_EQ(other.ffn_hidden_size, 256);
}

TEST(Gpt2Config, rates_of_dropout_that_differ_are_noted) {
  const auto read = parse_hub_config(R"({"model_type":"gpt2","attn_pdrop":0})", "config.json");
  EXPECT_EQ(gpt_of(read).dropout, 0.1);
  ASSERT_EQ(read.notes.size(), 1U);
  EXPECT_NE(read.notes[0].find("attn_pdrop = 0"), std::string::npos);
}

TEST(Gpt2Config, what_is_not_gpt2_is_refused_with_its_key) {
  struct Case {
    std::string members, expected;
  };
  for (const Case& c : std::vector<Case>{
           {R"("model_type":"gpt3")", "model_type = \"gpt3\""},
           {R"("vocab_size":3)", "model_type = null"},
           {R"("model_type":"gpt2","activation_function":"relu")", "activation_function"},
           {R"("model_type":"gpt2","scale_attn_weights":false)", "scale_attn_weights = false"},
           {R"("model_type":"gpt2","scale_attn_by_inverse_layer_idx":true)",
            "scale_attn_by_inverse_layer_idx = true"},
           {R"("model_type":"gpt2","add_cross_attention":true)", "add_cross_attention = true"},
           {R"("model_type":"gpt2","quantization_config":{"bits":4})", "quantization_config"},
           {R"("model_type":"gpt2","pruned_heads":{"0":[1]})", "pruned_heads"},
           {R"("model_type":"gpt2","n_embd":0)", "n_embd = 0"},
           {R"("model_type":"gpt2","n_embd":7.5)", "n_embd = 7.5"},
           {R"("model_type":"gpt2","n_layer":1000000000000)", "n_layer"},
           {R"("model_type":"gpt2","n_head":5)", "n_head = 5: does not divide n_embd = 768"},
           {R"("model_type":"gpt2","n_inner":"wide")", "n_inner = \"wide\""},
           {R"("model_type":"gpt2","layer_norm_epsilon":-1)", "layer_norm_epsilon = -1"},
           {R"("model_type":"gpt2","resid_pdrop":1)", "resid_pdrop = 1"},
           {R"("model_type":"gpt2","tie_word_embeddings":"yes")", "tie_word_embeddings"}}) {
    const std::string message = user_error(
        ExitCode::no_checkpoint, [&] { parse_hub_config("{" + c.members + "}", "config.json"); });
    EXPECT_EQ(message.find("config.json: "), 0U) << message;
    EXPECT_NE(message.find(c.expected), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Gpt2Config, all_problems_are_told_together) {
  const std::string message = user_error(ExitCode::no_checkpoint, [] {
    parse_hub_config(R"({"model_type":"gpt2","n_layer":0,"scale_attn_weights":false})", "c");
  });
  expect_words(message, {"c: n_layer = 0", "\nc: scale_attn_weights = false"});
}

// A new key of model.* needs a decision: what GPT-2 does about it.
TEST(Gpt2Config, every_key_of_a_model_is_known_here) {
  std::set<std::string> keys;
  for (const config::Key& key : config::keys())
    if (key.path.starts_with("model.")) keys.insert(key.path);
  // Those of a Llama are decided about in llama_test.cpp.
  std::erase_if(keys, [](const std::string& path) {
    const auto& kinds = config::find_key(path)->kinds;
    return !kinds.empty() && std::ranges::count(kinds, model::Kind::gpt) == 0;
  });
  EXPECT_EQ(keys, (std::set<std::string>{
                      "model.kind", "model.num_layers", "model.num_attention_heads",
                      "model.hidden_size", "model.ffn_hidden_size", "model.max_position_embeddings",
                      "model.vocab_size", "model.dropout", "model.bias", "model.tied_head",
                      "model.layer_norm_epsilon", "model.init_stddev"}));
}

TEST(Gpt2Files, an_export_imports_with_the_same_bits) {
  const TemporaryFolder folder;
  for (const bool tied : {true, false})
    for (const std::int64_t max_file_bytes : {INT64_MAX, std::int64_t{600}, std::int64_t{1}}) {
      model::GptSpec spec = small_gpt();
      spec.tied_head = tied;
      const CountedModel counted(spec);
      const std::string out = folder.file(format("hf-{}-{}", tied, max_file_bytes));
      make_directories(out);
      const auto stored = counted.stored(folder.file("ours"));
      export_hub(*stored, spec, {.untie = tied, .max_file_bytes = max_file_bytes}, out);
      EXPECT_EQ(file_exists(out + "/model.safetensors.index.json"), max_file_bytes != INT64_MAX);
      HubFolder imported = open_hub_folder(out);
      model::GptSpec expected = spec;
      expected.tied_head = false;  // --untie
      EXPECT_EQ(gpt_of(imported.model), expected);
      import_hub(imported, folder.file("back"));
      const auto back = checkpoint::open_model_file(folder.file("back"));
      for (const HubTensor& tensor : gpt2_tensors(spec))
        EXPECT_EQ(back->read(*back->find(tensor.ours)), counted.bytes(tensor.ours)) << tensor.ours;
    }
}

TEST(Gpt2Files, fewer_bits_are_rounded_and_what_they_cannot_hold_is_refused) {
  const TemporaryFolder folder;
  CountedModel counted(small_gpt());
  make_directories(folder.file("half"));
  auto stored = counted.stored(folder.file("ours"));
  export_hub(*stored, small_gpt(), {.dtype = ElementType::Kind::f16}, folder.file("half"));
  const auto half = checkpoint::open_model_file(folder.file("half/model.safetensors"));
  EXPECT_EQ(half->find("transformer.wte.weight")->dtype, ElementType(ElementType::Kind::f16));
  const auto bytes = half->read(*half->find("transformer.wte.weight"));
  std::uint16_t last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - 2, 2);
  EXPECT_EQ(checkpoint::from_half(last), 42);

  std::vector<float> large(42, 1e6F);
  counted.views()[0].bytes = std::as_bytes(std::span(large));
  stored = counted.stored(folder.file("large"));
  const std::string message = user_error(ExitCode::bad_config, [&] {
    export_hub(*stored, small_gpt(), {.dtype = ElementType::Kind::f16}, folder.file("half"));
  });
  expect_words(message, {"wte.weight: 42 of its values are too large for F16", "--dtype bf16"});
}

TEST(Gpt2Files, biases_that_a_model_has_not_are_zeros) {
  const TemporaryFolder folder;
  model::GptSpec spec = small_gpt();
  spec.bias = false;
  const CountedModel counted(spec);
  make_directories(folder.file("hf"));
  export_hub(*counted.stored(folder.file("ours")), spec, {}, folder.file("hf"));
  HubFolder imported = open_hub_folder(folder.file("hf"));
  EXPECT_EQ(gpt_of(imported.model), small_gpt());
  import_hub(imported, folder.file("back"));
  const auto back = checkpoint::open_model_file(folder.file("back"));
  int zeros = 0;
  for (const HubTensor& tensor : gpt2_tensors(spec)) {
    const std::vector<std::byte> bytes = back->read(*back->find(tensor.ours));
    EXPECT_EQ(tensor.is_zero, tensor.ours.ends_with(".bias"));
    if (tensor.is_zero)
      EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size())) << tensor.ours;
    else
      EXPECT_EQ(bytes, counted.bytes(tensor.ours)) << tensor.ours;
    zeros += tensor.is_zero;
  }
  EXPECT_EQ(zeros, 6 * 2 + 1);
  // A bias that is there after all does not fit the configuration.
  const auto biased = CountedModel(small_gpt()).stored(folder.file("biased"));
  const std::string message = user_error(ExitCode::no_checkpoint,
                                         [&] { export_hub(*biased, spec, {}, folder.file("hf")); });
  expect_words(message, {"ln_f.bias", "none of this name"});
}

class Gpt2Import : public testing::Test {
 protected:
  void SetUp() override {
    make_directories(dir());
    write_file_atomic(dir() + "/config.json", gpt2_config(small_gpt(), {}).dump());
  }
  std::string dir() const { return folder_.file("hf"); }
  /// Their names, as `change` makes them.
  template <class Change>
  void write(Change change) {
    CountedModel counted(small_gpt());
    std::vector<checkpoint::TensorView> views;
    const auto tensors = gpt2_tensors(small_gpt());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      views.push_back(
          {tensors[i].theirs, DType::f32, tensors[i].their_shape, counted.views()[i].bytes});
    change(views);
    checkpoint::write_safetensors(dir() + "/model.safetensors", views);
  }
  std::string error() {
    return user_error(ExitCode::no_checkpoint, [&] { open_hub_folder(dir()); });
  }

  TemporaryFolder folder_;
};

TEST_F(Gpt2Import, names_may_lack_the_prefix_and_masks_are_left_aside) {
  const std::vector<float> mask(25, 1);
  write([&](auto& views) {
    for (auto& view : views) view.name = without_prefix(gpt2_family(), view.name);
    views.push_back(
        {"h.0.attn.bias", DType::f32, Shape{1, 1, 5, 5}, std::as_bytes(std::span(mask))});
    views.push_back(
        {"h.1.attn.masked_bias", DType::f32, Shape{}, std::as_bytes(std::span(mask)).first(4)});
  });
  HubFolder folder = open_hub_folder(dir());
  import_hub(folder, folder_.file("ours"));
  const auto ours = checkpoint::open_model_file(folder_.file("ours"));
  EXPECT_EQ(ours->tensors().size(), gpt2_tensors(small_gpt()).size());
  EXPECT_EQ(ours->read(*ours->find("blocks.1.attn.qkv.weight")),
            CountedModel(small_gpt()).bytes("blocks.1.attn.qkv.weight"));
}

TEST_F(Gpt2Import, all_differences_are_listed_in_one_error) {
  const std::vector<float> more(4, 1);
  write([&](auto& views) {
    views[0].shape = Shape{6, 7};
    std::swap(views[1], views.back());
    views.pop_back();
    views.push_back({"extra", DType::f32, Shape{4}, std::as_bytes(std::span(more))});
  });
  expect_words(error(), {"\"transformer.wte.weight\": [6, 7], config.json asks for [7, 6]",
                         "transformer.wpe.weight: missing, config.json asks for [5, 6]",
                         "\"extra\": [4], a GPT-2 has none of this name"});
}

TEST_F(Gpt2Import, a_tied_head_may_be_there_if_it_is_the_embedding) {
  write([](auto& views) {
    views.push_back({"lm_head.weight", DType::f32, Shape{7, 6}, views[0].bytes});
  });
  EXPECT_TRUE(gpt_of(open_hub_folder(dir()).model).tied_head);
  const std::vector<float> other(42, 3);
  write([&](auto& views) {
    views.push_back({"lm_head.weight", DType::f32, Shape{7, 6}, std::as_bytes(std::span(other))});
  });
  expect_words(error(), {"lm_head.weight is not wte.weight", "tie_word_embeddings"});
}

TEST_F(Gpt2Import, an_index_must_fit_its_files) {
  write([](auto&) {});
  std::filesystem::rename(dir() + "/model.safetensors", dir() + "/a.safetensors");
  const std::string index = dir() + "/model.safetensors.index.json";
  const auto with = [&](const std::string& text) {
    write_bytes(index, text);
    return error();
  };
  expect_words(with("{"), {"index.json:1:"});
  expect_words(with("[]"), {"weight_map"});
  expect_words(with(R"({"weight_map":{}})"), {"weight_map"});
  expect_words(with(R"({"weight_map":{"a":7}})"), {"\"a\" = 7"});
  expect_words(with(R"({"weight_map":{"a":"../b"}})"), {"\"../b\"", "beside the index"});
  expect_words(with(R"({"weight_map":{"a":"b"}})"), {"hf/b", "cannot be read"});
  expect_words(with(R"({"weight_map":{"a":"a.safetensors"}})"),
               {"\"a\": not in a.safetensors", "transformer.wte.weight", "not in the index"});
}

TEST_F(Gpt2Import, files_that_are_missing_are_named) {
  expect_words(error(), {"holds neither model.safetensors nor"});
  write_bytes(dir() + "/pytorch_model.bin", "x");
  expect_words(error(), {"safe_serialization"});
  std::filesystem::remove(dir() + "/config.json");
  expect_words(error(), {"config.json", "cannot be read"});
}

TEST(Transpose, rows_become_columns_beyond_one_tile) {
  const Shape shape{70, 131};
  std::vector<std::uint16_t> values(70 * 131);
  std::iota(values.begin(), values.end(), std::uint16_t{0});
  const auto bytes = std::as_bytes(std::span(values));
  const auto turned = transposed({bytes.begin(), bytes.end()}, shape, 2);
  for (std::size_t row = 0; row < 70; ++row)
    for (std::size_t column = 0; column < 131; ++column) {
      std::uint16_t got = 0;
      std::memcpy(&got, turned.data() + (column * 70 + row) * 2, 2);
      ASSERT_EQ(got, values[row * 131 + column]);
    }
}

}  // namespace
}  // namespace fourfold::interop
