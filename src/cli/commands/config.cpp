#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/shared_options.h"
#include "config/explain.h"
#include "config/family.h"
#include "config/json_schema.h"
#include "config/print.h"
#include "config/schema.h"
#include "config/template.h"
#include "job/check_plan.h"
#include "job/config_source.h"
#include "rundir/value_spans.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

struct ConfigShowArguments {
  job::ConfigSource config;
  bool plain = false;
};

struct ConfigDiffArguments {
  std::string left, right;
};

struct ConfigExplainArguments {
  std::string key;
  bool markdown = false;
};

struct ConfigNewArguments {
  std::string model{model::families.front().name}, output;
  std::optional<std::string> size;
};

struct NoArguments {};

void list_options(OptionList& options, ConfigShowArguments& given) {
  options.add("CONFIG", given.config.files,
              "YAML files, merged from left to right, or the folder of a run",
              {.is_required = true});
  add_set_option(options, given.config);
  options.add("--plain", given.plain, "Leave out where values come from");
}

void list_options(OptionList& options, ConfigDiffArguments& given) {
  options.add("A", given.left,
              "A YAML file, or the folder of a run, whose sessions are all compared",
              {.is_required = true});
  options.add("B", given.right, "The other one, a file or a folder too", {.is_required = true});
}

void list_options(OptionList& options, ConfigExplainArguments& given) {
  options.add("KEY", given.key,
              "A key or a section, such as model.num_layers or model (default: all)",
              {.offers = key_names});
  options.add("--markdown", given.markdown, "Print the page configs/KEYS.md");
}

void list_options(OptionList&, NoArguments&) {}

void list_options(OptionList& options, ConfigNewArguments& given) {
  options.add("--model", given.model, "The family of the model", {.shows_default = true});
  options.add("--size", given.size, "Parameters: " + config::template_sizes_text());
  options.add("-o,--output", given.output, "A new file (default: standard output)");
}

void config_show(const ConfigShowArguments& arguments) {
  const config::Config config = job::load_config(arguments.config, job::Takes::runs);
  const std::string text =
      arguments.plain ? config::resolved_yaml(config) : config::shown_yaml(config);
  screen::print_text(text);
}

void config_explain(const ConfigExplainArguments& arguments) {
  const std::string text =
      arguments.markdown ? config::keys_markdown() : config::explain(arguments.key);
  screen::print_text(text);
}

void config_schema(const NoArguments&) {
  screen::print_text(config::json_schema());
}

void config_check(const job::ConfigSource& source) {
  job::check_plan(job::load_config(source),
                  [](const std::string& note) { screen::print("note: %s\n", note.c_str()); });
  std::string names;
  for (const std::string& file : source.files) names += (names.empty() ? "" : ", ") + file;
  screen::print("%s: no errors\n", names.c_str());
}

void config_new(const ConfigNewArguments& arguments) {
  const std::string& file = arguments.output;
  const auto [kind, size] = config::template_named(arguments.model, arguments.size);
  const std::string text = config::template_yaml(size, file.empty() ? "FILE.yaml" : file);
  if (file.empty()) {
    screen::print_text(text);
    return;
  }
  if (file_exists(file))
    throw UserError(ExitCode::output_in_use,
                    format("{} is there already; choose another name, or remove it", file));
  write_file_atomic(file, text);
  const model::Family& family = model::family(kind);
  const std::string title(family.title);
  if (family.reads == model::Reads::pictures) {
    screen::print(
        "%s: a %s of %s parameters; for pictures of yours set data.path; then: fourfold train "
        "%s\n",
        file.c_str(), title.c_str(), size.c_str(), file.c_str());
    return;
  }
  screen::print(
      "%s: a %s of %s parameters that reads data/bible.txt; for a text of yours set data.path%s; "
      "then: fourfold train %s\n",
      file.c_str(), title.c_str(), size.c_str(),
      config::template_vocabulary(size) > 0
          ? format(", and data.tokenizer to one of up to {} tokens, as `fourfold data "
                   "train-tokenizer` makes them",
                   format_grouped(config::template_vocabulary(size)))
                .c_str()
          : "",
      file.c_str());
}

void config_diff(const ConfigDiffArguments& arguments) {
  const auto load = [](const std::string& path) {
    return job::load_config({.files = {path}, .sets = {}}, job::Takes::runs);
  };
  const std::vector<rundir::Held> left = rundir::held_configs(arguments.left, load),
                                  right = rundir::held_configs(arguments.right, load);
  const std::string text = rundir::differences(left, right);
  screen::print_text(text.empty() ? "no differences\n" : text);
}

}  // namespace

void add_config(Commands& commands) {
  commands.add_group(
      {"config", After{"simulate"}, "Look at configurations", "config explain optimizer.lr"});
  commands.add({"config check", After{}, "Check a configuration",
                "config check mine.yaml --set train.steps=500"},
               add_config_options, config_check);
  commands.add({"config show", After{"check"}, "Print every setting and where its value comes from",
                "config show runs/gpt-quickstart"},
               list_options, config_show);
  commands.add(
      {"config diff", After{"show"}, "Print the settings in which two configurations differ",
       "config diff mine.yaml runs/gpt-quickstart"},
      list_options, config_diff);
  commands.add({"config explain", After{"diff"}, "Say what a key means and costs",
                "config explain optimizer.lr"},
               list_options, config_explain);
  commands.add({"config schema", After{"explain"}, "Print a JSON Schema, for editors",
                "config schema > fourfold.schema.json"},
               list_options, config_schema);
  commands.add({"config new", After{"schema"}, "Write a commented configuration to start from",
                "config new --size 124M -o mine.yaml"},
               list_options, config_new);
}

}  // namespace fourfold::cli
