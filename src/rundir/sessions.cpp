#include "rundir/sessions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/atomic_file.h"
#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "config/compare.h"
#include "config/config.h"
#include "rundir/run_files.h"
#include "rundir/run_record.h"

namespace fourfold::rundir {
namespace {

namespace fs = std::filesystem;

constexpr const char* record_name = "session.json";

std::string to_text(const Session& session) {
  Json words = Json::array();
  for (const std::string& word : session.command) words.push(word);
  Json json = Json::object().set("session", session.number).set("first_step", session.first_step);
  if (session.last_step) json.set("last_step", *session.last_step);
  return json.set("origin", session.origin)
             .set("is_own_origin", session.is_own_origin)
             .set("command", std::move(words))
             .set("directory", session.directory)
             .set("processes", session.processes)
             .set("job", session.job)
             .set("restart", session.restart)
             .dump() +
         "\n";
}

/// Members of a record that may be anything; a missing one is empty.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}
  std::string text(const char* key) const {
    const Json* value = of_kind(key, Json::Kind::string);
    return value == nullptr ? std::string() : value->as_string();
  }
  std::optional<std::int64_t> number(const char* key) const {
    const Json* value = of_kind(key, Json::Kind::integer);
    return value == nullptr ? std::nullopt : std::optional(value->as_integer());
  }
  bool flag(const char* key) const {
    const Json* value = of_kind(key, Json::Kind::boolean);
    return value != nullptr && value->as_bool();
  }
  std::vector<std::string> words(const char* key) const {
    std::vector<std::string> words;
    if (const Json* list = of_kind(key, Json::Kind::array))
      for (const Json& item : list->items())
        if (item.kind() == Json::Kind::string) words.push_back(item.as_string());
    return words;
  }

 private:
  const Json* of_kind(const char* key, Json::Kind kind) const {
    const Json* value = json_.find(key);
    return value != nullptr && value->kind() == kind ? value : nullptr;
  }
  const Json& json_;
};

std::optional<Session> read_session(const std::string& path, std::int64_t number) {
  try {
    const std::string file = join_path(path, record_name);
    require_file_or_nothing(file);
    const Json json = parse_json(read_file(file), file);
    if (json.kind() != Json::Kind::object) return std::nullopt;
    const Members record(json);
    const auto first_step = record.number("first_step");
    if (!first_step || *first_step < 0) return std::nullopt;
    Session session;
    session.number = number;
    session.first_step = *first_step;
    session.last_step = record.number("last_step");
    session.origin = record.text("origin");
    session.is_own_origin = record.flag("is_own_origin");
    session.command = record.words("command");
    session.directory = record.text("directory");
    session.processes = std::max<std::int64_t>(record.number("processes").value_or(1), 1);
    session.job = record.text("job");
    session.restart = record.text("restart");
    session.path = path;
    return session;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string folder_of(const std::string& run_dir) {
  return join_path(run_dir, RunFiles::sessions);
}

/// The step at which a command was told to stop, as it was written: a record may hold anything.
std::optional<std::string> stop_of(const std::vector<std::string>& command) {
  constexpr std::string_view option = "--stop-at", with_value = "--stop-at=";
  std::optional<std::string> step;
  for (std::size_t i = 0; i < command.size(); ++i)
    if (command[i] == option && i + 1 < command.size())
      step = command[i + 1];
    else if (command[i].starts_with(with_value))
      step = command[i].substr(with_value.size());
  return step;
}

/// The line that repeats one session up to `stop_at`, from its own configuration.
std::string repeat_line(const Session& session, const std::optional<std::string>& stop_at) {
  std::string line;
  if (session.processes > 1) line += format("mpirun -np {} ", session.processes);
  line += session.command.empty() ? "fourfold" : shell_quoted(session.command[0]);
  line += " train ";
  line += shell_quoted(config_of(session));
  const std::vector<std::string>& words = session.command;
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "--override") line += " --override " + shell_quoted(words[i + 1]);
  if (!session.origin.empty() && !session.is_own_origin)
    line += " --resume " + shell_quoted(session.origin);
  if (stop_at) line += " --stop-at " + shell_quoted(*stop_at);
  return line + " \"$@\"";
}

}  // namespace

std::vector<Session> read_sessions(const std::string& run_dir) {
  std::vector<Session> sessions;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_of(run_dir), ignored)) {
    const std::string name = entry.path().filename().string();
    std::int64_t number = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, number);
    if (error != std::errc() || stop != end || number < 1) continue;
    if (auto session = read_session(entry.path().string(), number))
      sessions.push_back(std::move(*session));
  }
  std::sort(sessions.begin(), sessions.end(),
            [](const Session& a, const Session& b) { return a.number < b.number; });
  return sessions;
}

