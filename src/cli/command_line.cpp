#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/format.h"
#include "base/last_resort.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/mistaken_words.h"
#include "compile/passes.h"
#include "config/schema.h"
#include "config/template.h"
#include "data/bad_pictures.h"
#include "job/build_info.h"
#include "machine/known_clusters.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

const std::vector<std::string> color_words = {"auto", "always", "never"},
                               shell_words = {"bash", "zsh", "fish"};

/// A value that is one of these; the completion reads them back from the check's name.
CLI::Validator one_of(const std::vector<std::string>& words) {
  CLI::Validator check = CLI::IsMember(words);
  return check.name(join(words, ","));
}

std::vector<std::string> pass_names(bool is_optional_only) {
  std::vector<std::string> names;
  for (const compile::Pass& pass : compile::passes())
    if (pass.is_optional || !is_optional_only) names.emplace_back(pass.name);
  return names;
}

void add_set_option(CLI::App& app, ConfigSource& source) {
  app.add_option("--set", source.sets, "KEY=VALUE; overrides a key of the files, may be repeated")
      ->allow_extra_args(false);
}

/// CLI11's own checks name bounds that nobody has set.
CLI::Validator not_below(int least) {
  const auto fault = [least](std::string& text) {
    double value = 0;
    const bool is_fine = CLI::detail::lexical_cast(text, value) && value >= least;
    return is_fine ? std::string()
                   : format("expected a number of at least {}; got {}", least, text);
  };
  return {fault, ""};
}

void add_config_options(CLI::App& app, ConfigSource& source) {
  app.add_option("CONFIG", source.files, "YAML files, merged from left to right")->required();
  add_set_option(app, source);
}

/// For subcommands that look at a job without starting it.
void add_ranks_option(CLI::App& app, std::optional<std::int64_t>& ranks) {
  app.add_option("--ranks", ranks, "Ranks of the job (default: as many as the grid needs)")
      ->check(CLI::Range(std::int64_t{1}, config::most_ranks));
}

void add_color_option(CLI::App& app, std::string& color) {
  app.add_option("--color", color, "Colours: auto, always or never")
      ->check(one_of(color_words))
      ->capture_default_str();
}

/// The library writes "INT:INT in [1 - 9]".
class HelpText : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    for (const char* kind : {"INT", "FLOAT"}) {
      const std::string twice = format("{}:{} in ", kind, kind);
      const std::size_t at = text.find(twice);
      if (at != text.npos) text.replace(at, twice.size(), format("{} in ", kind));
    }
    return text;
  }
};

/// All subcommands and the arguments they fill.
struct Commands {
  TrainArguments train;
  GenerateArguments generate;
  CkptArguments ckpt;
  EvalArguments eval;
  ReportArguments report;
  ExportArguments export_model;
  ImportArguments import_model;
  TokenizeArguments tokenize;
  TrainTokenizerArguments train_tokenizer;
  InspectArguments inspect;
  std::string verify_path;  // of data verify
  TraceSummaryArguments trace_summary;
  TraceTasksArguments trace_tasks;
  ProgramArguments program;
  PlanArguments plan;
  VerifyArguments verify;
  SimulateArguments simulate;
  std::string simulate_format = "text";
  ConfigSource config_check;
  ConfigShowArguments config_show;
  ConfigDiffArguments config_diff;
  ConfigExplainArguments config_explain;
  ConfigNewArguments config_new;
  DoctorArguments doctor;
  BenchArguments bench;
  MachinesArguments machines;
  std::string shell;  // of completion
  std::function<void()> chosen;
};

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
  sub->callback([&] { commands.chosen = [&] { cli::train(commands.train); }; });
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
  sub->callback([&] { commands.chosen = [&] { cli::generate(commands.generate); }; });
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
  add("ls", "List the checkpoints, the newest first, with the damaged ones", ckpt_ls);
  add_step(add("info", "Print what a checkpoint holds", ckpt_info),
           "The checkpoint of this step (default: the newest)");
  add_step(add("verify", "Read every byte and compare all hashes and digests", ckpt_verify),
           "Only the checkpoint of this step");
  add("prune", "Remove old checkpoints", ckpt_prune)
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
  sub->callback([&] { commands.chosen = [&] { cli::eval(commands.eval); }; });
}

void add_report(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("report", "Write a page that shows a run, or compares several");
  ReportArguments& arguments = commands.report;
  sub->add_option("RUN", arguments.run_dirs, "Run directories")->required();
  sub->add_option("-o,--output", arguments.output, "The page, one HTML file")
      ->capture_default_str();
  sub->callback([&] { commands.chosen = [&] { cli::report(commands.report); }; });
}

