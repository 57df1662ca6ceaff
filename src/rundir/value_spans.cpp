#include "rundir/value_spans.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "config/compare.h"
#include "config/print.h"
#include "rundir/sessions.h"

namespace fourfold::rundir {

std::vector<Held> held_configs(const std::string& path, const LoadConfig& load) {
  std::vector<Held> side;
  std::int64_t first_step = 0;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::vector<Session> sessions = trajectory(read_sessions(path));
    for (std::size_t i = 0; i + 1 < sessions.size(); ++i) {
      const std::string file = config_of(sessions[i]);
      try {
        side.push_back({sessions[i].first_step, load(file)});
        config::restore_origins(side.back().config, file, read_file(file));
      } catch (const UserError&) {
        continue;
      }
    }
    if (!sessions.empty()) first_step = sessions.back().first_step;
  }
  side.push_back({side.empty() ? 0 : first_step, load(path)});
  return side;
}

std::string ValueSpan::place() const {
  if (last)
    return format("{}; steps {} to {}", origin.place, format_grouped(first + 1),
                  format_grouped(*last));
  return first == 0 ? origin.place
                    : format("{}; from step {}", origin.place, format_grouped(first + 1));
}

bool ValueSpan::operator==(const ValueSpan& other) const {
  return origin.value == other.origin.value && first == other.first && last == other.last;
}

std::vector<ValueSpan> spans_of(const config::Key& key, const std::vector<Held>& configs) {
  std::vector<ValueSpan> spans;
  for (const Held& held : configs) {
    config::Origin now = config::value_of(key, held.config);
    if (!spans.empty() && spans.back().origin.value == now.value) {
      spans.back().origin = std::move(now);
      continue;
    }
    if (!spans.empty()) spans.back().last = held.first_step;
    spans.push_back({std::move(now), held.first_step, std::nullopt});
  }
  return spans;
}

}  // namespace fourfold::rundir
