// Keys in words, templates, and the schema for editors.
#include "config/explain.h"

#include <cmath>
#include <cstdlib>

#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "config/json_schema.h"
#include "config/schema.h"
#include "config/suggest.h"
#include "config/template.h"
#include "model/model.h"
#include "unit/config/scratch.h"

namespace fourfold::config {
namespace {

TEST(Explain, a_key_says_all_that_the_table_says) {
  for (const Key& key : keys()) {
    std::string text = explain(key.path), flat;
    for (const std::string& word : split(text, ' '))
      if (!trim(word).empty()) flat += (flat.empty() ? "" : " ") + std::string(trim(word));
    for (const std::string& part :
         {key.path, key.meaning, key.cost, type_words(key), default_words(key), key.unit})
      for (const std::string& word : split(part, ' '))
        EXPECT_NE(text.find(word), std::string::npos) << part << "\n" << text;
    for (const std::string& line : split(text, '\n')) EXPECT_LE(line.size(), 130U) << line;
    const std::string section(section_of(key.path));
    if (!section.empty()) {
      EXPECT_NE(explain(section).find(key.meaning.substr(0, 20)), std::string::npos);
    }
    EXPECT_NE(explain("").find(key.path), std::string::npos);
  }
  EXPECT_NE(explain("extends").find("extends: base.yaml"), std::string::npos);
}

TEST(Explain, every_example_is_a_good_value) {
  for (const Key& key : keys()) {
    EXPECT_FALSE(key.example.empty() && key.fallback.empty()) << key.path << " needs an example";
    // Relations to other keys may be broken by it, but neither type nor bounds.
    const std::string report =
        problems_of("data: {path: x}\n",
                    {format("{}={}", key.path, key.example.empty() ? key.fallback : key.example)});
    EXPECT_EQ(report.find("expected"), std::string::npos) << report;
    EXPECT_EQ(report.find("unknown"), std::string::npos) << report;
    // As written in a file.
    const std::string text = explain(key.path);
    const auto begin = text.find("in a file") + 11;
    const std::string line = text.substr(begin, text.find('\n', begin) - begin);
    const std::string other = key.path.starts_with("data.") ? "" : "\ndata: {path: x}\n";
    const std::string in_file = problems_of(line + other);
    EXPECT_EQ(in_file.find("expected"), std::string::npos) << line << "\n" << in_file;
    EXPECT_EQ(in_file.find("unknown"), std::string::npos) << line << "\n" << in_file;
  }
}

TEST(Explain, an_unknown_key_suggests_one) {
  try {
    explain("model.n_layer");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_STREQ(error.what(), "unknown key 'model.n_layer'; did you mean 'model.num_layers'?");
  }
}

TEST(Explain, the_page_of_keys_is_up_to_date) {
  const std::string path = std::string(FOURFOLD_SOURCE_DIR) + "/configs/KEYS.md";
  if (std::getenv("FOURFOLD_UPDATE_GOLDEN") != nullptr) {
    write_file_atomic(path, keys_markdown());
    return;
  }
  EXPECT_TRUE(read_file(path) == keys_markdown())
      << "run this test with FOURFOLD_UPDATE_GOLDEN=1, or fourfold config explain --markdown > "
         "configs/KEYS.md";
}

/// Names that users of Megatron-LM, nanotron, LitGPT, Hugging Face, torchtitan, AxoNN and DeepSpeed
/// write, and ours.
TEST(Explain, names_of_other_tools_get_ours_as_the_suggestion) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"hidden-size", "model.hidden_size"},
      {"n_embd", "model.hidden_size"},
      {"dim", "model.hidden_size"},
      {"num_hidden_layers", "model.num_layers"},
      {"n_layer", "model.num_layers"},
      {"n_layers", "model.num_layers"},
      {"n_head", "model.num_attention_heads"},
      {"n_heads", "model.num_attention_heads"},
      {"ffn-hidden-size", "model.ffn_hidden_size"},
      {"intermediate_size", "model.ffn_hidden_size"},
      {"n_inner", "model.ffn_hidden_size"},
      {"n_positions", "model.max_position_embeddings"},
      {"max_context_length", "model.max_position_embeddings"},
      {"block_size", "data.seq_length"},
      {"padded_vocab_size", "model.vocab_size"},
      {"seq-length", "data.seq_length"},
      {"sequence_length", "data.seq_length"},
      {"max_seq_length", "data.seq_length"},
      {"global-batch-size", "train.global_batch_size"},
      {"micro-batch-size", "train.micro_batch_size"},
      {"train-iters", "train.steps"},
      {"train_steps", "train.steps"},
      {"max_steps", "train.steps"},
      {"dp", "parallel.data"},
      {"devices", "parallel.data"},
      {"data_parallel_replicate_degree", "parallel.data"},
      {"data_parallel_shard_degree", "parallel.tensor.z"},
      {"G_data", "parallel.data"},
      {"tensor-model-parallel-size", "parallel.tensor.x"},
      {"tp", "parallel.tensor.x"},
      {"tensor_parallel_degree", "parallel.tensor.x"},
      {"G_intra_r", "parallel.tensor.x"},
      {"G_intra_c", "parallel.tensor.y"},
      {"G_intra_d", "parallel.tensor.z"},
      {"recompute-granularity", "memory.activation_checkpointing"},
      {"recompute_layer", "memory.activation_checkpointing"},
      {"activation_checkpoint", "memory.activation_checkpointing"},
      {"bf16", "precision.compute"},
      {"dtype", "precision.compute"},
      {"torch_dtype", "precision.compute"},
      {"mixed_precision_param", "precision.compute"},
      {"learning_rate", "optimizer.lr"},
      {"clip-grad", "optimizer.grad_clip"},
      {"lr-decay-style", "lr_schedule.kind"},
      {"lr_warmup_steps", "lr_schedule.warmup_steps"},
      {"warmup_iters", "lr_schedule.warmup_steps"},
      {"pipeline-model-parallel-size", "parallel.pipeline.stages"},
      {"pp", "parallel.pipeline.stages"},
      {"G_inter", "parallel.pipeline.stages"}};
  for (const auto& [theirs, ours] : names) EXPECT_EQ(suggest(theirs).key, ours) << theirs;
  for (const char* absent :
       {"make-vocab-size-divisible-by", "make_vocab_size_divisible_by", "max_tokens",
        "batch_accumulation_per_replica", "context_parallel_size", "gradient_accumulation_steps"}) {
    EXPECT_EQ(suggest(absent).key, "") << absent;
    EXPECT_EQ(suggest(absent).text.find("has:"), std::string::npos) << suggest(absent).text;
  }
}