void add_export(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("export", "Write the model of a run for other tools");
  ExportArguments& arguments = commands.export_model;
  sub->add_option("RUN", arguments.run_dir, "A run directory, or one checkpoint")->required();
  sub->add_option("-o,--output", arguments.output, "A new folder")->required();
  sub->add_option("--format", arguments.format,
                  "hf: for GPT2LMHeadModel of transformers; safetensors: one file with our names, "
                  "and what `generate` needs")
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
  sub->callback([&] { commands.chosen = [&] { cli::export_model(commands.export_model); }; });
}

void add_import(CLI::App& app, Commands& commands) {
  auto* sub =
      app.add_subcommand("import", "Turn a GPT-2 of Hugging Face into a model that Fourfold uses");
  ImportArguments& arguments = commands.import_model;
  sub->add_option("DIR", arguments.folder,
                  "A folder with config.json and model.safetensors of a GPT-2")
      ->required();
  sub->add_option("-o,--output", arguments.output,
                  "A new folder, for `generate` and for run.init_from")
      ->required();
  sub->callback([&] { commands.chosen = [&] { cli::import_model(commands.import_model); }; });
}

void add_tokenize(CLI::App& data, Commands& commands) {
  auto* sub = data.add_subcommand("tokenize", "Make a set of tokens from texts");
  TokenizeArguments& arguments = commands.tokenize;
  sub->add_option("INPUT", arguments.inputs,
                  "Texts, folders of texts, JSON lines; also packed by gzip or zstd")
      ->required();
  sub->add_option("-o,--output", arguments.output,
                  "PREFIX: the set becomes PREFIX.bin, PREFIX.idx and PREFIX.json")
      ->required();
  sub->add_option("--tokenizer", arguments.tokenizer, "char, byte, sentencepiece or gpt2")
      ->required()
      ->check(one_of({"char", "byte", "sentencepiece", "gpt2"}));
  sub->add_option("--tokenizer-path", arguments.tokenizer_path,
                  "sentencepiece: its .model; gpt2: the folder of vocab.json and merges.txt");
  sub->add_option("--field", arguments.field, "The member of JSON lines that holds the text")
      ->capture_default_str();
  sub->add_option("--jobs", arguments.jobs, "Threads; 0: one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  sub->add_flag("--append-eod", arguments.append_eod,
                "End each document with the tokenizer's end-of-document token");
  sub->add_flag("--overwrite", arguments.overwrite, "Replace a set that is there");
  sub->callback([&] { commands.chosen = [&] { cli::data_tokenize(commands.tokenize); }; });
}

void add_train_tokenizer(CLI::App& data, Commands& commands) {
  auto* sub = data.add_subcommand("train-tokenizer", "Learn a sentencepiece tokenizer from texts");
  TrainTokenizerArguments& arguments = commands.train_tokenizer;
  sub->add_option("INPUT", arguments.inputs,
                  "Texts, folders of texts, JSON lines; also packed by gzip or zstd")
      ->required();
  sub->add_option("-o,--output", arguments.output, "The .model file to write")->required();
  sub->add_option("--vocab-size", arguments.vocab_size,
                  "Tokens; the result may have fewer, where the text has no more")
      ->required()
      ->check(CLI::Range(std::int64_t{260}, std::int64_t{1000000}));
  sub->add_option("--coverage", arguments.coverage,
                  "Share of the characters that get a token of their own; others become bytes")
      ->check(CLI::Range(0.5, 1.))
      ->capture_default_str();
  sub->add_option("--sample", arguments.sample_mib,
                  "Learn from at most so many MiB of the text, lines chosen evenly")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  sub->add_option("--field", arguments.field, "The member of JSON lines that holds the text")
      ->capture_default_str();
  sub->add_option(
         "--threads", arguments.threads,
         "Threads that prepare the lines; 0: one a core. The file says how many there were")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  sub->add_flag("--overwrite", arguments.overwrite, "Replace a file that is there");
  sub->callback(
      [&] { commands.chosen = [&] { cli::data_train_tokenizer(commands.train_tokenizer); }; });
}

CLI::Validator bad_images_check() {
  const auto fault = [](const std::string& text) {
    return data::bad_pictures_of(text)
               ? std::string()
               : format("'{}' is neither stop nor skip:N, such as skip:10", text);
  };
  return {fault, ""};
}

