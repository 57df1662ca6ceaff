// Names, shapes and settings of Llama, Mistral, Qwen2 and Qwen3 on both sides.
#include "interop/llama.h"

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
#include "interop/import_model.h"
#include "model/llama.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold::interop {
namespace {

using checkpoint::ElementType;
using model::AttentionBias;
using model::LlamaSpec;
using model::RopeKind;

LlamaSpec small_llama() {
  LlamaSpec spec{.num_layers = 2,
                 .num_attention_heads = 6,
                 .num_key_value_heads = 2,
                 .head_dim = 4,
                 .hidden_size = 12,
                 .ffn_hidden_size = 10,
                 .max_position_embeddings = 16,
                 .vocab_size = 7};
  spec.rope.original_positions = 16;
  return spec;
}

std::vector<LlamaSpec> all_kinds_of_llama() {
  std::vector<LlamaSpec> all(6, small_llama());
  all[1].attention_bias = AttentionBias::qkv;
  all[2].attention_bias = AttentionBias::all;
  all[2].mlp_bias = true;
  all[2].tied_head = false;
  all[3].head_norm = true;
  all[3].tied_head = false;
  all[4].head_norm = true;
  all[4].attention_bias = AttentionBias::all;
  all[5].head_dim = 6;
  all[5].num_key_value_heads = 6;
  return all;
}

LlamaSpec llama_of(const HubModel& model) {
  return std::get<LlamaSpec>(model.spec);
}
LlamaSpec parsed(const std::string& members) {
  return llama_of(parse_hub_config("{" + members + "}", "config.json"));
}

/// The tensors by our names, every element a number of its own.
std::map<std::string, std::vector<float>> counted_tensors(const LlamaSpec& spec) {
  std::map<std::string, std::vector<float>> tensors;
  float next = 1;
  for (const HubTensor& tensor : llama_family().tensors(spec)) {
    std::vector<float>& values = tensors[tensor.ours];
    if (tensor.is_zero || !values.empty()) continue;
    values.resize(static_cast<std::size_t>(tensor.our_shape.elements()));
    for (float& value : values) value = next++;
  }
  std::erase_if(tensors, [](const auto& one) { return one.second.empty(); });
  return tensors;
}

std::unique_ptr<checkpoint::StoredModel> stored(const LlamaSpec& spec, const std::string& path) {
  const auto tensors = counted_tensors(spec);
  std::vector<checkpoint::TensorView> views;
  std::set<std::string> known;
  for (const HubTensor& tensor : llama_family().tensors(spec))
    if (tensors.contains(tensor.ours) && known.insert(tensor.ours).second)
      views.push_back({tensor.ours, DType::f32, tensor.our_shape,
                       std::as_bytes(std::span(tensors.at(tensor.ours)))});
  checkpoint::write_safetensors(path, views);
  return checkpoint::open_model_file(path);
}

std::vector<float> floats(checkpoint::StoredModel& model, const std::string& name) {
  const std::vector<std::byte> bytes = model.read(*model.find(name));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(LlamaTensors, they_are_all_parameters_of_the_model) {
  for (const LlamaSpec& spec : all_kinds_of_llama()) {
    std::int64_t expected = 0, theirs = 0, ours = 0;
    for (const auto& part : model::count_parameters(spec)) expected += part.parameters;
    std::set<std::string> names, our_names;
    for (const HubTensor& tensor : llama_family().tensors(spec)) {
      EXPECT_TRUE(names.insert(tensor.theirs).second) << tensor.theirs;
      if (our_names.insert(tensor.ours).second) ours += tensor.our_shape.elements();
      theirs += tensor.their_shape.elements();
    }
    EXPECT_EQ(theirs, expected);
    EXPECT_EQ(ours, expected);
    EXPECT_EQ(names.contains("lm_head.weight"), !spec.tied_head);
  }
}

// Shapes of transformers' Qwen3ForCausalLM.
TEST(LlamaTensors, shapes_are_those_of_linear_layers) {
  LlamaSpec spec = all_kinds_of_llama()[4];
  std::map<std::string, Shape> shapes;
  for (const HubTensor& tensor : llama_family().tensors(spec))
    shapes[tensor.theirs] = tensor.their_shape;
  const std::string layer = "model.layers.1.";
  EXPECT_EQ(shapes.at("model.embed_tokens.weight"), (Shape{7, 12}));
  EXPECT_EQ(shapes.at(layer + "self_attn.q_proj.weight"), (Shape{24, 12}));
  EXPECT_EQ(shapes.at(layer + "self_attn.k_proj.weight"), (Shape{8, 12}));
  EXPECT_EQ(shapes.at(layer + "self_attn.v_proj.bias"), (Shape{8}));
  EXPECT_EQ(shapes.at(layer + "self_attn.q_norm.weight"), (Shape{4}));
  EXPECT_EQ(shapes.at(layer + "self_attn.o_proj.weight"), (Shape{12, 24}));
  EXPECT_EQ(shapes.at(layer + "self_attn.o_proj.bias"), (Shape{12}));
  EXPECT_EQ(shapes.at(layer + "mlp.gate_proj.weight"), (Shape{10, 12}));
  EXPECT_EQ(shapes.at(layer + "mlp.down_proj.weight"), (Shape{12, 10}));
  EXPECT_EQ(shapes.at("model.norm.weight"), (Shape{12}));
}

TEST(LlamaTensors, heads_of_a_group_stand_before_its_key_and_its_value) {
  const LlamaSpec spec = small_llama();  // 2 groups of 3 heads of 4
  const Shape qkv = {12, 2, 5, 4};
  std::vector<float> ours(static_cast<std::size_t>(qkv.elements()));
  std::iota(ours.begin(), ours.end(), 0.0F);
  const auto bytes = std::as_bytes(std::span(ours));
  for (const HubTensor& tensor : llama_family().tensors(spec)) {
    if (tensor.ours != "blocks.0.attn.qkv.weight") continue;
    EXPECT_EQ(tensor.our_shape, qkv);
    const auto taken = taken_out(tensor, {bytes.begin(), bytes.end()}, sizeof(float));
    std::vector<float> theirs(taken.size() / sizeof(float));
    std::memcpy(theirs.data(), taken.data(), taken.size());
    const bool is_q = tensor.theirs.find("q_proj") != std::string::npos,
               is_k = tensor.theirs.find("k_proj") != std::string::npos;
    for (std::int64_t row = 0; row < tensor.their_shape[0]; ++row)
      for (std::int64_t in = 0; in < 12; ++in) {
        const std::int64_t head = row / 4, width = row % 4;
        const std::int64_t group = is_q ? head / 3 : head, place = is_q ? head % 3 : is_k ? 3 : 4;
        const std::int64_t expected = ((in * 2 + group) * 5 + place) * 4 + width;
        ASSERT_EQ(theirs[static_cast<std::size_t>(row * 12 + in)], static_cast<float>(expected))
            << tensor.theirs << " " << row << " " << in;
      }
  }
}

TEST(LlamaFiles, an_export_imports_with_the_same_bits) {
  const TemporaryFolder folder;
  int number = 0;
  for (const LlamaSpec& spec : all_kinds_of_llama())
    for (const std::int64_t max_file_bytes : {INT64_MAX, std::int64_t{500}}) {
      const std::string out = folder.file(format("hf-{}", ++number));
      make_directories(out);
      export_hub(*stored(spec, folder.file("ours")), spec,
                 {.untie = spec.tied_head, .max_file_bytes = max_file_bytes}, out);
      HubFolder imported = open_hub_folder(out);
      LlamaSpec expected = spec;
      expected.tied_head = false;
      EXPECT_EQ(llama_of(imported.model), expected) << number;
      import_hub(imported, folder.file("back"));
      const auto back = checkpoint::open_model_file(folder.file("back"));
      for (const auto& [name, values] : counted_tensors(spec))
        EXPECT_EQ(floats(*back, name), values) << name;
    }
}

TEST(LlamaFiles, a_bias_that_a_class_has_and_the_model_has_not_is_zero) {
  const TemporaryFolder folder;
  LlamaSpec spec = small_llama();
  spec.attention_bias = AttentionBias::qkv;
  spec.head_norm = true;
  EXPECT_TRUE(has_added_biases(spec));
  make_directories(folder.file("hf"));
  export_hub(*stored(spec, folder.file("ours")), spec, {}, folder.file("hf"));
  HubFolder imported = open_hub_folder(folder.file("hf"));
  EXPECT_EQ(llama_of(imported.model).attention_bias, AttentionBias::all);
  import_hub(imported, folder.file("back"));
  const auto back = checkpoint::open_model_file(folder.file("back"));
  EXPECT_EQ(floats(*back, "blocks.1.attn.out.bias"), std::vector<float>(12, 0));
  EXPECT_FALSE(has_added_biases(small_llama()));
}

TEST(LlamaFiles, what_no_class_computes_is_not_exported) {
  const TemporaryFolder folder;
  LlamaSpec spec = small_llama();
  spec.mlp_bias = spec.head_norm = true;
  const std::string both = user_error(ExitCode::bad_config, [&] {
    export_hub(*stored(spec, folder.file("ours")), spec, {}, folder.file("hf"));
  });
  expect_words(both, {"model.head_norm = true and model.mlp_bias = true", "--format safetensors"});
  spec = small_llama();
  spec.hidden_size = 14;
  const std::string uneven = user_error(ExitCode::bad_config, [&] {
    export_hub(*stored(spec, folder.file("ours")), spec, {}, folder.file("hf"));
  });
  expect_words(uneven, {"model.hidden_size = 14", "model.num_attention_heads = 6"});
}

TEST(LlamaFiles, all_differences_are_listed_in_one_error) {
  const TemporaryFolder folder;
  const LlamaSpec spec = small_llama();
  make_directories(folder.file("hf"));
  export_hub(*stored(spec, folder.file("ours")), spec, {}, folder.file("hf"));
  LlamaSpec other = spec;
  other.num_key_value_heads = 3;
  other.head_norm = true;
  other.ffn_hidden_size = 11;
  write_file_atomic(folder.file("hf/config.json"), llama_family().config(other, {}).dump());
  expect_words(
      user_error(ExitCode::no_checkpoint, [&] { open_hub_folder(folder.file("hf")); }),
      {"\"model.layers.0.self_attn.k_proj.weight\": [8, 12], config.json asks for [12, 12]",
       "model.layers.1.self_attn.q_norm.weight: missing, config.json asks for [4]",
       "\"model.layers.1.mlp.up_proj.weight\": [10, 12], config.json asks for [11, 12]"});
  other = spec;
  other.num_layers = 1;
  write_file_atomic(folder.file("hf/config.json"), llama_family().config(other, {}).dump());
  expect_words(user_error(ExitCode::no_checkpoint, [&] { open_hub_folder(folder.file("hf")); }),
               {"\"model.layers.1.input_layernorm.weight\": [12], a Llama has none of this name"});
}

TEST(LlamaConfig, a_configuration_reads_back) {
  for (LlamaSpec spec : all_kinds_of_llama())
    for (const RopeKind kind :
         {RopeKind::plain, RopeKind::linear, RopeKind::llama3, RopeKind::yarn}) {
      spec.rope = {.kind = kind, .theta = 5e5, .original_positions = 16};
      spec.layer_norm_epsilon = 1e-6;
      if (kind != RopeKind::plain) spec.rope.factor = 4;
      if (kind == RopeKind::llama3) spec.rope.high_freq_factor = 8;
      if (kind != RopeKind::plain && kind != RopeKind::linear) spec.rope.original_positions = 8;
      if (kind == RopeKind::yarn) {
        spec.rope.beta_fast = 20;
        spec.rope.attention_factor = 1.25;
        spec.rope.truncate = false;
      }
      const HubModel read = parse_hub_config(llama_family().config(spec, {}).dump(), "config.json");
      EXPECT_EQ(llama_of(read), spec);
      EXPECT_TRUE(read.notes.empty());
    }
}

TEST(LlamaConfig, the_class_is_the_first_that_computes_the_model) {
  std::vector<std::string> types;
  for (const LlamaSpec& spec : all_kinds_of_llama())
    types.emplace_back(llama_family().class_of(spec).model_type);
  EXPECT_EQ(types,
            (std::vector<std::string>{"llama", "qwen2", "llama", "qwen3", "qwen3", "llama"}));
}

TEST(LlamaConfig, what_is_left_out_has_the_values_of_transformers) {
  const LlamaSpec llama = parsed(R"("model_type":"llama")");
  EXPECT_EQ(llama.hidden_size, 4096);
  EXPECT_EQ(llama.ffn_hidden_size, 11008);
  EXPECT_EQ(llama.num_key_value_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_EQ(llama.rope.theta, 10000);
  EXPECT_FALSE(llama.tied_head);
  const LlamaSpec mistral = parsed(R"("model_type":"mistral","sliding_window":null)");
  EXPECT_EQ(mistral.num_key_value_heads, 8);
  EXPECT_EQ(mistral.ffn_hidden_size, 14336);
  EXPECT_EQ(parsed(R"("model_type":"qwen2")").attention_bias, AttentionBias::qkv);
  const LlamaSpec qwen3 = parsed(R"("model_type":"qwen3","hidden_size":1024)");
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_TRUE(qwen3.head_norm);
  EXPECT_EQ(qwen3.attention_bias, AttentionBias::none);
  EXPECT_EQ(parsed(R"("architectures":["Qwen2ForCausalLM"])").vocab_size, 151936);
  EXPECT_EQ(parsed(R"("model_type":"mistral","sliding_window":null,"num_key_value_heads":null)")
                .num_key_value_heads,
            32);
}

TEST(LlamaConfig, rotary_positions_read_as_transformers_4_and_5_write_them) {
  const std::string kind = R"("rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,)"
                           R"("high_freq_factor":4.0,"original_max_position_embeddings":8192)",
                    model = R"("model_type":"llama","max_position_embeddings":131072,)";
  const LlamaSpec four = parsed(model + R"("rope_theta":500000.0,"rope_scaling":{)" + kind + "}");
  const LlamaSpec five =
      parsed(model + R"("rope_parameters":{"rope_theta":500000.0,)" + kind + "}");
  EXPECT_EQ(four, five);
  EXPECT_EQ(four.rope.kind, RopeKind::llama3);
  EXPECT_EQ(four.rope.theta, 500000);
  EXPECT_EQ(four.rope.original_positions, 8192);
  const LlamaSpec yarn =
      parsed(R"("model_type":"qwen2","rope_scaling":{"type":"yarn","factor":4.0,)"
             R"("original_max_position_embeddings":32768,"mscale":1.0,"mscale_all_dim":1.0})");
  EXPECT_EQ(yarn.rope.kind, RopeKind::yarn);
  EXPECT_DOUBLE_EQ(yarn.rope.attention_factor, 1);
  const LlamaSpec ratio = parsed(
      R"("model_type":"qwen2","max_position_embeddings":32768,"rope_parameters":{"rope_type":)"
      R"("yarn","factor":null,"original_max_position_embeddings":8192})");
  EXPECT_EQ(ratio.rope.factor, 4);
  EXPECT_EQ(parsed(R"("model_type":"llama","rope_parameters":{"rope_type":"default"},)"
                   R"("rope_theta":7.5)")
                .rope.theta,
            7.5);
}

TEST(LlamaConfig, a_window_that_binds_nothing_is_none) {
  for (const char* members :
       {R"("model_type":"mistral","sliding_window":4096,"max_position_embeddings":4096)",
        R"("model_type":"mistral","max_position_embeddings":2048)",
        R"("model_type":"qwen2","sliding_window":128,"use_sliding_window":false)",
        R"("model_type":"qwen2","sliding_window":128,"use_sliding_window":true,)"
        R"("num_hidden_layers":24,"max_window_layers":24)",
        R"("model_type":"qwen3","sliding_window":128,"use_sliding_window":true,)"
        R"("num_hidden_layers":1,"layer_types":["full_attention"])",
        R"("model_type":"llama","sliding_window":128)"})
    EXPECT_NO_THROW(parsed(members)) << members;
}

TEST(LlamaConfig, what_computes_something_else_is_refused_with_its_key) {
  struct Case {
    std::string type, members, expected;
  };
  const std::string original = R"("original_max_position_embeddings":64)";
  for (const Case& c : std::vector<Case>{
           {"mixtral", "", "model_type = \"mixtral\": expected \"gpt2\", \"llama\""},
           {"qwen3_moe", "", "model_type = \"qwen3_moe\""},
           {"gemma", "", "model_type = \"gemma\""},
           {"llama", R"("hidden_act":"gelu")", "hidden_act = \"gelu\": expected \"silu\""},
           {"llama", R"("quantization_config":{"quant_method":"gptq"})", "quantization_config"},
           {"llama", R"("num_experts":8)", "num_experts = 8: expected no experts"},
           {"llama", R"("num_local_experts":8)", "num_local_experts = 8"},
           {"llama", R"("num_key_value_heads":5)",
            "num_key_value_heads = 5: does not divide num_attention_heads = 32; expected one of 1, "
            "2, 4, 8, 16, 32"},
           {"llama", R"("num_key_value_heads":0)", "num_key_value_heads = 0"},
           {"llama", R"("head_dim":65)", "head_dim = 65: is odd"},
           {"llama", R"("head_dim":1000000)", "head_dim = 1000000: 32 heads of this width"},
           {"llama", R"("hidden_size":96)", "head_dim = 3: is odd"},
           {"llama", R"("hidden_size":0)", "hidden_size = 0"},
           {"llama", R"("vocab_size":"many")", "vocab_size = \"many\""},
           {"llama", R"("rms_norm_eps":-1)", "rms_norm_eps = -1"},
           {"llama", R"("attention_bias":"yes")", "attention_bias = \"yes\""},
           {"llama", R"("mlp_bias":1)", "mlp_bias = 1"},
           {"llama", R"("tie_word_embeddings":2)", "tie_word_embeddings = 2"},
           {"llama", R"("partial_rotary_factor":0.5)", "partial_rotary_factor = 0.5: expected 1"},
           {"llama", R"("rope_parameters":{"rope_type":"default","partial_rotary_factor":0.5})",
            "rope_parameters.partial_rotary_factor = 0.5"},
           {"llama", R"("rope_theta":1)", "rope_theta = 1"},
           {"llama", R"("rope_theta":"large")", "rope_theta = \"large\""},
           {"llama", R"("rope_scaling":"linear")", "rope_scaling = \"linear\": expected an object"},
           {"llama", R"("rope_scaling":{"type":"dynamic","factor":2})",
            "rope_scaling.rope_type = \"dynamic\": expected \"default\""},
           {"llama", R"("rope_parameters":{"rope_type":"longrope","short_factor":[1]})",
            "rope_parameters.rope_type = \"longrope\""},
           {"llama", R"("rope_scaling":{"type":"linear"})", "rope_scaling.factor = null"},
           {"llama", R"("rope_scaling":{"type":"linear","factor":0.5})",
            "rope_scaling.factor = 0.5: expected at least 1"},
           {"llama", R"("rope_scaling":{"type":"linear","factor":2,"beta":1})",
            "rope_scaling.beta = 1: rotary positions of kind \"linear\" have no such key"},
           {"llama", R"("rope_parameters":{"rope_type":"default","factor":2})",
            "rope_parameters.factor = 2"},
           {"llama", R"("rope_parameters":{"full_attention":{"rope_type":"default"}})",
            "rope_parameters.full_attention"},
           {"llama",
            R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,)" + original +
                "}",
            "rope_scaling.high_freq_factor = null"},
           {"llama",
            R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,)"
            R"("high_freq_factor":4,)" +
                original + "}",
            "rope_scaling.low_freq_factor = 4"},
           {"llama", R"("rope_scaling":{"type":"yarn","factor":2,"beta_fast":1,"beta_slow":2})",
            "rope_scaling.beta_slow = 2"},
           {"mistral", "",
            "sliding_window = 4096: expected null, or at least "
            "max_position_embeddings = 131072"},
           {"mistral", R"("sliding_window":1024)", "sliding_window = 1024"},
           {"mistral", R"("sliding_window":-1)", "sliding_window = -1"},
           {"qwen2", R"("use_sliding_window":true,"sliding_window":1024)", "sliding_window = 1024"},
           {"qwen2", R"("use_sliding_window":true,"sliding_window":1024,"max_window_layers":0)",
            "sliding_window = 1024"},
           {"qwen3",
            R"("use_sliding_window":true,"sliding_window":64,"num_hidden_layers":2,)"
            R"("layer_types":["full_attention","sliding_attention"])",
            "sliding_window = 64"}}) {
    const std::string text =
        format("{{\"model_type\":\"{}\"{}{}}}", c.type, c.members.empty() ? "" : ",", c.members);
    const std::string message =
        user_error(ExitCode::no_checkpoint, [&] { parse_hub_config(text, "config.json"); });
    EXPECT_EQ(message.find("config.json: "), 0U) << message;
    EXPECT_NE(message.find(c.expected), std::string::npos) << c.expected << "\n" << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(LlamaConfig, dropout_of_attention_is_noted) {
  const HubModel read =
      parse_hub_config(R"({"model_type":"llama","attention_dropout":0.1})", "config.json");
  ASSERT_EQ(read.notes.size(), 1U);
  EXPECT_NE(read.notes[0].find("attention_dropout = 0.1"), std::string::npos);
}

TEST(LlamaConfig, all_problems_are_told_together) {
  expect_words(
      user_error(ExitCode::no_checkpoint,
                 [] {
                   parse_hub_config(R"({"model_type":"llama","num_hidden_layers":0,)"
                                    R"("rope_scaling":{"type":"linear","factor":0.5,"beta":1}})",
                                    "c");
                 }),
      {"c: num_hidden_layers = 0", "\nc: rope_scaling.beta = 1", "\nc: rope_scaling.factor = 0.5"});
}

// A new key of model.* needs a decision: what the classes of transformers do about it.
TEST(LlamaConfig, every_key_of_a_model_is_known_here) {
  std::set<std::string> keys;
  for (const config::Key& key : config::keys())
    if (key.path.starts_with("model.") && std::ranges::count(key.kinds, model::Kind::llama) > 0)
      keys.insert(key.path.substr(6));
  EXPECT_EQ(keys, (std::set<std::string>{"num_layers",
                                         "num_attention_heads",
                                         "num_key_value_heads",
                                         "head_dim",
                                         "hidden_size",
                                         "ffn_hidden_size",
                                         "max_position_embeddings",
                                         "vocab_size",
                                         "attention_bias",
                                         "mlp_bias",
                                         "head_norm",
                                         "tied_head",
                                         "layer_norm_epsilon",
                                         "init_stddev",
                                         "rope.theta",
                                         "rope.kind",
                                         "rope.factor",
                                         "rope.original_positions",
                                         "rope.low_freq_factor",
                                         "rope.high_freq_factor",
                                         "rope.beta_fast",
                                         "rope.beta_slow",
                                         "rope.attention_factor",
                                         "rope.truncate"}));
}

}  // namespace
}  // namespace fourfold::interop
