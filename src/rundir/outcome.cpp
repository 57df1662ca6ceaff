#include "rundir/outcome.h"

#include <fcntl.h>

#include <exception>
#include <variant>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/json.h"
#include "base/small_file.h"

namespace fourfold::rundir {

Outcome::Outcome(const comm::Variable& variable) {
  if (variable) path_ = variable("FOURFOLD_OUTCOME").value_or("");
}

void Outcome::heard() const noexcept {
  if (path_.empty()) return;
  // Where it cannot be made, the script asks again.
  const Descriptor file(
      ::open((path_ + ".heard").c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666));
}

void Outcome::failed(ExitCode code, const std::string& host) const noexcept {
  if (path_.empty()) return;
  try {
    // How far the run came stands there already.
    constexpr std::size_t most_bytes = 1 << 12;
    const auto known = read_small_file(path_, most_bytes);
    Json json = Json::object();
    if (const auto* text = std::get_if<std::string>(&known)) json = parse_json(*text, path_);
    Json outcome = Json::object().set("state", "failed");
    for (const char* key : {"step", "steps"}) {
      const Json* const value = json.find(key);
      const bool is_there = value != nullptr && value->kind() == Json::Kind::integer;
      outcome.set(key, is_there ? value->as_integer() : 0);
    }
    outcome.set("code", static_cast<std::int64_t>(code)).set("host", host);
    write_file_atomic(path_, outcome.dump() + "\n");
  } catch (const std::exception&) {
    // The job ends for another reason, which is said elsewhere.
  }
}

void Outcome::write(const char* state, std::int64_t step, std::int64_t steps) const {
  if (path_.empty()) return;
  write_file_atomic(
      path_,
      Json::object().set("state", state).set("step", step).set("steps", steps).dump() + "\n");
}

}  // namespace fourfold::rundir