void add_data(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("data", "Prepare texts for training, and look at data");
  sub->require_subcommand(1);
  add_tokenize(*sub, commands);
  add_train_tokenizer(*sub, commands);
  auto* inspect = sub->add_subcommand("inspect", "Print what a file or folder of data holds");
  inspect
      ->add_option("PATH", commands.inspect.path,
                   "A set, shards, texts, pictures, or a tokenizer's model")
      ->required();
  inspect
      ->add_option("--field", commands.inspect.field,
                   "The member of JSON lines that holds the text")
      ->capture_default_str();
  inspect
      ->add_option("--bad-images", commands.inspect.bad_images,
                   "stop: the first bad picture is an error; skip:N: up to N are left out")
      ->check(bad_images_check())
      ->capture_default_str();
  inspect->callback([&] { commands.chosen = [&] { cli::data_inspect(commands.inspect); }; });
  auto* verify = sub->add_subcommand("verify", "Read every byte of a set and check it");
  verify
      ->add_option("PATH", commands.verify_path,
                   "Tokens: the name of PATH.bin and PATH.idx; or pictures")
      ->required();
  verify->callback([&] { commands.chosen = [&] { cli::data_verify(commands.verify_path); }; });
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
  summary->callback([&] { commands.chosen = [&] { cli::trace_summary(commands.trace_summary); }; });
  auto* tasks = sub->add_subcommand("tasks", "Draw when each rank did its tasks of a step");
  tasks->add_option("FILE", commands.trace_tasks.path, "A trace, or a run directory with one")
      ->required();
  tasks->add_option("--step", commands.trace_tasks.step, "Which of its steps; the last one");
  tasks->callback([&] { commands.chosen = [&] { cli::trace_tasks(commands.trace_tasks); }; });
}

void add_program(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("program", "Print the compiled step as text");
  add_config_options(*sub, commands.program.config);
  auto* name = sub->add_option("--program", commands.program.program,
                               "init, train, evaluate, prefill, decode, digest, or all")
                   ->capture_default_str();
  auto* rank = sub->add_option("--rank", commands.program.rank, "The rank whose program is printed")
                   ->check(not_below(0))
                   ->capture_default_str();
  auto* job = sub->add_flag("--job", commands.program.of_job,
                            "Print all programs of all ranks, those of like ranks once")
                  ->excludes(name)
                  ->excludes(rank);
  sub->add_option("--after", commands.program.after,
                  "Print what this pass of the compiler has made, for the first rank")
      ->check(one_of(pass_names(false)))
      ->excludes(job)
      ->excludes(rank);
  sub->add_option("--without", commands.program.without,
                  "Leave out this pass of the compiler; may be repeated")
      ->check(one_of(pass_names(true)))
      ->allow_extra_args(false);
  add_ranks_option(*sub, commands.program.ranks);
  sub->callback([&] { commands.chosen = [&] { cli::program(commands.program); }; });
}