TEST(Suggest, says_nothing_where_nothing_means_the_same) {
  for (const char* path : {"model.alibi", "lora.r", "lora.alpha", "train.ema", "data.val_mirror",
                           "model.r", "optimizer.fused_backend"})
    EXPECT_EQ(suggest(path).key, "") << path << ": " << suggest(path).text;
  EXPECT_NE(suggest("model.alibi").text.find("learns its positions"), std::string::npos);
  EXPECT_NE(suggest("model.rope_scaling").text.find("model.rope.kind"), std::string::npos);
  EXPECT_NE(suggest("lora.r").text.find("no low-rank adaptation"), std::string::npos);
}

TEST(Suggest, a_key_of_other_tools_that_has_no_like_gets_the_reason) {
  for (const char* theirs : {"backend",
                             "fp16",
                             "always_save_checkpoint",
                             "eval_only",
                             "wandb_log",
                             "wandb_project",
                             "num_train_epochs",
                             "save_strategy",
                             "evaluation_strategy",
                             "warmup_ratio",
                             "logging_strategy",
                             "per_device_eval_batch_size",
                             "num_workers",
                             "dataloader_num_workers",
                             "swiglu",
                             "train.epochs",
                             "train.num_epochs",
                             "rotary_percent",
                             "disable_bias_linear",
                             "train_samples",
                             "load",
                             "data_cache_path"}) {
    const auto answer = suggest(theirs);
    EXPECT_EQ(answer.key, "") << theirs;
    EXPECT_NE(answer.text, "") << theirs;
    EXPECT_EQ(answer.text.find("has:"), std::string::npos) << theirs << ": " << answer.text;
  }
  EXPECT_EQ(suggest("recompute_activations").key, "memory.activation_checkpointing");
}

TEST(Suggest, a_value_of_other_tools_gets_the_one_that_means_the_same_or_the_reason_why_none_does) {
  const auto of = [](const char* path, const char* text) {
    const Key* key = find_key(path);
    return suggest_value(*key, text, std::get<Choice>(key->field).names);
  };
  EXPECT_EQ(of("run.device", "gpu"), "did you mean 'cuda'?");
  EXPECT_EQ(of("run.device", "GPU"), "did you mean 'cuda'?");
  EXPECT_EQ(of("run.device", "mps"),
            "there are no kernels for this device; cpu and cuda have some");
  EXPECT_EQ(of("run.device", "xpu"), "");
  EXPECT_EQ(of("run.device", "cudda"), "did you mean 'cuda'?");
  EXPECT_EQ(of("precision.compute", "fp16"), "there is no fp16 here; bf16 is as small");
  EXPECT_EQ(of("precision.compute", "float32"), "did you mean 'fp32'?");
  EXPECT_EQ(of("precision.compute", "fp8"), "");
  EXPECT_EQ(of("lr_schedule.kind", "wsd"), "did you mean 'warmup_stable_decay'?");
  EXPECT_EQ(of("data.tokenizer", "character"), "did you mean 'char'?");
}

