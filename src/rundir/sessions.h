// The starts of a run, each with its record in a folder of its own: sessions/1, sessions/2, ... of
// the run directory. What a later one changes is not lost with it, and the whole run can be
// repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fourfold::rundir {

/// One start of a run.
struct Session {
  std::int64_t number = 1;
  std::int64_t first_step = 0;  // steps that were done before it
  std::optional<std::int64_t>
      last_step;                     // steps done at its end; none: it was killed, or works yet
  std::string origin;                // the checkpoint that it went on from; empty: none
  bool is_own_origin = false;        // that is one of this run's own
  std::vector<std::string> command;  // words
  std::string directory;             // where the command was given
  std::int64_t processes = 1;        // of a launcher
  std::string job, restart;          // the scheduler's number of the job, and its starts before
  std::string path;                  // of its folder; not part of the record
};

/// What is written once at the start: texts by the names of run_files.h.
struct SessionTexts {
  std::string config, command, environment;
};

/// All of a run directory, the first one first; what cannot be read is left out.
std::vector<Session> read_sessions(const std::string& run_dir);
/// Writes the record of a session, all of it or none, and returns its path. Errors:
/// UserError(storage).
std::string write_session(const std::string& run_dir, const Session& session,
                          const SessionTexts& texts);
/// Notes how far it came. Errors: UserError(storage).
void end_session(const Session& session, std::int64_t last_step);
/// Removes all records: of a run that is overwritten.
void clear_sessions(const std::string& run_dir);

/// The file that holds the configuration of a session.
std::string config_of(const Session& session);
/// The sessions that have led to the last one, without those whose steps a later one took back or
/// did again.
std::vector<Session> led_to_last(const std::vector<Session>& sessions);
/// The same; of neighbours with equal settings the last, from the first step of them all.
std::vector<Session> trajectory(const std::vector<Session>& sessions);
/// What a session changed against the one before: "optimizer.lr: 0.003 -> 0.001", one an entry.
std::vector<std::string> changes_between(const Session& before, const Session& after);

/// The words of a command without what is meant for one start only: --overwrite, --resume and its
/// value, --take-over, --stop-at and its value.
std::vector<std::string> words_to_go_on(const std::vector<std::string>& command);
/// A shell script that repeats the whole run, session by session (run_record.h has that of one).
std::string repeat_text(const std::vector<Session>& sessions);

}  // namespace fourfold::rundir