void add_plan(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("plan", "Print what a run would be, without running it");
  PlanArguments& arguments = commands.plan;
  add_config_options(*sub, arguments.config);
  add_ranks_option(*sub, arguments.ranks);
  sub->add_option(
      "--machine", arguments.machine,
      "Price every legal grid on this machine: a name of `fourfold machines`, or a file");
  sub->add_option("--nodes", arguments.nodes, "Nodes of the machine, in place of --ranks")
      ->check(CLI::Range(std::int64_t{1}, config::most_ranks))
      ->excludes("--ranks");
  sub->add_option("--top", arguments.top, "With --machine: show so many grids (default: 10)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  sub->add_option(
         "--simulate", arguments.simulated,
         "With --machine: compile and simulate so many of the best by each formula (default: as "
         "many as are shown; 0: closed forms alone)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}));
  sub->add_option("--tokens", arguments.tokens,
                  "With --machine: say what training on so many tokens takes, as 300B")
      ->type_name("T");
  sub->add_option("--explain", arguments.explain,
                  "With --machine: say why one place of the list is faster than another")
      ->expected(2)
      ->type_name("A B");
  sub->add_option("--format", arguments.format,
                  "With --machine: text, or json in seconds and bytes")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  sub->callback([&] { commands.chosen = [&] { cli::plan(commands.plan); }; });
}

void add_verify(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand(
      "verify", "Prove the programs of all ranks free of races, deadlocks and wrong sums");
  VerifyArguments& arguments = commands.verify;
  sub->add_option("CONFIG", arguments.config.files, "YAML files, merged from left to right");
  sub->add_option("--set", arguments.config.sets,
                  "KEY=VALUE; overrides a key of the files, may be repeated")
      ->allow_extra_args(false);
  add_ranks_option(*sub, arguments.ranks);
  sub->add_option("--text", arguments.program_text,
                  "Verify this program text instead of a configuration");
  sub->callback([&] {
    if (arguments.config.files.empty() == arguments.program_text.empty())
      throw CLI::ValidationError("verify", "give either CONFIG or --text FILE");
    commands.chosen = [&] { cli::verify(commands.verify); };
  });
}

void add_simulate(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand(
      "simulate", "Say what the step takes on a machine that is not at hand, without running it");
  SimulateArguments& arguments = commands.simulate;
  sub->add_option("CONFIG", arguments.config.files, "YAML files, merged from left to right");
  add_set_option(*sub, arguments.config);
  sub->add_option("--machine", arguments.machine,
                  "A machine by name, or a file that describes one; without it: the names");
  add_ranks_option(*sub, arguments.ranks);
  sub->add_option("--text", arguments.program_text,
                  "Price the job of this text, as `program --job` prints, instead of a "
                  "configuration");
  sub->add_option("--trace", arguments.trace,
                  "Write the timeline of the step to this file, for `trace summary` and Perfetto");
  sub->add_option("--sweep", arguments.sweep,
                  "One line for each number of ranks, as ranks=64,128,256; parallel.data follows");
  sub->add_option("--format", commands.simulate_format, "text or json")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  sub->add_flag("--all-ranks", arguments.all_ranks,
                "Follow every rank, not one of each class of like ranks; --trace then has all");
  sub->add_flag("--verbose", arguments.is_verbose, "Say what the simulation itself took");
  sub->callback([&] {
    if (arguments.config.files.empty() == arguments.program_text.empty())
      throw CLI::ValidationError("simulate", "give either CONFIG or --text FILE");
    if (!arguments.program_text.empty() &&
        (arguments.ranks || !arguments.sweep.empty() || !arguments.config.sets.empty()))
      throw CLI::ValidationError("--text", "is a whole job; leave --ranks, --sweep and --set out");
    if (!arguments.sweep.empty() && (arguments.ranks || !arguments.trace.empty()))
      throw CLI::ValidationError("--sweep", "is of several jobs; leave --ranks and --trace out");
    arguments.is_json = commands.simulate_format == "json";
    commands.chosen = [&] { cli::simulate(commands.simulate); };
  });
}

void add_config(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("config", "Look at configurations");
  sub->require_subcommand(1);
  auto* check = sub->add_subcommand("check", "Check a configuration");
  add_config_options(*check, commands.config_check);
  check->callback([&] { commands.chosen = [&] { cli::config_check(commands.config_check); }; });

  auto* show = sub->add_subcommand("show", "Print every setting and where its value comes from");
  show->add_option("CONFIG", commands.config_show.config.files,
                   "YAML files, merged from left to right, or the folder of a run")
      ->required();
  add_set_option(*show, commands.config_show.config);
  show->add_flag("--plain", commands.config_show.plain, "Leave out where values come from");
  show->callback([&] { commands.chosen = [&] { cli::config_show(commands.config_show); }; });

  auto* diff = sub->add_subcommand("diff", "Print the settings in which two configurations differ");
  diff->add_option("A", commands.config_diff.left,
                   "A YAML file, or the folder of a run, whose sessions are all compared")
      ->required();
  diff->add_option("B", commands.config_diff.right, "The other one, a file or a folder too")
      ->required();
  diff->callback([&] { commands.chosen = [&] { cli::config_diff(commands.config_diff); }; });

  auto* explain = sub->add_subcommand("explain", "Say what a key means and costs");
  explain->add_option("KEY", commands.config_explain.key,
                      "A key or a section, such as model.num_layers or model (default: all)");
  explain->add_flag("--markdown", commands.config_explain.markdown,
                    "Print the page configs/KEYS.md");
  explain->callback(
      [&] { commands.chosen = [&] { cli::config_explain(commands.config_explain); }; });

  auto* schema = sub->add_subcommand("schema", "Print a JSON Schema, for editors");
  schema->callback([&] { commands.chosen = [] { cli::config_schema(); }; });

  auto* make = sub->add_subcommand("new", "Write a commented configuration to start from");
  make->add_option("--model", commands.config_new.model, "The family of the model")
      ->capture_default_str();
  make->add_option("--size", commands.config_new.size,
                   "Parameters: " + join(config::template_sizes(model::Kind::gpt), ", ") +
                       " (default: 124M); of a unet " +
                       join(config::template_sizes(model::Kind::unet), ", "));
  make->add_option("-o,--output", commands.config_new.output,
                   "A new file (default: standard output)");
  make->callback([&] { commands.chosen = [&] { cli::config_new(commands.config_new); }; });
}

/// The options of `bench reshard`, and what says that one of them was given.
std::function<bool()> add_reshard_options(CLI::App& sub, ReshardArguments& arguments) {
  std::vector<CLI::Option*> options{
      sub.add_option("--case", arguments.cases, "reshard: of the paper's Table 2 (default: all)")
          ->delimiter(',')
          ->check(CLI::Range(1, 9)),
      sub.add_option("--bytes", arguments.bytes,
                     "reshard: of a case's tensor, at most; its dims are halved until it fits")
          ->capture_default_str(),
      sub.add_option("--from", arguments.from, "reshard: a sharding spec in place of a case: S0RR"),
      sub.add_option("--from-mesh", arguments.from_mesh, "reshard: 2x4, a row for each host"),
      sub.add_option("--to", arguments.to, "reshard: the spec on the other mesh"),
      sub.add_option("--to-mesh", arguments.to_mesh, "reshard: the other mesh"),
      sub.add_option("--shape", arguments.shape, "reshard: of that tensor: 256,256,128")
          ->delimiter(',')
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24)),
      sub.add_option("--strategy", arguments.strategies,
                     "reshard: send_recv, local_all_gather, global_all_gather, broadcast, signal, "
                     "alpa (default: all)")
          ->delimiter(',')
          ->check(one_of({"send_recv", "local_all_gather", "global_all_gather", "broadcast",
                          "signal", "alpa"})),
      sub.add_option("--order", arguments.ordering, "reshard: how senders and order are chosen")
          ->check(one_of({"naive", "balance_only", "depth_first", "greedy", "best"}))
          ->capture_default_str(),
      sub.add_option("--chunks", arguments.chunks, "reshard: of each broadcast, or auto")
          ->capture_default_str(),
      sub.add_option("--rate", arguments.rate, "reshard: of a host's port, for the plan")
          ->capture_default_str(),
      sub.add_option("--latency", arguments.latency, "reshard: between hosts, for the plan")
          ->capture_default_str(),
      sub.add_option("--inside", arguments.inside, "reshard: rate within a host, for the plan")
          ->capture_default_str(),
      sub.add_flag("--no-turns", arguments.is_free,
                   "reshard: ranks of a host do not wait for each other, whatever the order"),
      sub.add_flag("--plan", arguments.is_plan, "reshard: print the plans, move nothing")};
  return [options] {
    return std::ranges::any_of(options,
                               [](const CLI::Option* option) { return option->count() > 0; });
  };
}

