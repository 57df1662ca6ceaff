#include "rundir/open.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/small_file.h"
#include "checkpoint/model_files.h"
#include "rundir/metrics_lines.h"
#include "rundir/run_files.h"
#include "rundir/run_lock.h"

namespace fourfold::rundir {
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
    if (is_leftover(entry.name) && !entry.name.starts_with(RunFiles::lock))
      real_files().remove_file(join_path(dir, entry.name));
}

void remove_run(const std::string& dir, checkpoint::Store& store) {
  store.clear();
  clear_sessions(dir);
  // The log and the metrics are begun anew by those who write them.
  std::vector<std::string> names = checkpoint::list_model_files(dir);
  for (const char* name : {RunFiles::sample, RunFiles::prediction})
    if (file_exists(join_path(dir, name))) names.emplace_back(name);
  for (const std::string& name : names) real_files().remove_file(join_path(dir, name));
}

/// The run goes on from that checkpoint of its own. What it did after it stays beside it, in a
/// line.
void go_back(const std::string& dir, checkpoint::Store& store,
             const checkpoint::Manifest& manifest) {
  const std::int64_t step = manifest.step;
  const std::string metrics = join_path(dir, RunFiles::metrics);
  const auto steps = store.steps();
  if (!steps.empty() && steps.front() > step) {
    const std::string line = store.begin_line();
    write_file_atomic(join_path(line, RunFiles::metrics), metrics_after(metrics, step));
    for (const std::string& name : checkpoint::list_model_files(dir))
      real_files().rename(join_path(dir, name), join_path(line, name));
    store.set_aside_after(step, line);
  }
  // A step that is still to be evaluated is told then.
  cut_metrics(metrics, manifest.untold ? step - 1 : step);
}

std::string text_or_none(const std::string& path) {
  constexpr std::size_t most_bytes = 1 << 20;
  auto text = read_small_file(path, most_bytes);
  const auto* found = std::get_if<std::string>(&text);
  return found == nullptr ? std::string() : *found;
}

/// An earlier version kept the record of the last start alone: it becomes the first session.
void keep_record_of_before(const std::string& dir) {
  const std::string config = join_path(dir, RunFiles::config);
  if (!read_sessions(dir).empty() || !file_exists(config)) return;
  Session session;
  session.directory = current_directory();
  write_session(dir, session,
                {text_or_none(config), text_or_none(join_path(dir, RunFiles::command)),
                 text_or_none(join_path(dir, RunFiles::environment))});
}

Session begin_session(const StartRequest& request, const RunStart& start,
                      const std::optional<checkpoint::Found>& origin, const JobFacts& facts,
                      const std::vector<std::string>& command, const SessionTexts& texts) {
  const auto before = read_sessions(request.dir);
  Session session;
  session.number = before.empty() ? 1 : before.back().number + 1;
  if (origin) {
    session.first_step = origin->manifest.step;
    session.origin = origin->path;
    session.is_own_origin = start.is_own;
  }
  session.command = command;
  session.directory = current_directory();
  session.processes = facts.are_processes ? static_cast<std::int64_t>(facts.ranks) : 1;
  session.job = request.holder.job;
  session.restart = request.holder.restart;
  session.path = write_session(request.dir, session, texts);
  return session;
}

}  // namespace

Session open_run_directory(const StartRequest& request, const RunStart& start,
                           const std::optional<checkpoint::Found>& origin, const JobFacts& facts,
                           const RunTexts& texts, const comm::Variable& variable) {
  const std::string& dir = request.dir;
  make_directories(dir);
  sync_way_to(dir);
  remove_leftovers(dir);
  checkpoint::Store store = store_of(dir);
  store.prepare();
  if (start.overwrites) remove_run(dir, store);
  if (start.is_own) {
    go_back(dir, store, origin->manifest);
    keep_record_of_before(dir);
  }
  const SessionTexts record{
      texts.config,
      command_text(texts.command, current_directory(), facts.are_processes ? facts.ranks : 1),
      environment_json(facts, texts.build, variable).dump() + "\n"};
  Session session = begin_session(request, start, origin, facts, texts.command, record);
  write_file_atomic(join_path(dir, RunFiles::config), texts.config);
  if (!texts.grids.empty()) write_file_atomic(join_path(dir, RunFiles::grids), texts.grids);
  if (!texts.layout.empty()) write_file_atomic(join_path(dir, RunFiles::layout), texts.layout);
  if (!texts.kernel_table.empty())
    write_file_atomic(join_path(dir, RunFiles::kernel_table), texts.kernel_table);
  if (!texts.tokenizer.empty())
    write_file_atomic(join_path(dir, RunFiles::tokenizer), texts.tokenizer);
  write_file_atomic(join_path(dir, RunFiles::plan), texts.plan);
  std::vector<Session> sessions = read_sessions(dir);
  // A disk that has just taken a record may fail to give it back.
  if (sessions.empty() || sessions.back().number != session.number) sessions.push_back(session);
  write_file_atomic(join_path(dir, RunFiles::command), repeat_text(sessions));
  write_file_atomic(join_path(dir, RunFiles::environment), record.environment);
  return session;
}

}  // namespace fourfold::rundir