std::string write_session(const std::string& run_dir, const Session& session,
                          const SessionTexts& texts) {
  make_directories(folder_of(run_dir));
  const std::string path = join_path(folder_of(run_dir), format("{}", session.number));
  AtomicFolder folder(path);
  folder.write(RunFiles::config, texts.config);
  folder.write(RunFiles::command, texts.command);
  folder.write(RunFiles::environment, texts.environment);
  folder.write(record_name, to_text(session));
  folder.commit();
  return path;
}

void end_session(const Session& session, std::int64_t last_step) {
  Session ended = session;
  ended.last_step = last_step;
  write_file_atomic(join_path(session.path, record_name), to_text(ended));
}

void clear_sessions(const std::string& run_dir) {
  std::error_code error;
  fs::remove_all(folder_of(run_dir), error);
  if (error)
    throw UserError(ExitCode::storage,
                    format("{}: cannot be removed: {}", folder_of(run_dir), error.message()));
}

std::string config_of(const Session& session) {
  return join_path(session.path, RunFiles::config);
}

std::vector<std::string> changes_between(const Session& before, const Session& after) {
  const std::array<std::string, 1> left{config_of(before)}, right{config_of(after)};
  std::vector<std::string> changes;
  try {
    for (const auto& [key, former, now] :
         config::differences(config::load(left, {}), config::load(right, {})))
      changes.push_back(format("{}: {} -> {}", key, former.value, now.value));
  } catch (const UserError&) {
    changes.push_back("settings that cannot be read");
  }
  return changes;
}

std::vector<Session> led_to_last(const std::vector<Session>& sessions) {
  std::vector<Session> led;
  for (const Session& session : sessions) {
    // What was done from that step on was done again.
    while (!led.empty() && led.back().first_step >= session.first_step) led.pop_back();
    led.push_back(session);
  }
  return led;
}

std::vector<Session> trajectory(const std::vector<Session>& sessions) {
  std::vector<Session> led;
  for (const Session& session : led_to_last(sessions)) {
    if (!led.empty() && changes_between(led.back(), session).empty()) {
      const Session first = led.back();
      led.back() = session;
      led.back().first_step = first.first_step;
      led.back().origin = first.origin;
      led.back().is_own_origin = first.is_own_origin;
    } else {
      led.push_back(session);
    }
  }
  return led;
}

std::vector<std::string> words_to_go_on(const std::vector<std::string>& command) {
  constexpr std::array flags = {"--overwrite", "--take-over"};
  constexpr std::array options = {"--resume", "--stop-at"};
  std::vector<std::string> words;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    const auto is_word = [&](const char* name) { return word == name; };
    const auto has_value = [&](const char* name) { return word.starts_with(format("{}=", name)); };
    if (std::any_of(flags.begin(), flags.end(), is_word)) continue;
    if (std::any_of(options.begin(), options.end(), has_value)) continue;
    if (std::any_of(options.begin(), options.end(), is_word)) {
      ++i;
      continue;
    }
    words.push_back(word);
  }
  return words;
}

std::string repeat_text(const std::vector<Session>& sessions) {
  const std::vector<Session> led = trajectory(sessions);
  require(!led.empty(), "a run that is repeated has sessions");
  if (led.size() == 1 && sessions.size() == 1) {
    const Session& only = led[0];
    return command_text(only.command, only.directory, static_cast<std::size_t>(only.processes));
  }
  std::string text =
      "# sh command.txt --set run.dir=DIR repeats this run in a new folder: each of its sessions "
      "that "
      "count, up to the\n# step from which the next one went on. Options that follow are those of "
      "each command.\n";
  text += format("cd {} &&\n", shell_quoted(led[0].directory));
  for (std::size_t i = 0; i < led.size(); ++i) {
    const bool is_last = i + 1 == led.size();
    const auto stop_at =
        is_last ? stop_of(led[i].command) : std::optional(format("{}", led[i + 1].first_step));
    text += repeat_line(led[i], stop_at) + (is_last ? "\n" : " &&\n");
  }
  return text;
}

}  // namespace fourfold::rundir