void add_bench(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("bench",
                                 "Measure kernels, and compare them with what this machine can do");
  BenchArguments& arguments = commands.bench;
  sub->add_option("WHAT", arguments.what,
                  "gemm: products; attention; kernels: all of a step; copy: the machine's "
                  "ceilings; step: ten steps of training; machine: a file of this machine, as a "
                  "cluster; reshard: a tensor from one mesh to another")
      ->required()
      ->check(one_of({"gemm", "attention", "kernels", "copy", "step", "machine", "reshard"}));
  sub->add_option("CONFIG", arguments.config.files,
                  "Whose step (default: a small and a large GPT's)");
  add_set_option(*sub, arguments.config);
  sub->add_option("--threads", arguments.threads, "Threads of the kernels; 0: as configured")
      ->check(CLI::Range(0, 4096));
  sub->add_option(
         "--dtype", arguments.dtype,
         "fp32 or fp64; on a GPU bf16, fp32, or tf32: fp32 with products of rounded operands "
         "(default: as configured)")
      ->check(one_of({"fp32", "fp64", "bf16", "tf32"}));
  sub->add_option("--seconds", arguments.seconds, "To measure each kernel for")
      ->check(CLI::Range(0.001, 60.))
      ->capture_default_str();
  sub->add_option("--device", arguments.device, "cpu, or cuda: the first GPU")
      ->check(one_of({"cpu", "cuda"}))
      ->capture_default_str();
  sub->add_option("-o,--output", arguments.output,
                  "Write which kernel is best for each product, for run.kernel_table; or the "
                  "machine's file");
  sub->add_option("--ranks", arguments.ranks,
                  "machine: ranks, as threads of this process (default: one a core)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}));
  sub->add_flag("--job", arguments.is_job,
                "machine, step, reshard: the ranks are the processes of mpirun or srun");
  sub->add_flag("--quick", arguments.is_quick,
                "machine: small sizes and no care, to try it; the figures mean nothing");
  sub->add_option("--format", arguments.format,
                  "step, reshard: text, or json: all figures in seconds")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  const auto has_reshard = add_reshard_options(*sub, arguments.reshard);
  sub->callback([&, has_reshard] {
    const bool is_cuda = arguments.device == "cuda";
    const bool is_step = arguments.what == "step", is_reshard = arguments.what == "reshard";
    if (!is_reshard && has_reshard())
      throw CLI::ValidationError("bench",
                                 "--case, --from and what follows them go with reshard alone");
    if (is_reshard && (is_cuda || arguments.threads > 0 || !arguments.dtype.empty() ||
                       !arguments.config.files.empty() || !arguments.config.sets.empty()))
      throw CLI::ValidationError(
          "bench",
          "reshard moves elements of 4 bytes between CPUs; leave CONFIG and other options "
          "out");
    if (is_step && (is_cuda || !arguments.dtype.empty()))
      throw CLI::ValidationError("bench",
                                 "step computes as the configuration says; set run.device and "
                                 "precision.compute in place of --device and --dtype");
    if (is_step && arguments.config.files.empty())
      throw CLI::ValidationError("bench", "step needs a CONFIG");
    if (!is_step && !is_reshard && arguments.format != "text")
      throw CLI::ValidationError("bench", "--format goes with step or reshard");
    const bool has_step = !(arguments.config.files.empty() && arguments.config.sets.empty() &&
                            arguments.dtype.empty() && arguments.output.empty());
    if (is_cuda && arguments.what != "kernels" && has_step)
      throw CLI::ValidationError(
          "bench",
          "--device cuda measures fixed sizes in all types; leave CONFIG and "
          "options out, or measure kernels in place of " +
              arguments.what);
    const std::vector<std::string> types = is_cuda
                                               ? std::vector<std::string>{"bf16", "fp32", "tf32"}
                                               : std::vector<std::string>{"fp32", "fp64"};
    if (!arguments.dtype.empty() && std::ranges::find(types, arguments.dtype) == types.end())
      throw CLI::ValidationError("--dtype", format("is '{}'; on this device choose {}",
                                                   arguments.dtype, join(types, ", ")));
    const bool is_machine = arguments.what == "machine";
    if (!arguments.output.empty() && !is_machine && arguments.what != "gemm" &&
        arguments.what != "kernels")
      throw CLI::ValidationError("bench", "--output goes with gemm, kernels or machine");
    if (!is_machine && (arguments.ranks > 0 || (arguments.is_job && !is_step && !is_reshard) ||
                        arguments.is_quick))
      throw CLI::ValidationError("bench",
                                 "--ranks and --quick go with machine, --job with machine, step or "
                                 "reshard");
    if (is_machine && (is_cuda || !arguments.dtype.empty() || !arguments.config.files.empty() ||
                       !arguments.config.sets.empty()))
      throw CLI::ValidationError(
          "bench", "machine measures ranks on CPUs, in fp32 and fp64; leave other options out");
    if (arguments.is_job && arguments.ranks > 0)
      throw CLI::ValidationError("bench",
                                 "--job takes its ranks from the launcher; leave --ranks "
                                 "out");
    commands.chosen = [&] { cli::bench(commands.bench); };
  });
}

void add_machines(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("machines", "List the clusters that are known, or show one");
  MachinesArguments& arguments = commands.machines;
  sub->add_option("MACHINE", arguments.machine,
                  "A name of the list, or a file such as `bench machine` writes");
  sub->add_option("--format", arguments.format, "text, or json: all figures in bytes and seconds")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
  sub->callback([&] { commands.chosen = [&] { cli::machines(commands.machines); }; });
}

void add_doctor(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("doctor", "Say whether this build and this machine can work");
  add_color_option(*sub, commands.doctor.color);
  sub->callback([&] { commands.chosen = [&] { cli::doctor(commands.doctor); }; });
}

/// What an option takes, where one_of says so: "TEXT:{auto,cpu,cuda}"; a key of --override, a
/// machine that is known.
std::vector<std::string> words_of(const CLI::Option& option) {
  std::vector<std::string> words;
  if (option.get_name() == "--override") {
    words = config::sections();
    for (const config::Key& key : config::keys()) words.push_back(key.path);
  }
  if (option.get_name() == "MACHINE" || option.get_name() == "--machine")
    for (const machine::KnownCluster& known : machine::known_clusters())
      words.push_back(known.name);
  std::string type = option.get_type_name();
  const std::size_t colon = type.find(':');
  if (colon == type.npos || type.find(',') == type.npos || type.find(" - ") != type.npos)
    return words;
  type = type.substr(colon + 1);
  std::erase_if(type, [](char letter) { return letter == '{' || letter == '}'; });
  return split(type, ',');
}

OptionSpec option_spec(const CLI::Option& option) {
  OptionSpec spec;
  for (const std::string& name : option.get_snames()) spec.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    spec.names.insert(spec.names.begin(), "--" + name);
  spec.meaning = option.get_description();
  spec.takes_value = option.get_expected_max() > 0 && option.get_type_size_max() > 0;
  spec.values = words_of(option);
  return spec;
}

/// A command's own word in place of a file: a shell, or what is measured; a key.
std::vector<std::string> words_behind(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) continue;
    for (std::string& word : words_of(*option)) words.push_back(std::move(word));
    if (option->get_name() == "KEY")
      for (const config::Key& key : config::keys()) words.push_back(key.path);
  }
  return words;
}

