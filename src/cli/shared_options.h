// Options that several commands have, with the same words.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/option_list.h"
#include "job/config_source.h"

namespace fourfold::cli {

inline constexpr const char* yaml_files = "YAML files, merged from left to right";

void add_set_option(OptionList& options, job::ConfigSource& source);
/// Configurations, of which the line must name one, and --set.
void add_config_options(OptionList& options, job::ConfigSource& source);
/// For commands that look at a job without starting it.
void add_ranks_option(OptionList& options, std::optional<std::int64_t>& ranks);
void add_color_option(OptionList& options, std::string& color);
void add_format_option(OptionList& options, std::string& format, const std::string& meaning);
/// The run whose model a command takes, and the step of it.
void add_run_option(OptionList& options, std::string& run_dir);
void add_step_option(OptionList& options, std::optional<std::int64_t>& step);
/// How much of this machine a model gets: threads and device.
void add_machine_options(OptionList& options, int& threads, std::string& device);
/// For commands that read texts.
void add_field_option(OptionList& options, std::string& field);

/// What completion offers for a machine and for a key.
std::vector<std::string> machine_names();
std::vector<std::string> key_names();

/// Refuses options for what the model does not make, each with whether it was given: `of` are
/// "pictures" where it makes "texts". Errors: UserError(bad_config).
void refuse_options(std::initializer_list<std::pair<const char*, bool>> given, const char* of,
                    const char* makes);

}  // namespace fourfold::cli
