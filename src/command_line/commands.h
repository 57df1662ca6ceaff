// What commands there are: what each does, and the arguments that a command line fills for it.
#pragma once

#include <functional>
#include <string>

#include "command_line/arguments.h"
#include "job/config_source.h"
#include "training_run/train.h"

namespace fourfold::command_line {

/// What each command does; none is null. They return when done and throw UserError otherwise.
struct Actions {
  void (*train)(const training_run::TrainArguments&) = nullptr;
  void (*generate)(const GenerateArguments&) = nullptr;
  void (*ckpt_ls)(const CkptArguments&) = nullptr;
  void (*ckpt_info)(const CkptArguments&) = nullptr;
  void (*ckpt_verify)(const CkptArguments&) = nullptr;
  void (*ckpt_prune)(const CkptArguments&) = nullptr;
  void (*eval)(const EvalArguments&) = nullptr;
  void (*report)(const ReportArguments&) = nullptr;
  void (*export_model)(const ExportArguments&) = nullptr;
  void (*import_model)(const ImportArguments&) = nullptr;
  void (*data_tokenize)(const TokenizeArguments&) = nullptr;
  void (*data_train_tokenizer)(const TrainTokenizerArguments&) = nullptr;
  void (*data_inspect)(const InspectArguments&) = nullptr;
  void (*data_verify)(const std::string& path) = nullptr;
  void (*trace_summary)(const TraceSummaryArguments&) = nullptr;
  void (*trace_tasks)(const TraceTasksArguments&) = nullptr;
  void (*program)(const ProgramArguments&) = nullptr;
  void (*plan)(const PlanArguments&) = nullptr;
  void (*verify)(const VerifyArguments&) = nullptr;
  void (*simulate)(const SimulateArguments&) = nullptr;
  void (*config_check)(const job::ConfigSource&) = nullptr;
  void (*config_show)(const ConfigShowArguments&) = nullptr;
  void (*config_diff)(const ConfigDiffArguments&) = nullptr;
  void (*config_explain)(const ConfigExplainArguments&) = nullptr;
  void (*config_schema)() = nullptr;
  void (*config_new)(const ConfigNewArguments&) = nullptr;
  void (*bench)(const BenchArguments&) = nullptr;
  void (*machines)(const MachinesArguments&) = nullptr;
  void (*doctor)(const DoctorArguments&) = nullptr;
  void (*completion)(const std::string& script) = nullptr;
};

/// All subcommands and the arguments they fill.
struct Commands {
  training_run::TrainArguments train;
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
  std::vector<std::string> verify_of;  // files of the configuration whose job a text is
  SimulateArguments simulate;
  std::string simulate_format = "text";
  job::ConfigSource config_check;
  ConfigShowArguments config_show;
  ConfigDiffArguments config_diff;
  ConfigExplainArguments config_explain;
  ConfigNewArguments config_new;
  DoctorArguments doctor;
  BenchArguments bench;
  MachinesArguments machines;
  std::string shell;  // of completion
  Actions actions;
  std::function<void()> chosen;  // one of them, with its arguments
};

}  // namespace fourfold::command_line