/// What completion needs to know of a command.
CommandSpec command_spec(const CLI::App& app) {
  CommandSpec spec{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional()) spec.options.push_back(option_spec(*option));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    spec.commands.push_back(command_spec(*sub));
  spec.words = words_behind(app);
  return spec;
}

void add_completion(CLI::App& app, Commands& commands) {
  auto* sub =
      app.add_subcommand("completion", "Print a script by which a shell completes commands");
  sub->add_option("SHELL", commands.shell, "bash, zsh or fish")
      ->required()
      ->check(one_of(shell_words));
  sub->callback([&] {
    commands.chosen = [&] {
      std::vector<KeySpec> keys;
      for (const config::Key& key : config::keys())
        keys.push_back({key.path, config::value_words(key)});
      CommandSpec root = command_spec(app);
      CommandSpec help{"help", "Show the options of a command", {}, {}};
      for (const CommandSpec& command : root.commands) help.words.push_back(command.name);
      root.commands.push_back(std::move(help));
      const std::string script = completion_script(commands.shell, root, keys);
      screen::print_text(script);
    };
  });
}

struct Example {
  std::vector<const char*> path;
  const char* command;
};

/// One for each command, below its options.
void add_examples(CLI::App& app) {
  for (const Example& example : std::vector<Example>{
           {{"train"},
            "train configs/gpt-quickstart.yaml --set run.name=slow --set optimizer.lr=3e-4"},
           {{"generate"},
            "generate runs/gpt-quickstart --prompt \"In the beginning\" --tokens 100"},
           {{"ckpt"}, "ckpt ls runs/gpt-quickstart"},
           {{"ckpt", "ls"}, "ckpt ls runs/gpt-quickstart"},
           {{"ckpt", "info"}, "ckpt info runs/gpt-quickstart --step 500"},
           {{"ckpt", "verify"}, "ckpt verify runs/gpt-quickstart"},
           {{"ckpt", "prune"}, "ckpt prune runs/gpt-quickstart --keep 2"},
           {{"eval"}, "eval runs/gpt-quickstart --text data/bible.txt"},
           {{"report"}, "report runs/gpt-quickstart runs/slow -o compared.html"},
           {{"export"}, "export runs/gpt-quickstart -o gpt-quickstart-hf --dtype bf16"},
           {{"import"}, "import gpt-quickstart-hf -o runs/imported"},
           {{"data"}, "data inspect data/bible.txt"},
           {{"data", "tokenize"},
            "data tokenize data/bible.txt -o data/bible --tokenizer sentencepiece --tokenizer-path "
            "data/bible.model --append-eod"},
           {{"data", "train-tokenizer"},
            "data train-tokenizer data/bible.txt -o data/bible.model --vocab-size 1000"},
           {{"data", "inspect"}, "data inspect data/bible.txt"},
           {{"data", "verify"}, "data verify data/bible"},
           {{"trace"}, "trace summary runs/look"},
           {{"trace", "summary"}, "trace summary runs/look --json"},
           {{"trace", "tasks"}, "trace tasks runs/look --step 3"},
           {{"program"}, "program configs/gpt-quickstart.yaml --program all --rank 1"},
           {{"plan"}, "plan configs/paper/gpt-20b.yaml --machine perlmutter-40gb --ranks 32"},
           {{"verify"}, "verify configs/paper/gpt-80b.yaml"},
           {{"simulate"}, "simulate configs/paper/gpt-80b.yaml --machine perlmutter-40gb"},
           {{"config"}, "config explain optimizer.lr"},
           {{"config", "check"}, "config check mine.yaml --set train.steps=500"},
           {{"config", "show"}, "config show runs/gpt-quickstart"},
           {{"config", "diff"}, "config diff mine.yaml runs/gpt-quickstart"},
           {{"config", "explain"}, "config explain optimizer.lr"},
           {{"config", "schema"}, "config schema > fourfold.schema.json"},
           {{"config", "new"}, "config new --size 124M -o mine.yaml"},
           {{"bench"}, "bench step configs/gpt-tiny.yaml"},
           {{"machines"}, "machines perlmutter-40gb"},
           {{"doctor"}, "doctor"},
           {{"completion"}, "completion bash > fourfold.bash"}}) {
    CLI::App* command = &app;
    for (const char* name : example.path) command = command->get_subcommand(name);
    command->footer(format("Example:\n  fourfold {}", example.command));
  }
}

