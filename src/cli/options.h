// What the files of options share: the library for command lines, the arguments of all subcommands,
// and checks of values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/completion.h"

namespace fourfold::cli {

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

/// Each adds a subcommand, with what it prints as help; where the line has it, `chosen` calls it.
void add_train(CLI::App& app, Commands& commands);
void add_generate(CLI::App& app, Commands& commands);
void add_ckpt(CLI::App& app, Commands& commands);
void add_eval(CLI::App& app, Commands& commands);
void add_report(CLI::App& app, Commands& commands);
void add_export(CLI::App& app, Commands& commands);
void add_import(CLI::App& app, Commands& commands);
void add_data(CLI::App& app, Commands& commands);
void add_trace(CLI::App& app, Commands& commands);
void add_program(CLI::App& app, Commands& commands);
void add_plan(CLI::App& app, Commands& commands);
void add_verify(CLI::App& app, Commands& commands);
void add_simulate(CLI::App& app, Commands& commands);
void add_config(CLI::App& app, Commands& commands);
void add_bench(CLI::App& app, Commands& commands);
void add_machines(CLI::App& app, Commands& commands);
void add_doctor(CLI::App& app, Commands& commands);
/// Reads all other commands off the app.
void add_completion(CLI::App& app, Commands& commands);
/// An example of each command, below its options.
void add_examples(CLI::App& app);
/// What completion and mistaken words need to know of a command.
CommandSpec command_spec(const CLI::App& app);

/// A value that is one of these; the completion reads them back from the check's name.
CLI::Validator one_of(const std::vector<std::string>& words);
/// CLI11's own checks name bounds that nobody has set.
CLI::Validator not_below(int least);
void add_set_option(CLI::App& app, ConfigSource& source);
void add_config_options(CLI::App& app, ConfigSource& source);
/// For subcommands that look at a job without starting it.
void add_ranks_option(CLI::App& app, std::optional<std::int64_t>& ranks);
void add_color_option(CLI::App& app, std::string& color);

}  // namespace fourfold::cli
