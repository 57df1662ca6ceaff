#include "training_run/train.h"

#include "cli/command.h"
#include "cli/shared_options.h"
#include "comm/termination.h"
#include "config/schema.h"

namespace fourfold::cli {
namespace {

using training_run::TrainArguments;

std::vector<std::string> overridable() {
  std::vector<std::string> words = config::sections();
  for (std::string& key : key_names()) words.push_back(std::move(key));
  return words;
}

void list_options(OptionList& options, TrainArguments& given) {
  given.variable = options.caller().variable;
  given.launcher = comm::launcher_facts(given.variable);
  given.command = options.caller().words;
  add_config_options(options, given.config);
  options.add("--overwrite", given.overwrite,
              "Use the run directory even if it holds an earlier run");
  options.add("--dry-run", given.dry_run, "Do everything that can fail except the training");
  options.add(
      "--resume", given.resume.how,
      "auto: go on where the run directory's checkpoints end; never; or the path of a run or "
      "checkpoint",
      {.shows_default = true});
  options.add(
      "--override", given.resume.overrides,
      "KEY that may differ from the checkpoint's, though it changes what is learned; `data`: "
      "other training data; `lr_schedule`: another learning rate from here on",
      {.takes_one = true, .offers = overridable});
  options.add("--take-over", given.take_over,
              "Use the run directory even if a job on another machine holds it, once that has not "
              "been heard of for 10 s");
  options.add("--stop-at", given.stop_at,
              "End after step N with a checkpoint; the learning rate goes on as for all steps",
              {.within = Least{1}});
  options.add("--no-weights", given.no_weights,
              "Do not write the weights at the end: for measuring steps of large models");
  options.add("--trace", given.trace,
              "Write a timeline of so many steps, after two that warm up, to traces/steps.json",
              {.within = Whole{1, 10000}});
  add_color_option(options, given.color);
}

void train(const TrainArguments& arguments) {
  comm::ignore_broken_pipes();  // who reads the output may leave
  training_run::train(arguments);
}

}  // namespace

void add_train(Commands& commands) {
  commands.add({"train", After{}, "Train a model, save its weights, show a sample",
                "train configs/gpt-quickstart.yaml --set run.name=slow --set optimizer.lr=3e-4"},
               list_options, train);
}

}  // namespace fourfold::cli