TEST(Template, every_size_is_a_good_file_with_every_key_and_its_parameters) {
  for (const model::Kind kind : {model::Kind::gpt, model::Kind::unet})
    for (const std::string& size : template_sizes(kind)) {
      const std::string text = template_yaml(size, "new.yaml");
      ASSERT_EQ(problems_of(text), "") << text;
      Config config = load_text(text);
      EXPECT_EQ(config.kind, kind);
      for (const Key& key : keys()) {
        if (!applies(key, config)) continue;
        const std::string line = std::string(leaf_of(key.path)) + ": ";
        EXPECT_NE(text.find(line), std::string::npos) << key.path;
      }
      if (config.gpt.vocab_size == 0) config.gpt.vocab_size = 65;
      config.unet.picture = {32, 32, 3};
      config.unet.num_classes = 8;
      double count = 0;
      for (const auto& part : model::count_parameters(config.model()))
        count += static_cast<double>(part.parameters);
      const double named = std::stod(size) * (size.back() == 'M' ? 1e6 : 1e9);
      EXPECT_NEAR(count / named, 1, 0.08) << size << " " << count;
      EXPECT_EQ(config.name, "a");
    }
}

TEST(Template, a_default_that_follows_from_other_keys_stays_open) {
  const std::string text = template_yaml("124M", "new.yaml");
  EXPECT_EQ(load_text(text, {"model.hidden_size=960"}).gpt.ffn_hidden_size, 3840);
  EXPECT_EQ(load_text(text, {"train.steps=10"}).train.schedule.decay_steps, 10);
  for (const char* line : {"  # name: \"new\"  # ", "  # dir: \"runs/new\"  # "})
    EXPECT_NE(text.find(line), std::string::npos) << "the file names the run: " << line;
}

TEST(Template, an_unknown_size_names_the_sizes) {
  try {
    template_yaml("7B", "new.yaml");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "there is no size '7B'; choose one of 0.8M, 10M, 124M, 350M, 760M, 1.3B, 2.7B, "
                 "6.7B, 13B, 175B");
  }
}

const Json* type_in_schema(const Json& root, const std::string& path) {
  const Json* type = &root;
  for (const std::string& name : split(path, '.')) {
    type = type->find("properties");
    if (type != nullptr) type = type->find(name);
    if (type == nullptr) return nullptr;
  }
  return type;
}

TEST(JsonSchema, has_every_key_with_its_bounds_and_nothing_else) {
  const Json root = parse_json(json_schema(), "schema");
  for (const Key& key : keys()) {
    const Json* type = type_in_schema(root, key.path);
    ASSERT_NE(type, nullptr) << key.path;
    EXPECT_NE(type->find("description")->as_string().find(key.meaning), std::string::npos);
    EXPECT_TRUE(type->find("type") != nullptr || type->find("enum") != nullptr) << key.path;
  }
  for (const std::string& section : sections())
    EXPECT_FALSE(type_in_schema(root, section)->find("additionalProperties")->as_bool());
  EXPECT_FALSE(root.find("additionalProperties")->as_bool());
  EXPECT_EQ(type_in_schema(root, "model.num_layers")->find("maximum")->as_integer(), 1000);
  EXPECT_EQ(type_in_schema(root, "optimizer.lr")->find("exclusiveMinimum")->as_integer(), 0);
  EXPECT_EQ(type_in_schema(root, "optimizer.betas")->find("minItems")->as_integer(), 2);
  EXPECT_EQ(type_in_schema(root, "data.format")->find("enum")->items().size(), 5U);
}

/// Python's validator where it is; ours above where it is not.
TEST(JsonSchema, a_validator_takes_every_shipped_configuration_and_refuses_bad_ones) {
  if (std::system("python3 -W ignore -c 'import jsonschema, yaml' 2> /dev/null") != 0)
    GTEST_SKIP() << "needs python3 with jsonschema and yaml";
  const Scratch scratch;
  const std::string schema = scratch.write("schema.json", json_schema());
  scratch.write("template.yaml", template_yaml("124M", "new.yaml"));
  const std::string script = scratch.write("validate.py", R"(
import glob, json, sys, jsonschema, yaml
schema, configs, scratch = sys.argv[1:]
schema = json.load(open(schema))
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
files = [file for file in glob.glob(configs + '/**/*.yaml', recursive=True) if '/machines/' not in file]
files.append(scratch + '/template.yaml')
assert len(files) > 8, files
for file in files:
    for error in validator.iter_errors(yaml.safe_load(open(file))):
        sys.exit(f'{file}: {error.message}')
for good in ('train: {steps: 2k}', 'train: {steps: 1_000}', 'optimizer: {lr: 1e-4}', 'eval:',
             'parallel: {data: auto, chunks: 2}', 'memory: {activation_checkpointing: every 2}'):
    assert validator.is_valid(yaml.safe_load(good)), good
for bad in ('modle: {}', 'model: {n_layer: 3}', 'model: {num_layers: 0}', 'train: {steps: 4K}',
            'optimizer: {lr: 0}', 'optimizer: {betas: [0.9]}', 'model: {bias: 1}', 'model: 4',
            'parallel: {order: [x, x, y, z]}', 'parallel: {chunks: 3}', 'data: {format: txet}',
            'extends: [a]'):
    assert not validator.is_valid(yaml.safe_load(bad)), bad
)");
  const std::string folder = script.substr(0, script.rfind('/'));
  EXPECT_EQ(std::system(format("python3 -W ignore {} {} {}/configs {}", script, schema,
                               FOURFOLD_SOURCE_DIR, folder)
                            .c_str()),
            0);
}

}  // namespace
}  // namespace fourfold::config
