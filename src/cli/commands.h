// One function a subcommand, each in the file of its name. They return when done and throw
// UserError otherwise. What they do with their arguments: command_line/arguments.h.
#pragma once

#include <string>

#include "command_line/arguments.h"
#include "job/config_source.h"
#include "training_run/train.h"

namespace fourfold::cli {

using command_line::BenchArguments;
using command_line::CkptArguments;
using command_line::CollectivesArguments;
using command_line::ConfigDiffArguments;
using command_line::ConfigExplainArguments;
using command_line::ConfigNewArguments;
using command_line::ConfigShowArguments;
using command_line::DoctorArguments;
using command_line::EvalArguments;
using command_line::ExportArguments;
using command_line::GenerateArguments;
using command_line::ImportArguments;
using command_line::InspectArguments;
using command_line::MachinesArguments;
using command_line::PlanArguments;
using command_line::ProgramArguments;
using command_line::ReportArguments;
using command_line::ReshardArguments;
using command_line::SimulateArguments;
using command_line::TokenizeArguments;
using command_line::TraceSummaryArguments;
using command_line::TraceTasksArguments;
using command_line::TrainTokenizerArguments;
using command_line::VerifyArguments;

void train(const training_run::TrainArguments& arguments);
void generate(const GenerateArguments& arguments);
void eval(const EvalArguments& arguments);
void export_model(const ExportArguments& arguments);
void import_model(const ImportArguments& arguments);
void data_tokenize(const TokenizeArguments& arguments);
void data_train_tokenizer(const TrainTokenizerArguments& arguments);
void data_inspect(const InspectArguments& arguments);
/// Reads every byte of a set of tokens or pictures and says that it is good.
void data_verify(const std::string& path);
void report(const ReportArguments& arguments);
void trace_summary(const TraceSummaryArguments& arguments);
void trace_tasks(const TraceTasksArguments& arguments);
void program(const ProgramArguments& arguments);
void plan(const PlanArguments& arguments);
void verify(const VerifyArguments& arguments);
void simulate(const SimulateArguments& arguments);
void bench(const BenchArguments& arguments);
void machines(const MachinesArguments& arguments);
/// Checks a configuration and says that it is good.
void config_check(const job::ConfigSource& source);
void config_show(const ConfigShowArguments& arguments);
void config_diff(const ConfigDiffArguments& arguments);
void config_explain(const ConfigExplainArguments& arguments);
/// Prints a JSON Schema of configuration files.
void config_schema();
void config_new(const ConfigNewArguments& arguments);
void doctor(const DoctorArguments& arguments);
void ckpt_ls(const CkptArguments& arguments);
void ckpt_info(const CkptArguments& arguments);
void ckpt_verify(const CkptArguments& arguments);
void ckpt_prune(const CkptArguments& arguments);

}  // namespace fourfold::cli
