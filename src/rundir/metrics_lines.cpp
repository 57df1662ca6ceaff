#include "rundir/metrics_lines.h"

#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace fourfold::rundir {
namespace {

/// The step of a line of metrics; nothing for a line that is torn.
struct LineStep {
  bool is_whole = false;
  std::optional<std::int64_t> step;  // none: some other object, which is not ours to judge
};

LineStep step_of(const std::string& line) {
  try {
    const Json values = parse_json(line, "");
    if (values.kind() != Json::Kind::object) return {.is_whole = true, .step = std::nullopt};
    const Json* step = values.find("step");
    const bool is_number = step != nullptr && step->kind() == Json::Kind::integer;
    return {true, is_number ? std::optional(step->as_integer()) : std::nullopt};
  } catch (const UserError&) {
    return {};  // cut off when the run was killed
  }
}

/// The whole lines of a file, of the steps up to one and of those after it.
struct Halves {
  std::string kept, later;
};

Halves halve(const std::string& path, std::int64_t last_step) {
  std::istringstream text(read_file(path, ExitCode::storage));
  Halves halves;
  for (std::string line; std::getline(text, line);) {
    const LineStep found = step_of(line);
    if (!found.is_whole) continue;
    (found.step.value_or(0) <= last_step ? halves.kept : halves.later) += line + "\n";
  }
  return halves;
}

}  // namespace

std::string metrics_after(const std::string& path, std::int64_t last_step) {
  return file_exists(path) ? halve(path, last_step).later : std::string();
}

void cut_metrics(const std::string& path, std::int64_t last_step) {
  if (file_exists(path)) write_file_atomic(path, halve(path, last_step).kept);
}

}  // namespace fourfold::rundir
