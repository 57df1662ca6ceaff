#include "cli/command_line.h"

#include <cstdio>
#include <functional>
#include <new>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "base/last_resort.h"
#include "cli/commands.h"
#include "command_line/carry_out.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

int report_error(ExitCode code, const std::string& message) {
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
    return report_error(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return report_out_of_memory(no_memory);
  } catch (const std::exception& error) {
    return report_error(ExitCode::internal, format("internal error: {}\nThis is a bug in Fourfold; "
                                                   "please report it with the configuration.",
                                                   error.what()));
  }
}

/// What each command of a line does.
constexpr command_line::Actions actions{
    .train = train,
    .generate = generate,
    .ckpt_ls = ckpt_ls,
    .ckpt_info = ckpt_info,
    .ckpt_verify = ckpt_verify,
    .ckpt_prune = ckpt_prune,
    .eval = eval,
    .report = report,
    .export_model = export_model,
    .import_model = import_model,
    .data_tokenize = data_tokenize,
    .data_train_tokenizer = data_train_tokenizer,
    .data_inspect = data_inspect,
    .data_verify = data_verify,
    .trace_summary = trace_summary,
    .trace_tasks = trace_tasks,
    .program = program,
    .plan = plan,
    .verify = verify,
    .simulate = simulate,
    .config_check = config_check,
    .config_show = config_show,
    .config_diff = config_diff,
    .config_explain = config_explain,
    .config_schema = config_schema,
    .config_new = config_new,
    .bench = bench,
    .machines = machines,
    .doctor = doctor,
    .completion = [](const std::string& script) { screen::print_text(script); }};

}  // namespace

int run(int argc, char** argv, const comm::Variable& variable) {
  const LastResort last_resort(no_memory);
  try {
    return guarded([&] { command_line::carry_out(argc, argv, variable, actions); });
  } catch (const std::bad_alloc&) {
    return report_out_of_memory(no_memory);
  }
}

}  // namespace fourfold::cli
