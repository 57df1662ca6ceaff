#include "reshard/placement.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::reshard {
namespace {

Range range_of(std::int64_t size, std::span<const op::Cut> cuts, const Mesh& mesh,
               std::span<const std::int64_t> coordinates) {
  Range range{0, size};
  std::int64_t local = size;  // of a rank, padding included
  for (const op::Cut& cut : cuts) {
    const std::int64_t ranks = mesh.axes[cut.axis.index()].size;
    const std::int64_t stride = cut.stride.value_or((local + ranks - 1) / ranks);
    require(ranks * stride >= local, "a tensor that is sent has cuts in whole blocks");
    range.begin = std::min(range.end, range.begin + coordinates[cut.axis.index()] * stride);
    range.end = std::min(range.end, range.begin + stride);
    local = stride;
  }
  return range;
}

[[noreturn]] void fail_spec(std::string_view spec, const std::string& problem) {
  throw UserError(
      ExitCode::bad_config,
      format("sharding spec '{}': {}; a spec has one letter for each dim of the tensor, R where it "
             "is whole, S and the dims of the mesh where it is cut: S0RR, RS01R",
             spec, problem));
}

/// By dim of the tensor, the dims of the mesh that cut it, outermost first.
std::vector<std::vector<AxisId>> parse_spec(std::string_view spec) {
  std::vector<std::vector<AxisId>> dims;
  std::string letters;  // of the dims
  std::vector<bool> is_used(2, false);
  for (const char letter : spec) {
    if (letter == '^' || letter == '{' || letter == '}') continue;
    if (letter == 'S' || letter == 'R') {
      dims.emplace_back();
      letters += letter;
    } else if (letter == '0' || letter == '1') {
      const auto axis = static_cast<std::size_t>(letter - '0');
      if (letters.empty() || letters.back() != 'S')
        fail_spec(spec, format("no S stands before dim {} of the mesh", axis));
      if (is_used[axis]) fail_spec(spec, format("dim {} of the mesh cuts twice", axis));
      is_used[axis] = true;
      dims.back().emplace_back(axis);
    } else {
      fail_spec(spec, format("'{}' is none of S, R, 0 and 1", letter));
    }
  }
  for (std::size_t dim = 0; dim < dims.size(); ++dim)
    if (letters[dim] == 'S' && dims[dim].empty())
      fail_spec(spec, format("dim {} is cut by no dim of the mesh", dim));
  return dims;
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace

Placement placement_of(const Shape& shape, const op::Sharding& sharding, const Mesh& mesh) {
  require(sharding.partial.empty(), "a tensor that is sent has been summed");
  Placement placement{shape, mesh.ranks, {}};
  placement.boxes.reserve(mesh.ranks.size());
  for (std::size_t position = 0; position < mesh.ranks.size(); ++position) {
    const std::vector<std::int64_t> coordinates = mesh.coordinates(position);
    Box box = whole(shape);
    for (std::size_t dim = 0; dim < sharding.dims.size(); ++dim)
      box[dim] = range_of(shape[dim], sharding.dims[dim], mesh, coordinates);
    placement.boxes.push_back(std::move(box));
  }
  return placement;
}

MeshShape parse_mesh_shape(std::string_view text) {
  constexpr std::int64_t most_ranks = 1 << 20;
  const auto cross = text.find('x');
  if (cross != std::string_view::npos) {
    const auto rows = parse_count(text.substr(0, cross));
    const auto columns = parse_count(text.substr(cross + 1));
    if (rows && columns && *rows <= most_ranks && *columns <= most_ranks / *rows)
      return {*rows, *columns};
  }
  throw UserError(ExitCode::bad_config,
                  format("mesh '{}': a mesh is ROWSxCOLUMNS, such as 2x4, of {} ranks at most",
                         text, most_ranks));
}

Placement placement_of(const Shape& shape, std::string_view spec, MeshShape mesh,
                       const Ranks& ranks) {
  const std::vector<std::vector<AxisId>> dims = parse_spec(spec);
  if (dims.size() != shape.rank())
    fail_spec(spec, format("it has {} dims, and the tensor {} has {}", dims.size(),
                           to_string(shape), shape.rank()));
  const Mesh axes{"mesh", {{"0", mesh.rows}, {"1", mesh.columns}}, ranks};
  require(static_cast<std::int64_t>(ranks.size()) == mesh.ranks(), "a mesh has its ranks");
  op::Sharding sharding{MeshId(), std::vector<std::vector<op::Cut>>(shape.rank()), {}};
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    std::int64_t tiles = 1;
    for (const AxisId axis : dims[dim]) tiles *= axes.axes[axis.index()].size;
    // The stride of a cut is that of the next, times its ranks: tiles are even over all of them.
    std::int64_t stride = (shape[dim] + tiles - 1) / tiles;
    std::vector<op::Cut>& cuts = sharding.dims[dim];
    for (auto axis = dims[dim].rbegin(); axis != dims[dim].rend(); ++axis) {
      cuts.insert(cuts.begin(), op::Cut{*axis, stride});
      stride *= axes.axes[axis->index()].size;
    }
  }
  return placement_of(shape, sharding, axes);
}

}  // namespace fourfold::reshard
