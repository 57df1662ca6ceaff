#include "command_line/options.h"

#include "base/format.h"
#include "base/text.h"
#include "config/schema.h"

namespace fourfold::command_line {

CLI::Validator one_of(const std::vector<std::string>& words) {
  CLI::Validator check = CLI::IsMember(words);
  return check.name(join(words, ","));
}

void add_set_option(CLI::App& app, job::ConfigSource& source) {
  app.add_option("--set", source.sets, "KEY=VALUE; overrides a key of the files, may be repeated")
      ->allow_extra_args(false);
}

CLI::Validator not_below(int least) {
  const auto fault = [least](std::string& text) {
    double value = 0;
    const bool is_fine = CLI::detail::lexical_cast(text, value) && value >= least;
    return is_fine ? std::string()
                   : format("expected a number of at least {}; got {}", least, text);
  };
  return {fault, ""};
}

void add_config_options(CLI::App& app, job::ConfigSource& source) {
  app.add_option("CONFIG", source.files, "YAML files, merged from left to right")->required();
  add_set_option(app, source);
}

void add_ranks_option(CLI::App& app, std::optional<std::int64_t>& ranks) {
  app.add_option("--ranks", ranks, "Ranks of the job (default: as many as the grid needs)")
      ->check(CLI::Range(std::int64_t{1}, config::most_ranks));
}

void add_color_option(CLI::App& app, std::string& color) {
  app.add_option("--color", color, "Colours: auto, always or never")
      ->check(one_of({"auto", "always", "never"}))
      ->capture_default_str();
}

}  // namespace fourfold::command_line
