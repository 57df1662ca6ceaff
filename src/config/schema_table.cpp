// The rows of the schema. What is made from them stands in schema.cpp, value.cpp and print.cpp.
#include <algorithm>

#include "base/error.h"
#include "config/schema.h"

namespace fourfold::config {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Places inside a spec of Config.
template <class T>
Place<T> at(T Config::* member) {
  return [member](Config& config) -> T& { return config.*member; };
}
template <class Spec, class T>
Place<T> at(Spec Config::* spec, T Spec::* member) {
  return [spec, member](Config& config) -> T& { return config.*spec.*member; };
}
template <class T>
Place<T> at_schedule(T train::ScheduleSpec::* member) {
  return [member](Config& config) -> T& { return config.train.schedule.*member; };
}

template <class Enum>
Choice choice(Place<Enum> place, std::vector<std::string> names, std::vector<Enum> values) {
  return {std::move(names),
          [place, values](Config& config) {
            const auto found = std::find(values.begin(), values.end(), place(config));
            require(found != values.end(), "a stored choice is one of the schema's");
            return static_cast<std::size_t>(found - values.begin());
          },
          [place, values](Config& config, std::size_t index) { place(config) = values[index]; }};
}

/// The only choice there is yet: nothing to store.
Choice only(std::string name) {
  return {{std::move(name)}, [](Config&) { return std::size_t{0}; }, [](Config&, std::size_t) {}};
}

Bounds between(double least, double most) {
  return {least, most};
}
Bounds at_least(double least) {
  return {least, infinity};
}
Bounds above(double least) {
  return {least, infinity, true, false};
}
/// Fractions.
Bounds from_zero_below_one() {
  return {0, 1, false, true};
}
Bounds inside_zero_one() {
  return {0, 1, true, true};
}

// Largest sizes: far above any model, low enough that products of a few of them stay inside 64
// bits.
constexpr double most_layers = 1'000, most_width = 1'000'000, most_tokens = 1'000'000;
constexpr double most_vocabulary = 10'000'000;  // token ids are stored in 32 bits
constexpr double most_steps = 4'294'967'295;    // random numbers count steps in 32 bits

using model::GptSpec;

std::vector<Key> run_keys() {
  return {
      {.path = "run.name",
       .meaning = "The run's name; it names its folder, and appears in logs and reports.",
       .field = at(&Config::name),
       .fallback = "",
       .elsewhere = {"run_name", "exp_name", "experiment_name", "wandb_run_name"},
       .derived_words = "the configuration file's name"},
      {.path = "run.dir",
       .meaning = "The folder for everything the run writes.",
       .field = at(&Config::dir),
       .fallback = "",
       .elsewhere = {"out_dir", "output_dir", "save", "save_dir", "log_dir"},
       .derived_words = "runs/ and run.name",
       .derive = [](Config& config) { config.dir = "runs/" + config.name; }},
      {.path = "run.seed",
       .meaning = "Decides the initial weights, the order of the data, dropout and samples.",
       .field = at(&Config::seed),
       .fallback = "1",
       .bounds = at_least(0),
       .elsewhere = {"random_seed", "manual_seed", "rng_seed"}},
      {.path = "run.threads",
       .meaning = "Threads of the CPU kernels; 0 takes every core this process may use.",
       .field = at(&Config::threads),
       .fallback = "0",
       .bounds = between(0, 4096),
       .unit = "threads",
       .elsewhere = {"num_threads", "omp_num_threads", "intra_op_threads", "cpus_per_task"}},
  };
}

std::vector<Key> model_keys() {
  return {
      {.path = "model.kind",
       .meaning = "The family of the model.",
       .field = only("gpt"),
       .fallback = "gpt",
       .elsewhere = {"model_type", "architecture", "arch"}},
      {.path = "model.num_layers",
       .meaning = "Transformer blocks.",
       .field = at(&Config::model, &GptSpec::num_layers),
       .fallback = "4",
       .bounds = between(1, most_layers),
       .elsewhere = {"n_layer", "n_layers", "num_hidden_layers", "layers", "depth"}},
      {.path = "model.num_attention_heads",
       .meaning = "Attention heads of a block; they share hidden_size equally.",
       .field = at(&Config::model, &GptSpec::num_attention_heads),
       .fallback = "4",
       .bounds = between(1, most_width),
       .elsewhere = {"n_head", "n_heads", "num_heads", "heads"}},
      {.path = "model.hidden_size",
       .meaning = "Width of the residual stream.",
       .field = at(&Config::model, &GptSpec::hidden_size),
       .fallback = "128",
       .bounds = between(1, most_width),
       .elsewhere = {"n_embd", "d_model", "dim", "width", "embed_dim", "embedding_size",
                     "hidden_dim"}},
      {.path = "model.ffn_hidden_size",
       .meaning = "Width inside the MLP of a block.",
       .field = at(&Config::model, &GptSpec::ffn_hidden_size),
       .fallback = "",
       .bounds = between(1, 4 * most_width),
       .elsewhere = {"intermediate_size", "n_inner", "d_ff", "ffn_dim", "mlp_hidden_size"},
       .derived_words = "4 * model.hidden_size",
       .derive =
           [](Config& config) { config.model.ffn_hidden_size = 4 * config.model.hidden_size; }},
      {.path = "model.max_position_embeddings",
       .meaning = "Positions the model has embeddings for: the longest text it can look at.",
       .field = at(&Config::model, &GptSpec::max_position_embeddings),
       .fallback = "",
       .bounds = between(1, most_tokens),
       .unit = "tokens",
       .elsewhere = {"n_positions", "n_ctx", "max_context_length", "max_positions"},
       .derived_words = "data.seq_length",
       .derive =
           [](Config& config) { config.model.max_position_embeddings = config.data.seq_length; }},
      {.path = "model.vocab_size",
       .meaning =
           "Tokens the model knows; 0 takes the tokenizer's number. Synthetic data needs it.",
       .field = at(&Config::model, &GptSpec::vocab_size),
       .fallback = "0",
       .bounds = between(0, most_vocabulary),
       .unit = "tokens",
       .elsewhere = {"n_vocab", "padded_vocab_size", "vocabulary_size"}},
      {.path = "model.dropout",
       .meaning = "Part of the embeddings, attention weights and residual branches set to zero in "
                  "training.",
       .field = at(&Config::model, &GptSpec::dropout),
       .fallback = "0",
       .bounds = from_zero_below_one(),
       .elsewhere = {"attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop",
                     "attn_pdrop"}},
      {.path = "model.bias",
       .meaning = "Whether linear layers and norms have biases.",
       .field = at(&Config::model, &GptSpec::bias),
       .fallback = "true",
       .elsewhere = {"use_bias", "add_bias_linear", "add_qkv_bias"}},
      {.path = "model.tied_head",
       .meaning = "Whether the output head is the token embedding.",
       .field = at(&Config::model, &GptSpec::tied_head),
       .fallback = "true",
       .elsewhere = {"tie_word_embeddings", "weight_tying", "tie_embeddings", "share_embeddings",
                     "untie_embeddings_and_output_weights"}},
      {.path = "model.layer_norm_epsilon",
       .meaning = "Added to the variance in layer normalisation.",
       .field = at(&Config::model, &GptSpec::layer_norm_epsilon),
       .fallback = "1e-5",
       .bounds = above(0),
       .elsewhere = {"norm_epsilon", "layernorm_epsilon", "layer_norm_eps", "norm_eps",
                     "rms_norm_eps"}},
      {.path = "model.init_stddev",
       .meaning = "Standard deviation of initial weights; residual projections divide it by sqrt(2 "
                  "num_layers).",
       .field = at(&Config::model, &GptSpec::init_stddev),
       .fallback = "0.02",
       .bounds = above(0),
       .elsewhere = {"init_method_std", "initializer_range", "init_std"}},
  };
}

std::vector<Key> data_keys() {
  using data::DataSpec;
  return {
      {.path = "data.format",
       .meaning = "text: a text file; synthetic: random tokens, for tests and timing.",
       .field = choice<data::Format>(at(&Config::data, &DataSpec::format), {"text", "synthetic"},
                                     {data::Format::text, data::Format::synthetic}),
       .fallback = "text",
       .elsewhere = {"dataset_type", "data_format"}},
      {.path = "data.path",
       .meaning = "The text file, seen from the current directory.",
       .field = at(&Config::data, &DataSpec::path),
       .fallback = "\"\"",
       .elsewhere = {"data_path", "data_dir", "dataset", "dataset_path", "train_data", "file"}},
      {.path = "data.tokenizer",
       .meaning = "char: a token for each different character of the text; byte: 256 tokens, for "
                  "any text.",
       .field =
           choice<data::TokenizerKind>(at(&Config::data, &DataSpec::tokenizer), {"char", "byte"},
                                       {data::TokenizerKind::character, data::TokenizerKind::byte}),
       .fallback = "char",
       .elsewhere = {"tokenizer_type", "tokenizer_name", "tokenizer_model"}},
      {.path = "data.split",
       .meaning = "The first part of the text, for training; the rest is for validation.",
       .field = at(&Config::data, &DataSpec::split),
       .fallback = "0.9",
       .bounds = inside_zero_one(),
       .elsewhere = {"train_split", "train_fraction", "val_split"}},
      {.path = "data.seq_length",
       .meaning = "Length of a sample.",
       .field = at(&Config::data, &DataSpec::seq_length),
       .fallback = "64",
       .bounds = between(1, most_tokens),
       .unit = "tokens",
       .elsewhere = {"block_size", "sequence_length", "seq_len", "max_seq_length",
                     "context_length"}},
  };
}

std::vector<Key> train_keys() {
  using train::TrainSpec;
  return {
      {.path = "train.steps",
       .meaning = "Steps of training, each one update of the weights.",
       .field = at(&Config::train, &TrainSpec::steps),
       .fallback = "2000",
       .bounds = between(1, most_steps),
       .unit = "steps",
       .elsewhere = {"max_steps", "train_iters", "max_iters", "train_steps", "num_steps",
                     "iterations"}},
      {.path = "train.global_batch_size",
       .meaning = "Samples of a step, over all ranks and micro-batches.",
       .field = at(&Config::plan, &plan::PlanSpec::global_batch_size),
       .fallback = "12",
       .bounds = between(1, most_width),
       .unit = "samples",
       .elsewhere = {"batch_size", "total_batch_size", "train_batch_size"}},
      {.path = "train.micro_batch_size",
       .meaning =
           "Samples that one rank processes at once; smaller needs less memory, larger is faster.",
       .field = at(&Config::plan, &plan::PlanSpec::micro_batch_size),
       .fallback = "",
       .bounds = between(1, most_width),
       .unit = "samples",
       .elsewhere = {"per_device_train_batch_size", "device_batch_size", "micro_batch",
                     "train_micro_batch_size_per_gpu"},
       .derived_words = "train.global_batch_size",
       .derive =
           [](Config& config) { config.plan.micro_batch_size = config.plan.global_batch_size; }},
  };
}

std::vector<Key> optimizer_keys() {
  using graph::AdamWSpec;
  return {
      {.path = "optimizer.name",
       .meaning = "AdamW: Adam with decoupled weight decay.",
       .field = only("adamw"),
       .fallback = "adamw",
       .elsewhere = {"optim", "optimizer_type"}},
      {.path = "optimizer.lr",
       .meaning = "The largest learning rate; lr_schedule says how it is reached and left.",
       .field = at_schedule(&train::ScheduleSpec::lr),
       .fallback = "1e-3",
       .bounds = above(0),
       .elsewhere = {"learning_rate", "max_lr", "learningrate"}},
      {.path = "optimizer.betas",
       .meaning = "Decay rates of the averages of the gradient and of its square.",
       .field = Pair{at(&Config::optimizer, &AdamWSpec::beta1),
                     at(&Config::optimizer, &AdamWSpec::beta2)},
       .fallback = "[0.9, 0.95]",
       .bounds = from_zero_below_one(),
       .elsewhere = {"beta1", "beta2", "adam_beta1", "adam_beta2"}},
      {.path = "optimizer.eps",
       .meaning = "Added to the root of the averaged square.",
       .field = at(&Config::optimizer, &AdamWSpec::epsilon),
       .fallback = "1e-8",
       .bounds = above(0),
       .elsewhere = {"epsilon", "adam_eps", "adam_epsilon"}},
      {.path = "optimizer.weight_decay",
       .meaning = "Decay of matrices and embeddings, in units of the learning rate; not of biases "
                  "and gains.",
       .field = at(&Config::optimizer, &AdamWSpec::weight_decay),
       .fallback = "0.1",
       .bounds = at_least(0),
       .elsewhere = {"wd", "decay"}},
      {.path = "optimizer.grad_clip",
       .meaning = "Largest global gradient norm; 0 does not clip.",
       .field = at(&Config::optimizer, &AdamWSpec::grad_clip),
       .fallback = "1.0",
       .bounds = at_least(0),
       .elsewhere = {"clip_grad", "max_grad_norm", "gradient_clip_val", "max_norm",
                     "gradient_clipping"}},
  };
}

void derive_decay_steps(Config& config) {
  auto& schedule = config.train.schedule;
  const bool tail = schedule.kind == train::ScheduleKind::warmup_stable_decay;
  schedule.decay_steps =
      tail ? std::max<std::int64_t>(1, config.train.steps / 5) : config.train.steps;
}

std::vector<Key> schedule_keys() {
  using train::ScheduleKind;
  using train::ScheduleSpec;
  return {
      {.path = "lr_schedule.kind",
       .meaning = "How the learning rate falls after the warm-up.",
       .field = choice<ScheduleKind>(at_schedule(&ScheduleSpec::kind),
                                     {"constant", "linear", "cosine", "warmup_stable_decay"},
                                     {ScheduleKind::constant, ScheduleKind::linear,
                                      ScheduleKind::cosine, ScheduleKind::warmup_stable_decay}),
       .fallback = "cosine",
       .elsewhere = {"lr_decay_style", "lr_scheduler_type", "scheduler", "decay_lr"}},
      {.path = "lr_schedule.warmup_steps",
       .meaning = "The learning rate rises linearly over these first steps.",
       .field = at_schedule(&ScheduleSpec::warmup_steps),
       .fallback = "",
       .bounds = between(0, most_steps),
       .unit = "steps",
       .elsewhere = {"warmup_iters", "lr_warmup_steps", "lr_warmup_iters", "num_warmup_steps"},
       .derived_words = "a twentieth of train.steps, at most 100",
       .derive =
           [](Config& config) {
             config.train.schedule.warmup_steps =
                 std::min<std::int64_t>(100, config.train.steps / 20);
           }},
      {.path = "lr_schedule.decay_steps",
       .meaning = "The step at which min_lr is reached; for warmup_stable_decay the length of the "
                  "final decay.",
       .field = at_schedule(&ScheduleSpec::decay_steps),
       .fallback = "",
       .bounds = between(1, most_steps),
       .unit = "steps",
       .elsewhere = {"lr_decay_iters", "lr_decay_steps"},
       .derived_words = "train.steps (warmup_stable_decay: a fifth of it)",
       .derive = derive_decay_steps},
      {.path = "lr_schedule.min_lr",
       .meaning = "The learning rate at the end of the decay.",
       .field = at_schedule(&ScheduleSpec::min_lr),
       .fallback = "",
       .bounds = at_least(0),
       .elsewhere = {"lr_min", "min_learning_rate", "end_lr"},
       .derived_words = "a tenth of optimizer.lr",
       .derive =
           [](Config& config) { config.train.schedule.min_lr = config.train.schedule.lr / 10; }},
  };
}

std::vector<Key> execution_keys() {
  return {
      {.path = "memory.activation_checkpointing",
       .meaning = "Keep the input of every N blocks (full: every block) and compute the rest again "
                  "backward: "
                  "less memory, a third more arithmetic, the same bits.",
       .field = Place<plan::Checkpointing>(at(&Config::plan, &plan::PlanSpec::checkpointing)),
       .fallback = "none",
       .elsewhere = {"gradient_checkpointing", "activation_checkpoint", "recompute_granularity",
                     "recompute_layer", "recompute"}},
      {.path = "precision.compute",
       .meaning = "Type of weights, activations and gradients.",
       .field = choice<DType>(at(&Config::plan, &plan::PlanSpec::compute), {"fp32", "fp64"},
                              {DType::f32, DType::f64}),
       .fallback = "fp32",
       .elsewhere = {"dtype", "torch_dtype", "precision.dtype"}},
  };
}

std::vector<Key> observation_keys() {
  using train::TrainSpec;
  return {
      {.path = "eval.interval_steps",
       .meaning = "Steps between evaluations on the validation split; 0: only at the end.",
       .field = at(&Config::train, &TrainSpec::eval_interval),
       .fallback = "250",
       .bounds = between(0, most_steps),
       .unit = "steps",
       .elsewhere = {"eval.interval", "eval.steps", "eval_interval", "eval_steps",
                     "val_check_interval"}},
      {.path = "eval.batches",
       .meaning =
           "Batches of an evaluation along the way; the last evaluation takes the whole split.",
       .field = at(&Config::train, &TrainSpec::eval_batches),
       .fallback = "20",
       .bounds = between(1, most_steps),
       .unit = "batches",
       .elsewhere = {"eval_iters", "eval_batches", "eval.iters"}},
      {.path = "log.interval",
       .meaning = "Steps between console lines; metrics.jsonl has every step.",
       .field = at(&Config::train, &TrainSpec::log_interval),
       .fallback = "10",
       .bounds = between(1, most_steps),
       .unit = "steps",
       .elsewhere = {"log.interval_steps", "log_interval", "logging_steps", "log_freq",
                     "log.steps"}},
  };
}

std::vector<Key> sample_keys() {
  using generate::SampleSpec;
  return {
      {.path = "sample.prompt",
       .meaning = "The beginning of the text that the trained model continues.",
       .field = at(&Config::sample, &SampleSpec::prompt),
       .fallback = "\"\\n\"",
       .elsewhere = {"start", "input"}},
      {.path = "sample.tokens",
       .meaning = "Tokens to write after the prompt; 0: no sample.",
       .field = at(&Config::sample, &SampleSpec::tokens),
       .fallback = "",
       .bounds = between(0, most_tokens),
       .unit = "tokens",
       .elsewhere = {"max_new_tokens", "num_tokens", "length"},
       .derived_words = "200 (synthetic data: 0)",
       .derive =
           [](Config& config) {
             config.sample.tokens = config.data.format == data::Format::text ? 200 : 0;
           }},
      {.path = "sample.temperature",
       .meaning =
           "Above 1 more surprising, below 1 more likely text; 0: always the likeliest token.",
       .field = at(&Config::sample, &SampleSpec::temperature),
       .fallback = "0.8",
       .bounds = at_least(0),
       .elsewhere = {"temp"}},
      {.path = "sample.top_k",
       .meaning = "Choose among the k likeliest tokens; 0: among all.",
       .field = at(&Config::sample, &SampleSpec::top_k),
       .fallback = "0",
       .bounds = between(0, most_vocabulary),
       .unit = "tokens",
       .elsewhere = {"topk"}},
      {.path = "kernels",
       .meaning = "auto: the fastest for this machine; reference: plain loops, slow, for checking.",
       .field =
           choice<std::string>(at(&Config::kernels), {"auto", "reference"}, {"auto", "reference"}),
       .fallback = "auto",
       .elsewhere = {"backend", "kernel"}},
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> result;
  for (auto make : {run_keys, model_keys, data_keys, train_keys, optimizer_keys, schedule_keys,
                    execution_keys, observation_keys, sample_keys})
    for (Key& key : make()) result.push_back(std::move(key));
  return result;
}

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> table = all_keys();
  return table;
}

}  // namespace fourfold::config
