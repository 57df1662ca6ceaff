// The table of keys, and the rows of the sections that say how a run is carried out and watched.
// What is made from them stands in schema.cpp, value.cpp and print.cpp.
#include <algorithm>
#include <iterator>

#include "config/family.h"
#include "config/schema_fields.h"

namespace fourfold::config {
namespace {

std::vector<Key> run_keys() {
  return {
      {.path = "run.name",
       .meaning = "The run's name; it names its folder, and appears in logs and reports.",
       .field = at(&Config::name),
       .fallback = "",
       .example = "my-first-run",
       .elsewhere = {"run_name", "exp_name", "experiment_name", "wandb_run_name"},
       .derived_words = "the configuration file's name"},
      {.path = "run.dir",
       .meaning = "The folder for everything the run writes.",
       .field = at(&Config::dir),
       .fallback = "",
       .example = "/scratch/me/my-first-run",
       .elsewhere = {"out_dir", "output_dir", "save", "save_dir", "log_dir"},
       .derived_words = "runs/ and run.name",
       .derive = [](Config& config) { config.dir = "runs/" + config.name; }},
      {.path = "run.seed",
       .meaning = "Decides the initial weights, the order of the data, dropout and samples.",
       .field = at(&Config::seed),
       .fallback = "1",
       .bounds = at_least(0),
       .example = "1234",
       .elsewhere = {"random_seed", "manual_seed", "rng_seed"}},
      {.path = "run.init_from",
       .meaning = "The weights to begin with, for further training: the folder of a run or of "
                  "`fourfold import`, or a checkpoint. Empty: random ones.",
       .field = at(&Config::init_from),
       .fallback = "\"\"",
       .example = "runs/gpt2",
       .elsewhere = {"load_checkpoint", "pretrained", "pretrained_model_name_or_path",
                     "init_checkpoint", "finetune_from", "pretrained_checkpoint"}},
      {.path = "run.device",
       .meaning = "What computes: cpu; cuda, one NVIDIA GPU; auto: a GPU where this build and this "
                  "machine have one and it computes in the run's precision, else the CPU.",
       .field = choice<std::string>(at(&Config::device), {"auto", "cpu", "cuda"},
                                    {"auto", "cpu", "cuda"}),
       .fallback = "auto",
       .cost = "A run may change it when it goes on; sums then differ in their last bits.",
       .example = "cpu",
       .elsewhere = {"accelerator", "device_type", "use_cpu", "no_cuda"}},
      {.path = "run.threads",
       .meaning = "Threads of a rank's CPU kernels; 0 shares out the cores of this process among "
                  "its ranks.",
       .field = at(&Config::threads),
       .fallback = "0",
       .bounds = between(0, 4096),
       .unit = "threads",
       .cost = "More threads are faster up to the number of cores.",
       .example = "4",
       .elsewhere = {"num_threads", "omp_num_threads", "intra_op_threads", "cpus_per_task"}},
      {.path = "run.bind_to_cores",
       .meaning = "Of ranks that are threads of one process, each keeps to its share of the cores, "
                  "if they can be shared out equally. Processes are bound by what starts them.",
       .field = at(&Config::bind_to_cores),
       .fallback = "true",
       .cost = "Without it, ranks that share a core are slower by about a tenth. false where other "
               "programs keep some of the cores busy.",
       .example = "false",
       .elsewhere = {"bind_to", "cpu_bind", "numa_binding", "pin_threads"}},
      {.path = "run.kernel_table",
       .meaning =
           "Which kernel computes which product or convolution: auto, those that are fastest on "
           "this machine, measured once a shape and kept in the user's cache; builtin, the table "
           "of the program; or a file of `fourfold bench kernels`.",
       .field = at(&Config::kernel_table),
       .fallback = "auto",
       .cost = "auto takes up to 10 seconds at the first start of a shape. A run keeps its table, "
               "kernels.yaml, when it goes on. A run of less than about a minute, and commands "
               "other than train, take auto as builtin.",
       .example = "builtin"},
      {.path = "run.machine",
       .meaning =
           "The machine that parallel.tensor: auto chooses a grid for: a name that `fourfold "
           "machines` lists, or the path of a file, as `fourfold bench machine` writes. Where it "
           "is named, the end of a run says how far the time of a step is from the one that is "
           "predicted on it. auto: a description of this host that the program has.",
       .field = at(&Config::machine),
       .fallback = "auto",
       .cost = "The time of a step that is predicted is that of this machine; a grid that is fast "
               "there may be slow elsewhere.",
       .example = "perlmutter-40gb",
       .elsewhere = {"cluster", "machine", "hardware"}},
      {.path = "run.deterministic",
       .meaning =
           "True: two runs of one program have the same bits. False: on a GPU, cuDNN may add "
           "up the gradient of attention in any order. On a CPU it changes nothing.",
       .field = at(&Config::deterministic),
       .fallback = "true",
       .cost =
           "On Hopper, cuDNN's gradient with a fixed order writes the score gradients to memory: "
           "two bytes for each query, key and head of a layer's micro-batch.",
       .example = "false",
       .elsewhere = {"deterministic_mode", "use_deterministic_algorithms", "cudnn_deterministic",
                     "deterministic"}},
      {.path = "run.weights_file_mib",
       .meaning = "The most that a file of the final weights holds. A larger model is written as "
                  "several files and an index, as Hugging Face's, by several ranks side by side.",
       .field = at(&Config::weights_file_mib),
       .fallback = "4768",
       .bounds = between(1, std::int64_t{1} << 20),
       .unit = "MiB",
       .example = "1024",
       .elsewhere = {"max_shard_size", "shard_size"}},
      {.path = "run.watchdog_s",
       .meaning = "Without any rank finishing an instruction for so long, the job ends; 0: 120 s.",
       .field = at(&Config::watchdog_s),
       .fallback = "0",
       .bounds = at_least(0),
       .unit = "s",
       .example = "300",
       .elsewhere = {"run.watchdog", "distributed_timeout_minutes", "timeout", "nccl_timeout",
                     "hang_timeout"}},
      {.path = "run.replica_check_steps",
       .meaning = "Steps between comparisons of what several ranks hold of the same tensors; where "
                  "their bits differ, the job ends and names the odd rank. 0: never.",
       .field = at(&Config::train, &train::TrainSpec::replica_check_steps),
       .fallback = "100",
       .bounds = between(0, most_steps),
       .unit = "steps",
       .cost = "A comparison reads the state that several ranks hold: 4.6 ns for each value of it, "
               "three to a parameter.",
       .example = "1000",
       .elsewhere = {"check_weight_hash_across_dp_replicas_interval"}},
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
       .cost = "Each evaluation takes the forward passes of eval.batches steps.",
       .example = "1000",
       .elsewhere = {"eval.interval", "eval.steps", "eval_interval", "eval_steps",
                     "val_check_interval"}},
      {.path = "eval.batches",
       .meaning =
           "Batches of an evaluation along the way, of train.global_batch_size samples each: the "
           "same samples on every grid. The last evaluation takes the whole split.",
       .field = at(&Config::train, &TrainSpec::eval_batches),
       .fallback = "20",
       .bounds = between(1, most_steps),
       .unit = "batches",
       .cost = "The time of an evaluation grows in proportion.",
       .example = "50",
       .elsewhere = {"eval_iters", "eval_batches", "eval.iters"}},
      {.path = "eval.early_stopping",
       .meaning =
           "The run ends after so many evaluations in a row without a lower validation loss; "
           "0: it does all steps.",
       .field = at(&Config::train, &TrainSpec::early_stopping),
       .fallback = "0",
       .bounds = between(0, most_steps),
       .unit = "evaluations",
       .example = "5",
       .elsewhere = {"early_stopping_patience", "patience"}},
      {.path = "log.interval",
       .meaning = "Steps between console lines; metrics.jsonl has every step. auto: each of the "
                  "first 10 steps, then a line about every 10 s.",
       .field = at(&Config::train, &TrainSpec::log_interval),
       .fallback = "auto",
       .bounds = between(1, most_steps),
       .unit = "steps",
       .example = "1",
       .elsewhere = {"log.interval_steps", "log_interval", "logging_steps", "log_freq",
                     "log.steps"}},
      {.path = "log.level",
       .meaning = "What the console and log.rank0.txt tell: debug adds how the run was started, "
                  "warning leaves out the lines of steps.",
       .field = choice<std::string>(at(&Config::log_level), {"debug", "info", "warning", "error"},
                                    {"debug", "info", "warning", "error"}),
       .fallback = "info",
       .elsewhere = {"log_level", "logging_level", "verbosity", "loglevel"}},
      {.path = "log.tensorboard",
       .meaning =
           "Whether the metrics of every step, samples of text and the configuration also go "
           "to event files in the folder tensorboard of the run.",
       .field = at(&Config::tensorboard),
       .fallback = "false",
       .cost = "About 400 bytes a step on the disk; no step waits for it.",
       .example = "true",
       .elsewhere = {"tensorboard", "use_tensorboard", "tensorboard_dir", "log_to_tensorboard",
                     "report_to", "enable_tensorboard", "logging.tensorboard"}},
  };
}

std::vector<Key> sample_keys() {
  using generate::SampleSpec;
  std::vector<Key> rows = {
      {.path = "sample.prompt",
       .meaning = "The beginning of the text that the trained model continues. Where it is not set "
                  "and the tokenizer has no ids for its default, the first token of the data.",
       .field = at(&Config::sample, &SampleSpec::prompt),
       .fallback = "\"\\n\"",
       .example = "\"Once upon a time\"",
       .elsewhere = {"start", "input"}},
      {.path = "sample.tokens",
       .meaning = "Tokens to write after the prompt; 0: no sample.",
       .field = at(&Config::sample, &SampleSpec::tokens),
       .fallback = "",
       .bounds = between(0, most_tokens),
       .unit = "tokens",
       .cost = "A decoding step a token.",
       .example = "500",
       .elsewhere = {"max_new_tokens", "num_tokens", "length"},
       .derived_words = "200 (synthetic data: 0)",
       .derive =
           [](Config& config) {
             const bool writes = config.family().makes == model::Makes::text;
             config.sample.tokens = writes && data::row_of(config.data.format).has_words ? 200 : 0;
           }},
      {.path = "sample.interval",
       .meaning = "Steps between texts that the model writes while it is trained, for the log, "
                  "metrics.jsonl and the report; 0: it writes only one, at the end.",
       .field = at(&Config::sample, &SampleSpec::interval),
       .fallback = "0",
       .bounds = between(0, most_steps),
       .unit = "steps",
       .cost = "A smaller one: sample.tokens decoding steps more each time.",
       .example = "500",
       .elsewhere = {"sample.interval_steps", "sample_interval", "sample_every", "generate_every",
                     "sample.every", "generation_interval"}},
      {.path = "sample.temperature",
       .meaning =
           "Above 1 more surprising, below 1 more likely text; 0: always the likeliest token.",
       .field = at(&Config::sample, &SampleSpec::temperature),
       .fallback = "0.8",
       .bounds = at_least(0),
       .example = "0",
       .elsewhere = {"temp"}},
      {.path = "sample.top_k",
       .meaning = "Choose among the k likeliest tokens; 0: among all.",
       .field = at(&Config::sample, &SampleSpec::top_k),
       .fallback = "0",
       .bounds = between(0, most_vocabulary),
       .unit = "tokens",
       .example = "40",
       .elsewhere = {"topk"}},
      {.path = "sample.top_p",
       .meaning = "Choose among the likeliest tokens that have this probability together; 1: all.",
       .field = at(&Config::sample, &SampleSpec::top_p),
       .fallback = "1.0",
       .bounds = {.least = 0, .most = 1, .least_excluded = true},
       .example = "0.9",
       .elsewhere = {"topp", "nucleus"}},
  };
  for (Key& row : rows) row.kinds = kinds_that_make(model::Makes::text);
  return rows;
}

std::vector<Key> kernel_keys() {
  return {
      {.path = "kernels",
       .meaning = "auto: the fastest for this machine; reference: plain loops, slow, for checking; "
                  "on a GPU, our own kernels in place of cuBLASLt's and cuDNN's.",
       .field =
           choice<std::string>(at(&Config::kernels), {"auto", "reference"}, {"auto", "reference"}),
       .fallback = "auto",
       .cost = "reference: tens of times slower on a CPU.",
       .example = "reference",
       .elsewhere = {"kernel"}},
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> result;
  for (auto make :
       {run_keys, model_keys, family_keys, data_keys, train_keys, optimizer_keys, schedule_keys,
        loss_spike_keys, checkpoint_keys, grid_keys, pipeline_keys, cut_keys, overlap_keys,
        memory_keys, precision_keys, observation_keys, sample_keys, kernel_keys})
    std::ranges::move(make(), std::back_inserter(result));
  return result;
}

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> table = all_keys();
  return table;
}

}  // namespace fourfold::config
