#include "base/collective.h"

#include <algorithm>
#include <cmath>

namespace fourfold {
namespace {

constexpr bool rows_are_complete() {
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    std::size_t rows = 0;
    for (const CollectiveFacts& row : collectives)
      rows += row.kind == static_cast<Collective>(i) ? 1 : 0;
    const CollectiveFacts &row = collectives[i], &plain = facts_of(row.plain);
    if (rows != 1 || plain.plain != plain.kind || row.takes != plain.takes ||
        row.gives != plain.gives)
      return false;
  }
  return true;
}
static_assert(rows_are_complete(),
              "each collective has one row, and a variant holds what its plain form holds");

}  // namespace

double CollectiveFacts::steps(double members) const {
  return passes * (path == Path::ring_or_tree ? std::ceil(std::log2(members)) : members - 1);
}

std::optional<Collective> find_collective(std::string_view name) {
  const auto row = std::ranges::find(collectives, name, &CollectiveFacts::name);
  return row == collectives.end() ? std::nullopt : std::optional(row->kind);
}

std::span<const ExchangeKind> exchange_kinds() {
  static const auto kinds = [] {
    std::array<ExchangeKind, collectives.size() + 1> all;
    std::ranges::transform(collectives, all.begin(), &CollectiveFacts::kind);
    return all;
  }();
  return kinds;
}

std::string_view to_string(ExchangeKind kind) {
  return kind ? to_string(*kind) : "send";
}

}  // namespace fourfold
