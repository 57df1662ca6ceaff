// What the files of options share: the library for command lines, what adds a subcommand, and
// checks of values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command_line/commands.h"
#include "command_line/completion.h"
#include "job/config_source.h"

namespace fourfold::command_line {

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
void add_set_option(CLI::App& app, job::ConfigSource& source);
void add_config_options(CLI::App& app, job::ConfigSource& source);
/// For subcommands that look at a job without starting it.
void add_ranks_option(CLI::App& app, std::optional<std::int64_t>& ranks);
void add_color_option(CLI::App& app, std::string& color);

}  // namespace fourfold::command_line
