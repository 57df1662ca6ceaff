// Bytes as the small files of a run's folder, each after a line "=== NAME": sessions, lock, notes
// of checkpoints and configurations. They are read, or refused with a code of the table and a text
// of some lines, and what is said of them reaches no terminal as control characters.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "base/styled_text.h"
#include "checkpoint/store.h"
#include "fuzz/folder.h"
#include "fuzz/target.h"
#include "job/config_source.h"
#include "rundir/resume.h"
#include "rundir/run_lock.h"
#include "rundir/sessions.h"

namespace fourfold {
namespace {

constexpr std::array names = {"config.resolved.yaml",
                              "sessions/1/session.json",
                              "sessions/1/config.resolved.yaml",
                              "sessions/2/session.json",
                              "sessions/2/config.resolved.yaml",
                              "sessions/3/session.json",
                              "lock",
                              "checkpoints/PROTECTED",
                              "checkpoints/LATEST",
                              "checkpoints/step-000000002/manifest.json",
                              "checkpoints/step-000000004/manifest.json",
                              "metrics.jsonl"};

void write_all(const fuzz::Folder& folder, std::string_view text) {
  constexpr std::string_view mark = "=== ";
  for (std::size_t at = text.find(mark); at != text.npos;) {
    const std::size_t line = text.find('\n', at), next = text.find(mark, at + mark.size());
    if (line == text.npos) return;
    const std::string name(text.substr(at + mark.size(), line - at - mark.size()));
    const std::string_view rest = text.substr(line + 1, std::min(next, text.size()) - line - 1);
    if (std::ranges::find(names, name) != names.end()) fuzz::write(folder.path(name), rest);
    at = next;
  }
}

/// Runs a reader that may refuse what it reads.
template <class Read>
void try_reading(Read&& read) {
  try {
    read();
  } catch (const UserError& error) {
    require(error.code() != ExitCode::internal, "what stands in a file is no error of ours");
    for (const char c : without_controls(error.what()))
      require(static_cast<unsigned char>(c) >= ' ' || c == '\n', "no control character is shown");
  }
}

void read_folder(const std::string& dir) {
  std::vector<rundir::Session> sessions;
  try_reading([&] { sessions = rundir::read_sessions(dir); });
  for (std::size_t i = 1; i < sessions.size(); ++i) {
    require(sessions[i - 1].number < sessions[i].number, "sessions are in order");
    try_reading([&] { rundir::changes_between(sessions[i - 1], sessions[i]); });
  }
  require(rundir::led_to_last(sessions).size() <= sessions.size(), "no session is there twice");
  try_reading([&] { rundir::trajectory(sessions); });
  if (!sessions.empty()) try_reading([&] { rundir::repeat_text(sessions); });
  try_reading([&] { job::load_config({.files = {dir}, .sets = {}}, job::Takes::runs); });
  const rundir::LockHolder own =
      rundir::this_holder([](const std::string&) { return std::nullopt; });
  try_reading([&] { rundir::require_unlocked(dir, own, false); });
  try_reading([&] { rundir::find_resume_point("auto", dir); });
  checkpoint::Store store(real_files(), dir + "/checkpoints", 0);
  const auto before = store.steps();
  try_reading([&] { store.prune({}); });
  require(store.steps() == before, "a checkpoint that nobody has read whole is not removed");
}

}  // namespace
}  // namespace fourfold

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  static const fuzz::Folder folder;
  folder.clear();
  write_all(folder, {reinterpret_cast<const char*>(bytes), size});
  read_folder(folder.path(""));
  return 0;
}
