// Options of what trains, and of what looks at runs and uses their weights.
#include "command_line/options.h"

namespace fourfold::command_line {

void add_train(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("train", "Train a model, save its weights, show a sample");
  add_config_options(*sub, commands.train.config);
  sub->add_flag("--overwrite", commands.train.overwrite,
                "Use the run directory even if it holds an earlier run");
  sub->add_flag("--dry-run", commands.train.dry_run,
                "Do everything that can fail except the training");
  sub->add_option("--resume", commands.train.resume.how,
                  "auto: go on where the run directory's checkpoints end; never; or the path of a "
                  "run or checkpoint")
      ->capture_default_str();
  sub->add_option("--override", commands.train.resume.overrides,
                  "KEY that may differ from the checkpoint's, though it changes what is learned; "
                  "`data`: other training data; `lr_schedule`: another learning rate from here on")
      ->allow_extra_args(false);
  sub->add_flag(
      "--take-over", commands.train.take_over,
      "Use the run directory even if a job on another machine holds it, once that has not "
      "been heard of for 10 s");
  sub->add_option("--stop-at", commands.train.stop_at,
                  "End after step N with a checkpoint; the learning rate goes on as for all steps")
      ->check(not_below(1));
  sub->add_flag("--no-weights", commands.train.no_weights,
                "Do not write the weights at the end: for measuring steps of large models");
  sub->add_option("--trace", commands.train.trace,
                  "Write a timeline of so many steps, after two that warm up, to traces/steps.json")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10000}));
  add_color_option(*sub, commands.train.color);
  sub->callback([&] { commands.chosen = [&] { commands.actions.train(commands.train); }; });
}

void add_generate(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("generate",
                                 "Continue a text, or make pictures, with the weights of a run");
  GenerateArguments& arguments = commands.generate;
  sub->add_option("RUN", arguments.run_dir, "A run directory, or one checkpoint")->required();
  sub->add_option("--step", arguments.step,
                  "The checkpoint of this step (default: the final weights)")
      ->check(not_below(0));
  // Options that exclude each other are named by pointer: CLI11 looks names up in a function that
  // is noexcept and allocates.
  auto* prompt = sub->add_option("--prompt", arguments.prompt,
                                 "Text to continue (default: sample.prompt of the run)");
  sub->add_option("--prompt-file", arguments.prompt_file,
                  "File with the text to continue; -: standard input")
      ->excludes(prompt);
  sub->add_option("--tokens", arguments.tokens,
                  "Tokens to generate, fewer where the document ends before")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1000000}));
  sub->add_option("--temperature", arguments.temperature, "0: always the likeliest token");
  sub->add_option("--top-k", arguments.top_k, "Sample among the k likeliest tokens; 0: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{10000000}));
  sub->add_option("--top-p", arguments.top_p,
                  "Sample among the likeliest tokens that have this probability together; 1: all");
  sub->add_option("--seed", arguments.seed, "Seed of the sampling");
  auto* samples =
      sub->add_option("--samples", arguments.samples,
                      "Write so many texts, numbered from 1 (default: 1), or make so many pictures "
                      "(default: 16)");
  samples->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000}));
  sub->add_option("--sample", arguments.sample,
                  "Write only text number N of those that --samples would write")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000}))
      ->excludes(samples);
  sub->add_flag("--ignore-eos", arguments.ignore_eos,
                "Go on where the tokenizer's token for the end of a document comes");
  sub->add_flag_callback(
      "--no-cache", [&arguments] { arguments.cache = false; },
      "Compute all tokens again for each new one: the same text, to check the cache");
  sub->add_flag("--stats", arguments.stats, "Print tokens per second on standard error");
  sub->add_option("-o,--output", arguments.output, "Pictures: a new PNG file with all of them");
  sub->add_option("--each", arguments.folder,
                  "Pictures: a new folder with a PNG file of each, 1.png and so on");
  sub->add_option("--steps", arguments.steps,
                  "Pictures: steps from noise to a picture; 0: all (default: "
                  "diffusion.sampling_steps of the run)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1000000}));
  sub->add_option("--sampler", arguments.sampler,
                  "Pictures: ddpm or ddim (default: diffusion.sampling of the run)")
      ->check(one_of({"ddpm", "ddim"}));
  sub->add_option("--eta", arguments.eta, "Pictures: noise that ddim adds, from 0 to 1")
      ->check(CLI::Range(0.0, 1.0));
  sub->add_option("--class", arguments.label,
                  "Pictures: the class of all of them, from 0 on (default: one after another)")
      ->check(not_below(0));
  sub->add_option("--threads", arguments.threads, "Threads of the kernels; 0: all cores")
      ->check(not_below(0));
  sub->add_option("--device", arguments.device, "What computes: auto, cpu or cuda")
      ->check(one_of({"auto", "cpu", "cuda"}));
  sub->callback([&] { commands.chosen = [&] { commands.actions.generate(commands.generate); }; });
}

void add_ckpt(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("ckpt", "Look after the checkpoints of a run");
  sub->require_subcommand(1);
  CkptArguments& arguments = commands.ckpt;
  const auto add = [&](const char* name, const char* what, void (*run)(const CkptArguments&)) {
    auto* action = sub->add_subcommand(name, what);
    action->add_option("RUN", arguments.path, "A run directory, or its folder of checkpoints")
        ->required();
    action->callback([&commands, run] { commands.chosen = [&, run] { run(commands.ckpt); }; });
    return action;
  };
  const auto add_step = [&](CLI::App* action, const char* what) {
    action->add_option("--step", arguments.step, what)->check(not_below(0));
  };
  add("ls", "List the checkpoints, the newest first, with the damaged ones",
      commands.actions.ckpt_ls);
  add_step(add("info", "Print what a checkpoint holds", commands.actions.ckpt_info),
           "The checkpoint of this step (default: the newest)");
  add_step(add("verify", "Read every byte and compare all hashes and digests",
               commands.actions.ckpt_verify),
           "Only the checkpoint of this step");
  add("prune", "Remove old checkpoints", commands.actions.ckpt_prune)
      ->add_option("--keep", arguments.keep, "How many of the newest healthy ones stay")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1000000}))
      ->capture_default_str();
}

