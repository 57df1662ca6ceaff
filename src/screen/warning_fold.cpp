#include "screen/warning_fold.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace fourfold::screen {

bool WarningFold::is_new(std::string_view text) {
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.text == text; });
  if (known == entries_.end()) {
    entries_.push_back({std::string(text)});
    return true;
  }
  ++known->more;
  return false;
}

std::vector<std::string> WarningFold::counted() {
  std::vector<std::string> lines;
  for (Entry& entry : entries_) {
    const std::size_t more = std::exchange(entry.more, 0);
    if (more == 0) continue;
    lines.push_back(format("... and {} more rank{}: {}", more, more == 1 ? "" : "s", entry.text));
  }
  return lines;
}

std::string rank_tag(std::size_t rank, std::string_view host, std::string_view place) {
  return format("[r{:03} {}{}{}]", rank, host, place.empty() ? "" : " ", place);
}

std::string grid_place(const Mesh& mesh, std::size_t rank) {
  const auto coordinates = mesh.coordinates_of(Rank(rank));
  if (!coordinates) return {};
  std::string text;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    text += format("{}{}", mesh.axes[axis].name.substr(0, 1), (*coordinates)[axis]);
  return text;
}

}  // namespace fourfold::screen
