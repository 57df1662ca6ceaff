// Ids as types, so that a buffer's index is never taken for a stream's.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace fourfold {

/// Index into one particular table; `Tag` names the table. Absence is std::optional<Id>, never a
/// special value.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::size_t index) : index_(static_cast<std::int32_t>(index)) {}
  constexpr std::size_t index() const { return static_cast<std::size_t>(index_); }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  std::int32_t index_ = 0;
};

}  // namespace fourfold

template <class Tag>
struct std::hash<fourfold::Id<Tag>> {
  std::size_t operator()(fourfold::Id<Tag> id) const noexcept { return id.index(); }
};
