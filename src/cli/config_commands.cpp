// The commands of `fourfold config` but the comparison, which has a file of its own.
#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "config/changes.h"
#include "config/explain.h"
#include "config/family.h"
#include "config/json_schema.h"
#include "config/print.h"
#include "config/template.h"
#include "data/token_sets.h"
#include "job/config_source.h"
#include "job/job.h"
#include "job/prove_meetings.h"
#include "job/settle.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// Finds what only a plan shows, such as heads that do not divide, and of a pipeline also what only
/// its programs show, that its ranks come to the end of a step; needs the data where the
/// configuration leaves something of the model open to them.
void check_plan(const config::Config& config) {
  const std::vector<data::MissingFile> missing = data::missing_files(config.data_spec());
  for (const auto& [key, path] : missing)
    screen::print("note: %s = %s is not there, seen from the current directory\n", key.c_str(),
                  path.c_str());
  if (job::needs_data(config) && !missing.empty()) return;
  config::Settled settled = job::settle(config::with_least_grid(config), {});
  const job::PlannedRun planned = job::plan_run(settled);
  if (planned.plan.meshes.size() == 1) return;
  if (!job::is_proved_soon(planned)) {
    screen::print(
        "note: parallel.pipeline: programs of %lld ranks take a while, so it is not proved here "
        "that "
        "all come to the end of a step; `fourfold plan` proves it\n",
        static_cast<long long>(planned.ranks()));
    return;
  }
  job::prove_meetings(
      job::prepare(std::move(settled),
                   {.purpose = job::Purpose::look, .passes = {.only = op::ProgramKind::train}}));
}

}  // namespace

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

void config_schema() {
  screen::print_text(config::json_schema());
}

void config_check(const job::ConfigSource& source) {
  check_plan(job::load_config(source));
  std::string names;
  for (const std::string& file : source.files) names += (names.empty() ? "" : ", ") + file;
  screen::print("%s: no errors\n", names.c_str());
}

namespace {

/// The family that is asked for, of which there are templates.
model::Kind template_kind(const ConfigNewArguments& arguments) {
  const auto asked = config::kind_named(arguments.model);
  if (asked && !config::template_sizes(*asked).empty()) return *asked;
  std::vector<std::string> options;
  for (const model::Kind kind : model::kinds)
    if (!config::template_sizes(kind).empty())
      options.push_back("--model " + config::kind_word(kind));
  const std::string_view file = asked ? config::family_schema(*asked).example_file : "";
  throw UserError(
      ExitCode::bad_config,
      format("there is no template of a '{}'; choose {}{}", arguments.model, join(options, " or "),
             file.empty() ? std::string() : format(", or begin with {}", file)));
}

/// The size that is asked for.
std::string template_size(const ConfigNewArguments& arguments, model::Kind kind) {
  const std::vector<std::string> sizes = config::template_sizes(kind);
  const std::string size =
      arguments.size.value_or(std::string(config::family_schema(kind).usual_size));
  if (std::ranges::find(sizes, size) == sizes.end())
    throw UserError(ExitCode::bad_config, format("there is no size '{}' of a {}; choose one of {}",
                                                 size, arguments.model, join(sizes, ", ")));
  return size;
}

}  // namespace

void config_new(const ConfigNewArguments& arguments) {
  const std::string& file = arguments.output;
  const model::Kind kind = template_kind(arguments);
  const std::string size = template_size(arguments, kind);
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

}  // namespace fourfold::cli
