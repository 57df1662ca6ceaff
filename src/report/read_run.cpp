#include "report/read_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/json.h"
#include "base/small_file.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "config/config.h"
#include "config/schema.h"
#include "rundir/run_files.h"
#include "rundir/run_record.h"
#include "rundir/sessions.h"

namespace fourfold::report {
namespace {

constexpr std::size_t most_text_bytes = 1 << 20;

/// A file of the run, or a note why it is not shown.
std::string read_text(Run& run, const char* name, bool is_expected) {
  auto text = read_small_file(join_path(run.path, name), most_text_bytes);
  if (auto* found = std::get_if<std::string>(&text)) return std::move(*found);
  if (is_expected || file_exists(join_path(run.path, name)))
    run.notes.push_back(format("{} {}", name, std::get<FileFault>(text).reason));
  return {};
}

void add_config(Run& run) {
  const std::array<std::string, 1> files{join_path(run.path, rundir::RunFiles::config)};
  if (!file_exists(files[0])) {
    run.notes.push_back(format("{} is missing", rundir::RunFiles::config));
    return;
  }
  try {
    const config::Config config = config::load(files, {});
    for (const config::Key& key : config::keys()) {
      const config::Origin* origin = config.origins.find(key.path);
      if (origin != nullptr && config::applies(key, config))
        run.config.push_back({key.path, origin->value});
    }
    run.name = config.name;
  } catch (const UserError& error) {
    run.notes.push_back(format("{} is not shown: {}", rundir::RunFiles::config, error.what()));
  }
}

/// "host.cpu" and so on; lists on one line.
void flatten(const std::string& name, const Json& value, std::vector<Fact>& facts) {
  if (value.kind() == Json::Kind::object) {
    for (const Json::Member& member : value.members())
      flatten(name.empty() ? member.key : name + "." + member.key, member.value, facts);
    return;
  }
  std::string text;
  if (value.kind() == Json::Kind::array) {
    for (const Json& item : value.items())
      text += (text.empty() ? "" : " ") +
              (item.kind() == Json::Kind::string ? item.as_string() : item.dump());
  } else {
    text = value.kind() == Json::Kind::string ? value.as_string() : value.dump();
  }
  facts.push_back({name, std::move(text)});
}

void add_environment(Run& run) {
  const std::string text = read_text(run, rundir::RunFiles::environment, true);
  if (text.empty()) return;
  try {
    flatten("", parse_json(text, rundir::RunFiles::environment), run.environment);
  } catch (const UserError& error) {
    run.notes.push_back(error.what());
  }
}

/// A number that is finite; 0 where there is none.
double seconds_of(const Json& row, std::string_view key) {
  const Json* value = row.find(key);
  const bool is_number = value != nullptr && (value->kind() == Json::Kind::number ||
                                              value->kind() == Json::Kind::integer);
  const double seconds = is_number ? value->as_double() : 0;
  return std::isfinite(seconds) ? seconds : 0;
}

std::int64_t count_of(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && value->kind() == Json::Kind::integer ? value->as_integer() : 0;
}

std::string string_of(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && value->kind() == Json::Kind::string ? value->as_string() : "";
}

PredictedWork work_of(const Json& row) {
  return {string_of(row, "what"), seconds_of(row, "predicted_s"), seconds_of(row, "measured_s")};
}

std::vector<PredictedWork> works_of(const Json& object, std::string_view key) {
  std::vector<PredictedWork> works;
  const Json* rows = object.find(key);
  if (rows == nullptr || rows->kind() != Json::Kind::array) return works;
  for (const Json& row : rows->items()) works.push_back(work_of(row));
  return works;
}

void add_prediction(Run& run) {
  const std::string text = read_text(run, rundir::RunFiles::prediction, false);
  if (text.empty()) return;
  try {
    const Json json = parse_json(text, rundir::RunFiles::prediction);
    const Json* step = json.find("step");
    if (step == nullptr || count_of(json, "version") != 1)
      throw UserError(ExitCode::bad_data, format("{} holds no prediction that this version knows",
                                                 rundir::RunFiles::prediction));
    run.predicted = {.machine = string_of(json, "machine"),
                     .step = work_of(*step),
                     .num_steps = count_of(json, "steps"),
                     .last_step = count_of(json, "last_step"),
                     .num_traced = count_of(json, "traced_steps"),
                     .kinds = works_of(json, "kinds"),
                     .worst = works_of(json, "worst")};
  } catch (const UserError& error) {
    run.notes.push_back(error.what());
  }
}

void add_checkpoints(Run& run) {
  const checkpoint::Store store(real_files(),
                                absolute_path(join_path(run.path, rundir::RunFiles::checkpoints)));
  for (const std::int64_t step : store.steps()) {
    try {
      const checkpoint::Found found = store.open(step);
      run.checkpoints.push_back(
          {step, found.manifest.size_bytes(),
           found.manifest.grid + (found.manifest.is_finite ? "" : ", not finite")});
    } catch (const UserError& error) {
      run.checkpoints.push_back({step, 0, format("damaged: {}", error.what())});
    }
  }
}

void add_sessions(Run& run) {
  const std::vector<rundir::Session> sessions = rundir::read_sessions(run.path),
                                     led = rundir::led_to_last(sessions);
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    const rundir::Session& session = sessions[i];
    RunSession shown{.number = session.number,
                     .first_step = session.first_step,
                     .last_step = session.last_step,
                     .counts_to = {},
                     .command = {},
                     .changes = {}};
    const auto place = std::find_if(led.begin(), led.end(), [&](const rundir::Session& one) {
      return one.number == session.number;
    });
    shown.counts = place != led.end();
    if (shown.counts && place + 1 != led.end() &&
        session.last_step.value_or(0) > (place + 1)->first_step)
      shown.counts_to = (place + 1)->first_step;
    std::vector<std::string> words;
    for (const std::string& word : session.command) words.push_back(rundir::shell_quoted(word));
    shown.command = join(words, " ");
    if (i > 0) shown.changes = rundir::changes_between(sessions[i - 1], session);
    run.sessions.push_back(std::move(shown));
  }
}

void add_metrics(Run& run) {
  run.metrics = read_metrics(join_path(run.path, rundir::RunFiles::metrics));
  const Metrics& metrics = run.metrics;
  if (!metrics.fault.empty()) run.notes.push_back(metrics.fault);
  if (metrics.unread_lines > 0)
    run.notes.push_back(format("{}: lines that are torn or hold no metrics, and are left out: {}",
                               rundir::RunFiles::metrics, metrics.unread_lines));
  if (metrics.not_finite > 0)
    run.notes.push_back(format("{}: losses that are not finite, which no curve shows: {}",
                               rundir::RunFiles::metrics, metrics.not_finite));
}

Run read_run(const std::string& path) {
  if (!std::filesystem::is_directory(path))
    throw UserError(ExitCode::bad_data,
                    format("{}: {}; give the run.dir of a `fourfold train`", path,
                           file_exists(path) ? "is not a folder" : "there is no such folder"));
  bool is_run = false;
  for (const char* name :
       {rundir::RunFiles::metrics, rundir::RunFiles::config, rundir::RunFiles::environment})
    is_run = is_run || file_exists(join_path(path, name));
  if (!is_run)
    throw UserError(ExitCode::bad_data,
                    format("{}: holds neither {} nor {}; give the run.dir of a `fourfold train`",
                           path, rundir::RunFiles::metrics, rundir::RunFiles::config));
  Run run;
  run.path = path;
  run.name = std::filesystem::path(absolute_path(path + "/.")).parent_path().filename().string();
  add_config(run);
  add_metrics(run);
  add_sessions(run);
  add_environment(run);
  add_prediction(run);
  add_checkpoints(run);
  run.plan = read_text(run, rundir::RunFiles::plan, false);
  run.grids = read_text(run, rundir::RunFiles::grids, false);
  run.sample = read_text(run, rundir::RunFiles::sample, false);
  return run;
}

/// Runs of one name are told apart by their folders.
void make_names_differ(std::vector<Run>& runs) {
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t j = 0; j < runs.size(); ++j)
      if (i != j && runs[i].name == runs[j].name && runs[i].path != runs[j].path) {
        for (Run& run : runs) run.name += " (" + run.path + ")";
        return;
      }
}

}  // namespace

std::vector<Run> read_runs(std::span<const std::string> folders) {
  std::vector<Run> runs;
  for (const std::string& path : folders) runs.push_back(read_run(path));
  make_names_differ(runs);
  return runs;
}

}  // namespace fourfold::report