void add_eval(CLI::App& app, Commands& commands) {
  auto* sub =
      app.add_subcommand("eval", "Print how well the model of a run predicts a text, or pictures");
  EvalArguments& arguments = commands.eval;
  sub->add_option("RUN", arguments.run_dir, "A run directory, or one checkpoint")->required();
  sub->add_option("--text", arguments.text,
                  "The text, or token numbers where the model has no tokenizer");
  sub->add_option("--data", arguments.data,
                  "Of a run that makes pictures: a file or folder of pictures");
  sub->add_option("--pictures", arguments.pictures,
                  "At most so many pictures, evenly spread (default: all)")
      ->check(not_below(1));
  sub->add_option("--step", arguments.step,
                  "The checkpoint of this step (default: the final weights)")
      ->check(not_below(0));
  sub->add_option("--window", arguments.window,
                  "Tokens that are seen together (default: data.seq_length of the run)")
      ->check(not_below(1));
  sub->add_flag("--json", arguments.json, "Print JSON, with the log-probability of each token");
  sub->add_option("--logits", arguments.logits, "Write all logits to this safetensors file");
  sub->add_option("--threads", arguments.threads, "Threads of the kernels; 0: all cores")
      ->check(not_below(0));
  sub->add_option("--device", arguments.device, "What computes: auto, cpu or cuda")
      ->check(one_of({"auto", "cpu", "cuda"}));
  sub->callback([&] { commands.chosen = [&] { commands.actions.eval(commands.eval); }; });
}

void add_report(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("report", "Write a page that shows a run, or compares several");
  ReportArguments& arguments = commands.report;
  sub->add_option("RUN", arguments.run_dirs, "Run directories")->required();
  sub->add_option("-o,--output", arguments.output, "The page, one HTML file")
      ->capture_default_str();
  sub->callback([&] { commands.chosen = [&] { commands.actions.report(commands.report); }; });
}

void add_export(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("export", "Write the model of a run for other tools");
  ExportArguments& arguments = commands.export_model;
  sub->add_option("RUN", arguments.run_dir, "A run directory, or one checkpoint")->required();
  sub->add_option("-o,--output", arguments.output, "A new folder")->required();
  sub->add_option(
         "--format", arguments.format,
         "hf: for transformers, a GPT2LMHeadModel or a LlamaForCausalLM and its like; safetensors: "
         "one file with our names, and what `generate` needs")
      ->check(one_of({"hf", "safetensors"}))
      ->capture_default_str();
  sub->add_option("--step", arguments.step,
                  "The checkpoint of this step (default: the final weights)")
      ->check(not_below(0));
  sub->add_option("--dtype", arguments.dtype,
                  "fp32, bf16 or fp16 (default: fp32; safetensors: as trained)")
      ->check(one_of({"fp32", "bf16", "fp16"}));
  sub->add_flag("--untie", arguments.untie,
                "Write the output head too where it is the token embedding, for readers that want "
                "it");
  sub->add_option("--max-shard-size", arguments.max_shard_size,
                  "Split into files of at most so many bytes, such as 5GB (default: one file)");
  sub->callback(
      [&] { commands.chosen = [&] { commands.actions.export_model(commands.export_model); }; });
}

void add_import(CLI::App& app, Commands& commands) {
  auto* sub =
      app.add_subcommand("import", "Turn a model of Hugging Face into one that Fourfold uses");
  ImportArguments& arguments = commands.import_model;
  sub->add_option(
         "DIR", arguments.folder,
         "A folder with config.json and model.safetensors of a GPT-2, Llama, Mistral, Qwen2 or "
         "Qwen3")
      ->required();
  sub->add_option("-o,--output", arguments.output,
                  "A new folder, for `generate` and for run.init_from")
      ->required();
  sub->callback(
      [&] { commands.chosen = [&] { commands.actions.import_model(commands.import_model); }; });
}

void add_trace(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("trace", "Look at timelines of steps, as `train --trace` writes");
  sub->require_subcommand(1);
  auto* summary = sub->add_subcommand("summary", "Print where the time of the steps went");
  summary->add_option("FILE", commands.trace_summary.path, "A trace, or a run directory with one")
      ->required();
  summary->add_option("--beside", commands.trace_summary.beside,
                      "What `simulate --trace` wrote of the same job: predicted beside measured");
  summary->add_flag("--json", commands.trace_summary.json, "Print all numbers as JSON");
  summary->callback(
      [&] { commands.chosen = [&] { commands.actions.trace_summary(commands.trace_summary); }; });
  auto* tasks = sub->add_subcommand("tasks", "Draw when each rank did its tasks of a step");
  tasks->add_option("FILE", commands.trace_tasks.path, "A trace, or a run directory with one")
      ->required();
  tasks->add_option("--step", commands.trace_tasks.step, "Which of its steps; the last one");
  tasks->callback(
      [&] { commands.chosen = [&] { commands.actions.trace_tasks(commands.trace_tasks); }; });
}

}  // namespace fourfold::command_line
