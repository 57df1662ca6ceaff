#include "op/sharding.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::op {
namespace {

std::optional<AxisId> find_axis(const Mesh& mesh, std::string_view name) {
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (mesh.axes[axis].name == name) return AxisId(axis);
  return std::nullopt;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Splits at commas that stand outside parentheses.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == ',' && depth == 0) {
      parts.push_back(trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (!trim(text).empty()) parts.push_back(trim(text.substr(start)));
  return parts;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<Cut> parse_cut(std::string_view text, const Mesh& mesh) {
  const auto colon = text.find(':');
  const auto axis = find_axis(mesh, text.substr(0, colon));
  if (!axis) return std::nullopt;
  if (colon == std::string_view::npos) return Cut{*axis, std::nullopt};
  const auto stride = parse_integer(text.substr(colon + 1));
  if (!stride) return std::nullopt;
  return Cut{*axis, stride};
}

}  // namespace

bool Sharding::replicated() const {
  return partial.empty() &&
         std::all_of(dims.begin(), dims.end(), [](const auto& cuts) { return cuts.empty(); });
}

const Partial* Sharding::partial_on(AxisId axis) const {
  for (const Partial& p : partial)
    if (p.axis == axis) return &p;
  return nullptr;
}

std::int64_t local_size(std::int64_t size, std::span<const Cut> cuts, const Mesh& mesh) {
  std::int64_t local = size;
  for (const Cut& cut : cuts) {
    const std::int64_t parts = mesh.axes[cut.axis.index()].size;
    const std::int64_t stride = cut.stride.value_or((local + parts - 1) / parts);
    require(stride > 0, "a stride is positive");
    local = (local + parts * stride - 1) / (parts * stride) * stride;
  }
  return local;
}

std::int64_t first_index(std::int64_t size, std::span<const Cut> cuts, const Mesh& mesh,
                         std::span<const std::int64_t> coordinates) {
  std::int64_t local = size, first = 0;
  for (const Cut& cut : cuts) {
    const std::int64_t parts = mesh.axes[cut.axis.index()].size;
    const std::int64_t stride = cut.stride.value_or((local + parts - 1) / parts);
    require(parts * stride >= local, "a cut in whole blocks gives each rank one run of indices");
    first += coordinates[cut.axis.index()] * stride;
    local = stride;
  }
  return first;
}

Shape local_shape(const Shape& global, const Sharding& sharding, const Mesh& mesh) {
  Shape local = global;
  for (std::size_t dim = 0; dim < sharding.dims.size(); ++dim)
    local[dim] = local_size(global[dim], sharding.dims[dim], mesh);
  return local;
}

std::string to_string(const Shape& global, const Sharding& sharding, const Mesh& mesh) {
  std::string text = "[";
  for (std::size_t dim = 0; dim < global.rank(); ++dim) {
    text += format("{}{}", dim == 0 ? "" : ", ", global[dim]);
    if (dim >= sharding.dims.size() || sharding.dims[dim].empty()) continue;
    std::string cuts;
    for (const Cut& cut : sharding.dims[dim]) {
      cuts += format("{}{}", cuts.empty() ? "" : ",", mesh.axes[cut.axis.index()].name);
      if (cut.stride) cuts += format(":{}", *cut.stride);
    }
    text += format(" ({})", cuts);
  }
  text += "]";
  for (const Partial& p : sharding.partial)
    text += format(" partial {}({})", p.reduction == Reduction::sum ? "sum" : "max",
                   mesh.axes[p.axis.index()].name);
  return text;
}

std::optional<ShardedShape> parse_sharded_shape(std::string_view text, MeshId mesh_id,
                                                const Mesh& mesh) {
  text = trim(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  ShardedShape result{{}, {mesh_id, {}, {}}};
  bool any_cut = false;
  for (std::string_view part : split(text.substr(1, text.size() - 2))) {
    const auto open = part.find('(');
    const auto size = parse_integer(trim(part.substr(0, open)));
    if (!size) return std::nullopt;
    result.shape.push_back(*size);
    auto& cuts = result.sharding.dims.emplace_back();
    if (open == std::string_view::npos) continue;
    if (part.back() != ')') return std::nullopt;
    for (std::string_view name : split(part.substr(open + 1, part.size() - open - 2))) {
      const auto cut = parse_cut(name, mesh);
      if (!cut) return std::nullopt;
      cuts.push_back(*cut);
      any_cut = true;
    }
  }
  if (!any_cut) result.sharding.dims.clear();
  return result;
}

}  // namespace fourfold::op
