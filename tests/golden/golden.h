// A file of golden/data: training steps by PyTorch. Header only.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "support/compare.h"
#include "support/small_run.h"

namespace fourfold::test {

class Golden {
 public:
  /// Where the sources lie: where they were compiled, or, for tests that have travelled without
  /// them, the folder that the variable FOURFOLD_SOURCES names.
  static std::string root() {
    const char* elsewhere = std::getenv("FOURFOLD_SOURCES");
    return elsewhere != nullptr ? elsewhere : FOURFOLD_SOURCE_DIR;
  }

  /// "gpt-sgd": the file's name without its ending.
  explicit Golden(const std::string& name)
      : file_(checkpoint::SafetensorsFile::open(root() + "/tests/golden/data/" + name +
                                                ".safetensors")) {}

  template <class T>
  std::vector<T> tensor(const std::string& name) const {
    for (const auto& info : file_.header().tensors())
      if (info.name == name) {
        require(info.dtype == dtype_of<T>, "the golden tensor has the expected type");
        std::vector<T> values(static_cast<std::size_t>(info.shape.elements()));
        file_.read(info, std::as_writable_bytes(std::span(values)));
        return values;
      }
    throw InternalError("there is no golden tensor " + name);
  }
  std::string setting(const std::string& key) const {
    for (const auto& [name, value] : file_.header().metadata())
      if (name == key) return value;
    throw InternalError("there is no golden setting " + key);
  }
  bool has(const std::string& key) const {
    const auto& all = file_.header().metadata();
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.first == key; });
  }
  double number(const std::string& key) const { return std::stod(setting(key)); }
  std::int64_t integer(const std::string& key) const { return std::stoll(setting(key)); }
  bool flag(const std::string& key) const { return setting(key) == "true"; }

  /// The batch of one step, which counts from 0.
  FixedFeeder batch(std::size_t step) const {
    const auto labels = of_step<std::int32_t>("labels", step);
    if (is_of_pictures()) return {of_step<std::uint8_t>("pictures", step), labels};
    return {of_step<std::int32_t>("tokens", step), labels};
  }
  /// What of a tensor has no gradient, but rounding: keys that no position turns.
  KeyBias idle_keys(const std::string& name, std::size_t elements) const {
    return is_of("llama") ? KeyBias() : key_bias(name, elements);
  }
  std::size_t steps() const { return static_cast<std::size_t>(integer("train.steps")); }
  /// Valid or not.
  std::size_t labels_of_step() const { return tensor<std::int32_t>("labels").size() / steps(); }

  /// With micro-batches so that there are `accumulation` of them.
  RunSetup run_setup(DType compute, std::int64_t accumulation) const {
    RunSetup setup;
    if (is_of("llama"))
      setup.llama = llama();
    else if (is_of("vgg"))
      setup.vgg = vgg();
    else if (is_of("unet"))
      setup.unet = unet();
    else
      setup.gpt = gpt();
    const std::int64_t batch = integer("train.global_batch_size");
    setup.plan = {.global_batch_size = batch,
                  .micro_batch_size = batch / accumulation,
                  .seq_length = is_of_pictures() ? 1 : integer("data.seq_length"),
                  .compute = compute};
    setup.optimizer = optimizer();
    return setup;
  }

 private:
  graph::OptimizerSpec optimizer() const {
    const auto of = [&](const auto& row) {
      return graph::OptimizerSpec::of(row, number("optimizer.weight_decay"),
                                      number("optimizer.grad_clip"));
    };
    const std::string name = has("optimizer.name") ? setting("optimizer.name") : "adamw";
    if (name == "sgd")
      return of(
          op::Sgd{.mu = number("optimizer.momentum"), .nesterov = flag("optimizer.nesterov")});
    const double beta1 = number("optimizer.beta1"), beta2 = number("optimizer.beta2");
    if (name == "lion") return of(op::Lion{beta1, beta2});
    return of(op::AdamW{beta1, beta2, number("optimizer.epsilon")});
  }
  bool is_of(const std::string& kind) const {
    return has("model.kind") && setting("model.kind") == kind;
  }
  bool is_of_pictures() const { return is_of("vgg") || is_of("unet"); }

  model::GptSpec gpt() const {
    return {.num_layers = integer("model.num_layers"),
            .num_attention_heads = integer("model.num_attention_heads"),
            .hidden_size = integer("model.hidden_size"),
            .ffn_hidden_size = integer("model.ffn_hidden_size"),
            .max_position_embeddings = integer("model.max_position_embeddings"),
            .vocab_size = integer("model.vocab_size"),
            .dropout = 0,
            .bias = flag("model.bias"),
            .tied_head = flag("model.tied_head")};
  }

  model::LlamaSpec llama() const {
    const auto of = [&](const std::string& key, const auto& words) {
      const auto found = std::find(words.begin(), words.end(), setting(key));
      require(found != words.end(), "a golden setting is one of its words");
      return static_cast<std::size_t>(found - words.begin());
    };
    const std::vector<std::string> kinds = {"default", "linear", "llama3", "yarn"},
                                   biases = {"none", "qkv", "all"};
    return {.num_layers = integer("model.num_layers"),
            .num_attention_heads = integer("model.num_attention_heads"),
            .num_key_value_heads = integer("model.num_key_value_heads"),
            .head_dim = integer("model.head_dim"),
            .hidden_size = integer("model.hidden_size"),
            .ffn_hidden_size = integer("model.ffn_hidden_size"),
            .max_position_embeddings = integer("model.max_position_embeddings"),
            .vocab_size = integer("model.vocab_size"),
            .attention_bias = model::AttentionBias(of("model.attention_bias", biases)),
            .mlp_bias = flag("model.mlp_bias"),
            .head_norm = flag("model.head_norm"),
            .tied_head = flag("model.tied_head"),
            .rope = {.kind = model::RopeKind(of("model.rope.kind", kinds)),
                     .theta = number("model.rope.theta"),
                     .factor = number("model.rope.factor"),
                     .original_positions = integer("model.rope.original_positions"),
                     .low_freq_factor = number("model.rope.low_freq_factor"),
                     .high_freq_factor = number("model.rope.high_freq_factor"),
                     .beta_fast = number("model.rope.beta_fast"),
                     .beta_slow = number("model.rope.beta_slow")}};
  }

  model::VggSpec vgg() const {
    return {.widths = integers("vgg.widths"),
            .hidden = integers("vgg.hidden"),
            .picture = integers("vgg.picture"),
            .num_classes = integer("vgg.num_classes"),
            .dropout = 0,
            .mean = numbers("data.mean"),
            .deviation = numbers("data.deviation")};
  }

  model::UnetSpec unet() const {
    const bool is_cosine = setting("diffusion.noise_schedule") == "cosine";
    return {.picture = integers("unet.picture"),
            .channels = integer("unet.channels"),
            .channel_mult = integers("unet.channel_mult"),
            .layers_per_level = integer("unet.num_res_blocks"),
            .attention_resolutions = integers("unet.attention_resolutions"),
            .num_heads = integer("unet.num_attention_heads"),
            .norm_groups = integer("unet.norm_groups"),
            .scale_shift_norm = flag("unet.scale_shift_norm"),
            .resample_with_convolution = flag("unet.resample_with_convolution"),
            .class_conditional = flag("unet.class_conditional"),
            .num_classes = integer("unet.num_classes"),
            .diffusion = {
                .steps = integer("diffusion.steps"),
                .schedule = is_cosine ? model::NoiseSchedule::cosine : model::NoiseSchedule::linear,
                .learn_sigma = flag("unet.learn_sigma"),
                .bound_weight = number("diffusion.bound_weight"),
                .average_decay = number("diffusion.average_decay"),
                .sampling = {}}};
  }

  /// "0.5,0.25".
  std::vector<double> numbers(const std::string& key) const {
    std::vector<double> result;
    for (const std::string& word : split(setting(key), ',')) result.push_back(std::stod(word));
    return result;
  }
  /// "6,pool,7", in which "pool" becomes 0; an empty text is an empty list.
  std::vector<std::int64_t> integers(const std::string& key) const {
    std::vector<std::int64_t> result;
    if (setting(key).empty()) return result;
    for (const std::string& word : split(setting(key), ','))
      result.push_back(word == "pool" ? 0 : std::stoll(word));
    return result;
  }

  template <class T>
  std::vector<T> of_step(const std::string& name, std::size_t step) const {
    const std::vector<T> all = tensor<T>(name);
    const auto size = static_cast<std::ptrdiff_t>(all.size() / steps());
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(step) * size;
    return {begin, begin + size};
  }

  checkpoint::SafetensorsFile file_;
};

}  // namespace fourfold::test
