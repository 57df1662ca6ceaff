// Rows of the schema: steps and batches, the optimizer, its learning rate.
#include "config/number.h"
#include "config/schema_fields.h"

namespace fourfold::config {

std::vector<Key> train_keys() {
  using train::TrainSpec;
  return {
      {.path = "train.steps",
       .meaning = "Steps of training, each one update of the weights.",
       .field = at(&Config::train, &TrainSpec::steps),
       .fallback = "2000",
       .bounds = between(1, most_steps),
       .unit = "steps",
       .cost = "Time grows in proportion.",
       .example = "10k",
       .elsewhere = {"max_train_steps", "training_steps", "total_steps", "max_steps", "train_iters",
                     "max_iters", "train_steps", "num_steps", "iterations"}},
      {.path = "train.global_batch_size",
       .meaning = "Samples of a step, over all ranks and micro-batches.",
       .field = at(&Config::plan, &plan::PlanSpec::global_batch_size),
       .fallback = "12",
       .bounds = between(1, most_width),
       .unit = "samples",
       .cost =
           "The time of a step grows in proportion; memory does not where micro_batch_size stays.",
       .example = "512",
       .elsewhere = {"batch_size", "total_batch_size", "train_batch_size"}},
      {.path = "train.micro_batch_size",
       .meaning =
           "Samples that one rank processes at once; smaller needs less memory, larger is faster. "
           "auto: train.global_batch_size / (parallel.data x parallel.tensor.z); in a pipeline as "
           "much of that as leaves each stage four micro-batches.",
       .field = at(&Config::micro_batch_size),
       .fallback = "auto",
       .bounds = between(1, most_width),
       .unit = "samples",
       .cost = "Memory for activations grows in proportion; larger products run faster.",
       .example = "4",
       .elsewhere = {"per_device_train_batch_size", "device_batch_size", "micro_batch",
                     "train_micro_batch_size_per_gpu"}},
  };
}

namespace {

void derive_decay_steps(Config& config) {
  auto& schedule = config.train.schedule;
  const bool tail = schedule.kind == schedule::LearningRateKind::warmup_stable_decay;
  schedule.decay_steps =
      tail ? std::max<std::int64_t>(1, config.train.steps / 5) : config.train.steps;
}

}  // namespace

std::vector<Key> schedule_keys() {
  using schedule::LearningRateKind;
  using schedule::LearningRateSpec;
  return {
      {.path = "lr_schedule.kind",
       .meaning = "How the learning rate falls after the warm-up.",
       .field = choice<LearningRateKind>(
           at_schedule(&LearningRateSpec::kind),
           {"constant", "linear", "cosine", "warmup_stable_decay"},
           {LearningRateKind::constant, LearningRateKind::linear, LearningRateKind::cosine,
            LearningRateKind::warmup_stable_decay}),
       .fallback = "cosine",
       .example = "linear",
       .elsewhere = {"lr_decay_style", "lr_scheduler_type", "scheduler", "decay_lr"}},
      {.path = "lr_schedule.warmup_steps",
       .meaning = "The learning rate rises linearly over these first steps.",
       .field = at_schedule(&LearningRateSpec::warmup_steps),
       .fallback = "",
       .bounds = between(0, most_steps),
       .unit = "steps",
       .example = "2k",
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
       .field = at_schedule(&LearningRateSpec::decay_steps),
       .fallback = "",
       .bounds = between(1, most_steps),
       .unit = "steps",
       .example = "10k",
       .elsewhere = {"lr_decay_iters", "lr_decay_steps"},
       .derived_words = "train.steps (warmup_stable_decay: a fifth of it)",
       .derive = derive_decay_steps},
      {.path = "lr_schedule.min_lr",
       .meaning = "The learning rate at the end of the decay.",
       .field = at_schedule(&LearningRateSpec::min_lr),
       .fallback = "",
       .bounds = at_least(0),
       .example = "6e-5",
       .elsewhere = {"lr_min", "min_learning_rate", "end_lr"},
       .derived_words = "a tenth of optimizer.lr",
       .derive =
           [](Config& config) {
             config.train.schedule.min_lr = plain_decimal(config.train.schedule.lr / 10);
           }},
  };
}

std::vector<Key> loss_spike_keys() {
  using train::LossSpikeSpec;
  using Action = LossSpikeSpec::Action;
  return {
      {.path = "loss_spike.action",
       .meaning = "What a leap of the training loss does: none, a warning with the samples of the "
                  "step while the checkpoint before it stays for good, or the end of the run with "
                  "exit code 7, which saves nothing of it.",
       .field = choice<Action>(at_loss_spike(&LossSpikeSpec::action), {"none", "warn", "stop"},
                               {Action::none, Action::warn, Action::stop}),
       .fallback = "none",
       .example = "warn",
       .elsewhere = {"on_loss_spike", "loss_spike_action"}},
      {.path = "loss_spike.sigmas",
       .meaning = "A leap is above the median of the steps before by more than so many of their "
                  "standard deviations.",
       .field = at_loss_spike(&LossSpikeSpec::sigmas),
       .fallback = "6",
       .bounds = above(0),
       .unit = "standard deviations",
       .example = "4",
       .elsewhere = {"spike_threshold"}},
      {.path = "loss_spike.window",
       .meaning = "How many steps before count; no leap is seen until there are so many.",
       .field = at_loss_spike(&LossSpikeSpec::window),
       .fallback = "100",
       .bounds = between(2, most_width),
       .unit = "steps",
       .example = "500",
       .elsewhere = {"spike_window"}},
  };
}

std::vector<Key> checkpoint_keys() {
  using train::CheckpointSpec;
  return {
      {.path = "checkpoint.interval_steps",
       .meaning = "Steps between checkpoints; 0: none by steps.",
       .field = at_checkpoint(&CheckpointSpec::interval_steps),
       .fallback = "0",
       .bounds = between(0, most_steps),
       .unit = "steps",
       .cost = "A checkpoint is weights and averages, three times the weights; steps wait only "
               "while it is copied in memory.",
       .example = "1000",
       .elsewhere = {"save_interval", "save_steps", "checkpoint_interval", "save_every",
                     "checkpoint.interval", "checkpoint.every"}},
      {.path = "checkpoint.interval_minutes",
       .meaning = "Minutes between checkpoints; 0: none by time. With an interval of either kind "
                  "the end of a run is saved too.",
       .field = at_checkpoint(&CheckpointSpec::interval_minutes),
       .fallback = "15",
       .bounds = at_least(0),
       .unit = "minutes",
       .cost = "Shorter loses less work when a run is killed.",
       .example = "30",
       .elsewhere = {"save_interval_minutes", "checkpoint.minutes"}},
      {.path = "checkpoint.keep",
       .meaning = "How many of the newest healthy checkpoints stay.",
       .field = at_checkpoint(&CheckpointSpec::keep_last),
       .fallback = "3",
       .bounds = between(2, most_steps),
       .unit = "checkpoints",
       .cost = "Disk: each takes three times the weights.",
       .example = "5",
       .elsewhere = {"save_total_limit", "keep_last", "checkpoint.keep_last"}},
      {.path = "checkpoint.keep_every",
       .meaning = "Checkpoints of steps that are a multiple of it stay for ever; 0: none.",
       .field = at_checkpoint(&CheckpointSpec::keep_every),
       .fallback = "0",
       .bounds = between(0, most_steps),
       .unit = "steps",
       .example = "10k",
       .elsewhere = {"keep_every_n_steps"}},
      {.path = "checkpoint.keep_best",
       .meaning =
           "How many checkpoints of the lowest validation losses stay besides; an evaluation "
           "that is among them is saved.",
       .field = at_checkpoint(&CheckpointSpec::keep_best),
       .fallback = "0",
       .bounds = between(0, most_width),
       .unit = "checkpoints",
       .cost = "Disk: each takes three times the weights.",
       .example = "1",
       .elsewhere = {"save_top_k", "save_best", "load_best_model_at_end"}},
      {.path = "checkpoint.async",
       .meaning =
           "Write the files beside the steps that follow; false: the run waits for the disk.",
       .field = at_checkpoint(&CheckpointSpec::in_background),
       .fallback = "true",
       .cost = "A copy of the state in memory.",
       .example = "false",
       .elsewhere = {"async_save", "checkpoint.background"}},
  };
}

}  // namespace fourfold::config
