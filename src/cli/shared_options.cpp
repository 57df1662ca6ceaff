#include "cli/shared_options.h"

#include "base/error.h"
#include "base/format.h"
#include "config/schema.h"
#include "machine/known_clusters.h"

namespace fourfold::cli {

void add_set_option(OptionList& options, job::ConfigSource& source) {
  options.add("--set", source.sets, "KEY=VALUE; overrides a key of the files, may be repeated",
              {.takes_one = true});
}

void add_config_options(OptionList& options, job::ConfigSource& source) {
  options.add("CONFIG", source.files, yaml_files, {.is_required = true});
  add_set_option(options, source);
}

void add_ranks_option(OptionList& options, std::optional<std::int64_t>& ranks) {
  options.add("--ranks", ranks, "Ranks of the job (default: as many as the grid needs)",
              {.within = Whole{1, config::most_ranks}});
}

void add_color_option(OptionList& options, std::string& color) {
  options.add("--color", color, "Colours: auto, always or never",
              {.shows_default = true, .one_of = "auto,always,never"});
}

void add_format_option(OptionList& options, std::string& format, const std::string& meaning) {
  options.add("--format", format, meaning, {.shows_default = true, .one_of = "text,json"});
}

void add_run_option(OptionList& options, std::string& run_dir) {
  options.add("RUN", run_dir, "A run directory, or one checkpoint", {.is_required = true});
}

void add_step_option(OptionList& options, std::optional<std::int64_t>& step) {
  options.add("--step", step, "The checkpoint of this step (default: the final weights)",
              {.within = Least{0}});
}

void add_machine_options(OptionList& options, int& threads, std::string& device) {
  options.add("--threads", threads, "Threads of the kernels; 0: all cores", {.within = Least{0}});
  options.add("--device", device, "What computes: auto, cpu or cuda", {.one_of = "auto,cpu,cuda"});
}

void add_field_option(OptionList& options, std::string& field) {
  options.add("--field", field, "The member of JSON lines that holds the text",
              {.shows_default = true});
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const machine::KnownCluster& known : machine::known_clusters()) names.push_back(known.name);
  return names;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const config::Key& key : config::keys()) names.push_back(key.path);
  return names;
}

void refuse_options(std::initializer_list<std::pair<const char*, bool>> given, const char* of,
                    const char* makes) {
  for (const auto& [option, is_given] : given)
    if (is_given)
      throw UserError(ExitCode::bad_config, format("{} is an option for {}, but the model of this "
                                                   "run makes {}; leave it out",
                                                   option, of, makes));
}

}  // namespace fourfold::cli
