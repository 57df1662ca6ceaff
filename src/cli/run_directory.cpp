#include "cli/run_directory.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/small_file.h"
#include "base/styled_text.h"
#include "config/print.h"
#include "job/build_info.h"
#include "job/summary.h"
#include "plan/plan.h"
#include "rundir/run_files.h"
#include "rundir/run_lock.h"
#include "screen/rows.h"
#include "train/metrics.h"

namespace fourfold::cli {
namespace {

/// What is in a new folder survives a loss of power only if the way to it does.
void sync_way_to(const std::string& dir) {
  std::string path = absolute_path(dir);
  while (path.size() > 1) {
    path = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
    try {
      real_files().sync_directory(path);
    } catch (const UserError&) {
      return;  // not this user's, and so not new
    }
  }
}

void remove_leftovers(const std::string& dir) {
  // A lock that another job is about to make is not left over.
  for (const FileSystem::Entry& entry : real_files().list(dir))
    if (is_leftover(entry.name) && !entry.name.starts_with(rundir::RunFiles::lock))
      real_files().remove_file(join_path(dir, entry.name));
}

void remove_run(const std::string& dir, checkpoint::Store& store) {
  store.clear();
  rundir::clear_sessions(dir);
  // The log and the metrics are begun anew by those who write them.
  for (const char* name : {rundir::RunFiles::weights, rundir::RunFiles::sample})
    if (file_exists(join_path(dir, name))) real_files().remove_file(join_path(dir, name));
}

/// The run goes on from that step of its own. What it did after it stays beside it, in a line.
void go_back(const std::string& dir, checkpoint::Store& store, std::int64_t step) {
  const std::string metrics = join_path(dir, rundir::RunFiles::metrics),
                    weights = join_path(dir, rundir::RunFiles::weights);
  const auto steps = store.steps();
  if (!steps.empty() && steps.front() > step) {
    const std::string line = store.begin_line();
    write_file_atomic(join_path(line, rundir::RunFiles::metrics),
                      train::metrics_after(metrics, step));
    if (file_exists(weights))
      real_files().rename(weights, join_path(line, rundir::RunFiles::weights));
    store.set_aside_after(step, line);
  }
  train::cut_metrics(metrics, step);
}

std::string text_of(const std::string& path) {
  constexpr std::size_t most_bytes = 1 << 20;
  auto text = read_small_file(path, most_bytes);
  const auto* found = std::get_if<std::string>(&text);
  return found == nullptr ? std::string() : *found;
}

/// An earlier version kept the record of the last start alone: it becomes the first session.
void keep_record_of_before(const std::string& dir) {
  const std::string config = join_path(dir, rundir::RunFiles::config);
  if (!rundir::read_sessions(dir).empty() || !file_exists(config)) return;
  rundir::Session session;
  session.directory = rundir::current_directory();
  rundir::write_session(dir, session,
                        {text_of(config), text_of(join_path(dir, rundir::RunFiles::command)),
                         text_of(join_path(dir, rundir::RunFiles::environment))});
}

rundir::Session begin_session(const TrainArguments& arguments, const job::Job& job,
                              const rundir::JobFacts& facts, const RunStart& start,
                              const std::optional<checkpoint::Found>& origin,
                              const rundir::SessionTexts& texts) {
  const auto before = rundir::read_sessions(job.config.dir);
  const rundir::LockHolder self = rundir::this_holder(arguments.variable);
  rundir::Session session;
  session.number = before.empty() ? 1 : before.back().number + 1;
  if (origin) {
    session.first_step = origin->manifest.step;
    session.origin = origin->path;
    session.is_own_origin = start.is_own;
  }
  session.command = arguments.command;
  session.directory = rundir::current_directory();
  session.processes = facts.are_processes ? static_cast<std::int64_t>(facts.ranks) : 1;
  session.job = self.job;
  session.restart = self.restart;
  session.path = rundir::write_session(job.config.dir, session, texts);
  return session;
}

}  // namespace

checkpoint::Store store_of(const config::Config& config) {
  return {real_files(), absolute_path(join_path(config.dir, rundir::RunFiles::checkpoints))};
}

rundir::Session open_run_directory(const TrainArguments& arguments, const job::Job& job,
                                   const data::Source& source, const rundir::JobFacts& facts,
                                   const RunStart& start,
                                   const std::optional<checkpoint::Found>& origin) {
  const std::string& dir = job.config.dir;
  make_directories(dir);
  sync_way_to(dir);
  remove_leftovers(dir);
  checkpoint::Store store = store_of(job.config);
  store.prepare();
  if (start.overwrites) remove_run(dir, store);
  if (start.is_own) {
    go_back(dir, store, origin->manifest.step);
    keep_record_of_before(dir);
  }
  const rundir::SessionTexts texts{
      config::shown_yaml(job.config),
      rundir::command_text(arguments.command, rundir::current_directory(),
                           facts.are_processes ? facts.ranks : 1),
      rundir::environment_json(facts, {job::build_json(), job::libraries_json()},
                               arguments.variable)
              .dump() +
          "\n"};
  rundir::Session session = begin_session(arguments, job, facts, start, origin, texts);
  write_file_atomic(join_path(dir, rundir::RunFiles::config), texts.config);
  if (!job.kernel_table.empty())
    write_file_atomic(join_path(dir, rundir::RunFiles::kernel_table), job.kernel_table);
  if (source.tokenizer() != nullptr)
    write_file_atomic(join_path(dir, rundir::RunFiles::tokenizer),
                      source.tokenizer()->to_text() + "\n");
  write_file_atomic(join_path(dir, rundir::RunFiles::plan),
                    without_styles(screen::to_text(job::summary_rows(job))) + "\n" +
                        plan::to_text(job.plan, job.graphs));
  std::vector<rundir::Session> sessions = rundir::read_sessions(dir);
  // A disk that has just taken a record may fail to give it back.
  if (sessions.empty() || sessions.back().number != session.number) sessions.push_back(session);
  write_file_atomic(join_path(dir, rundir::RunFiles::command), rundir::repeat_text(sessions));
  write_file_atomic(join_path(dir, rundir::RunFiles::environment), texts.environment);
  return session;
}

}  // namespace fourfold::cli