/// "help train" is "train --help". What is no command is left alone, and refused as one.
std::vector<std::string> words_of_line(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const auto within = command->get_subcommands([](const CLI::App*) { return true; });
    if (within.empty()) break;
    const auto named = std::ranges::find(within, word, &CLI::App::get_name);
    if (named == within.end()) return words;
    command = *named;
  }
  words.emplace_back("--help");
  return words;
}

int report(ExitCode code, const std::string& message) {
  if (code == ExitCode::stopped && !message.empty())
    screen::print("%s\n", message.c_str());
  else
    screen::report_error(message);
  return static_cast<int>(code);
}

constexpr const char* no_memory =
    "error: out of memory; reduce train.micro_batch_size or the model\n";

/// Runs the chosen subcommand; every way to fail ends here.
int guarded(const std::function<void()>& command) {
  try {
    command();
    std::fflush(stdout);
    return static_cast<int>(ExitCode::done);
  } catch (const UserError& error) {
    return report(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return report_out_of_memory(no_memory);
  } catch (const std::exception& error) {
    return report(ExitCode::internal, format("internal error: {}\nThis is a bug in Fourfold; "
                                             "please report it with the configuration.",
                                             error.what()));
  }
}

/// What is wrong with a command line, and what to do.
std::string what_is_mistaken(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* deepest = &app;
  std::vector<std::string> path;
  for (auto subs = app.get_subcommands(); !subs.empty(); subs = deepest->get_subcommands()) {
    deepest = subs.front();
    path.push_back(deepest->get_name());
  }
  // The library gives them from the outermost command inwards, as they stand in the line.
  std::vector<std::string> words = app.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      (!words.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr))
    return mistaken_words(command_spec(app), path, words);
  std::string command = "fourfold";
  for (const std::string& name : path) command += " " + name;
  std::vector<std::string> names;
  for (const CLI::App* sub : deepest->get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  const std::string what = names.empty()
                               ? std::string(error.what())
                               : format("{} needs a subcommand: {}", command, join(names, ", "));
  return format("error: {}\n({} --help says more)", what, command);
}

}  // namespace

