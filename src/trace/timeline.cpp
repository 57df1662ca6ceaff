#include "trace/timeline.h"

#include <algorithm>
#include <array>

namespace fourfold::trace {
namespace {

/// By enumerator.
constexpr std::array<std::string_view, 8> names = {
    "gemm", "attention", "elementwise", "optimizer", "communication", "copy", "feed", "wait"};

}  // namespace

std::string_view to_string(WorkClass work_class) {
  return names[static_cast<std::size_t>(work_class)];
}

std::optional<WorkClass> find_work_class(std::string_view name) {
  const auto place = std::ranges::find(names, name);
  if (place == names.end()) return std::nullopt;
  return static_cast<WorkClass>(place - names.begin());
}

}  // namespace fourfold::trace
