#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <new>

#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/version.h"

namespace fourfold::cli {
namespace {

void add_config_options(CLI::App& app, ConfigSource& source) {
  app.add_option("CONFIG", source.files, "YAML files, merged from left to right")->required();
  app.add_option("--set", source.sets, "KEY=VALUE; overrides a key of the files, may be repeated")
      ->allow_extra_args(false);
}

/// All subcommands and the arguments they fill.
struct Commands {
  TrainArguments train;
  GenerateArguments generate;
  ProgramArguments program;
  PlanArguments plan;
  VerifyArguments verify;
  ConfigSource config_check;
  std::function<void()> chosen;
};

void add_train(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("train", "Train a model, save its weights, show a sample");
  add_config_options(*sub, commands.train.config);
  sub->add_flag("--overwrite", commands.train.overwrite,
                "Use the run directory even if it holds an earlier run");
  sub->add_flag("--dry-run", commands.train.dry_run,
                "Do everything that can fail except the training");
  sub->callback([&] { commands.chosen = [&] { cli::train(commands.train); }; });
}

void add_generate(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("generate", "Continue a text with the weights of a run");
  GenerateArguments& arguments = commands.generate;
  sub->add_option("RUN", arguments.run_dir, "Run directory of `train`")->required();
  sub->add_option("--prompt", arguments.prompt,
                  "Text to continue (default: sample.prompt of the run)");
  sub->add_option("--tokens", arguments.tokens, "Tokens to generate")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--temperature", arguments.temperature, "0: always the likeliest token")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--top-k", arguments.top_k, "Sample among the k likeliest tokens; 0: all")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--seed", arguments.seed, "Seed of the sampling");
  sub->add_option("--threads", arguments.threads, "Threads of the kernels; 0: all cores")
      ->check(CLI::NonNegativeNumber);
  sub->callback([&] { commands.chosen = [&] { cli::generate(commands.generate); }; });
}

void add_program(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("program", "Print the compiled step as text");
  add_config_options(*sub, commands.program.config);
  sub->add_option("--program", commands.program.program,
                  "init, train, evaluate, prefill, decode, digest, or all")
      ->capture_default_str();
  sub->callback([&] { commands.chosen = [&] { cli::program(commands.program); }; });
}

void add_plan(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("plan", "Print what a run would be, without running it");
  add_config_options(*sub, commands.plan.config);
  sub->callback([&] { commands.chosen = [&] { cli::plan(commands.plan); }; });
}

void add_verify(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand(
      "verify", "Prove the compiled programs free of races, lifetime and state faults");
  VerifyArguments& arguments = commands.verify;
  sub->add_option("CONFIG", arguments.config.files, "YAML files, merged from left to right");
  sub->add_option("--set", arguments.config.sets,
                  "KEY=VALUE; overrides a key of the files, may be repeated")
      ->allow_extra_args(false);
  sub->add_option("--text", arguments.program_text,
                  "Verify this program text instead of a configuration");
  sub->callback([&] {
    if (arguments.config.files.empty() == arguments.program_text.empty())
      throw CLI::ValidationError("verify", "give either CONFIG or --text FILE");
    commands.chosen = [&] { cli::verify(commands.verify); };
  });
}

void add_config(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("config", "Look at configurations");
  sub->require_subcommand(1);
  auto* check = sub->add_subcommand("check", "Check a configuration");
  add_config_options(*check, commands.config_check);
  check->callback([&] { commands.chosen = [&] { cli::config_check(commands.config_check); }; });
}

int report(ExitCode code, const std::string& message) {
  std::fflush(stdout);
  // A list of problems with their places says "error" in each line already.
  const bool marked = message.find("error: ") != std::string::npos;
  std::fprintf(stderr, "%s%s\n", marked ? "" : "error: ", message.c_str());
  return static_cast<int>(code);
}

/// Runs the chosen subcommand; every way to fail ends here.
int guarded(const std::function<void()>& command) {
  try {
    command();
    std::fflush(stdout);
    return static_cast<int>(ExitCode::done);
  } catch (const UserError& error) {
    return report(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return report(ExitCode::out_of_memory,
                  "error: out of memory; reduce train.micro_batch_size or the model");
  } catch (const std::exception& error) {
    return report(ExitCode::internal, format("internal error: {}\nThis is a bug in Fourfold; "
                                             "please report it with the configuration.",
                                             error.what()));
  }
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app(
      "Fourfold trains GPT models. The step is a program: compiled, verified, run, printed.",
      "fourfold");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.footer("Start with: fourfold train configs/gpt-quickstart.yaml");
  Commands commands;
  add_train(app, commands);
  add_generate(app, commands);
  add_program(app, commands);
  add_plan(app, commands);
  add_verify(app, commands);
  add_config(app, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::bad_config);
  }
  return guarded(commands.chosen);
}

}  // namespace fourfold::cli