namespace {

int run_chosen(int argc, char** argv, const comm::Variable& variable) {
  CLI::App app(
      "Fourfold trains GPT, VGG and U-Net models. The step is a program: compiled, verified, run, "
      "printed.",
      "fourfold");
  app.formatter(std::make_shared<HelpText>());
  app.set_version_flag("--version", job::version_text,
                       "Print what this binary is and was built with");
  app.require_subcommand(1);
  app.footer(
      "Start with: fourfold train configs/gpt-quickstart.yaml\n"
      "Keys of a configuration: fourfold config explain [KEY]");
  Commands commands;
  commands.train.launcher = comm::launcher_facts(variable);
  commands.train.variable = variable;
  commands.bench.launcher = comm::launcher_facts(variable);
  commands.bench.variable = variable;
  commands.doctor.variable = variable;
  commands.tokenize.variable = variable;
  commands.eval.variable = variable;
  commands.generate.variable = variable;
  commands.ckpt.variable = variable;
  commands.train_tokenizer.variable = variable;
  commands.train.command.assign(argv, argv + argc);
  add_train(app, commands);
  add_generate(app, commands);
  add_ckpt(app, commands);
  add_eval(app, commands);
  add_report(app, commands);
  add_export(app, commands);
  add_import(app, commands);
  add_data(app, commands);
  add_trace(app, commands);
  add_program(app, commands);
  add_plan(app, commands);
  add_verify(app, commands);
  add_simulate(app, commands);
  add_config(app, commands);
  add_bench(app, commands);
  add_machines(app, commands);
  add_doctor(app, commands);
  add_completion(app, commands);
  add_examples(app);
  try {
    std::vector<std::string> words = words_of_line(app, argc, argv);
    std::reverse(words.begin(), words.end());  // as the library wants them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return report(ExitCode::bad_config, what_is_mistaken(app, error));
  }
  return guarded(commands.chosen);
}

}  // namespace

int run(int argc, char** argv, const comm::Variable& variable) {
  const LastResort last_resort(no_memory);
  try {
    return run_chosen(argc, argv, variable);
  } catch (const std::bad_alloc&) {
    return report_out_of_memory(no_memory);
  }
}

}  // namespace fourfold::cli
