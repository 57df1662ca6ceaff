#include "verify/claims.h"

#include <algorithm>

#include "verify/rules.h"

namespace fourfold::verify {
namespace {

/// Cuts along axes of more than one rank, with strides for all or, where those of plain cuts say
/// the same, for none.
std::vector<op::Cut> normal_cuts(const std::vector<op::Cut>& cuts, std::int64_t size,
                                 const Mesh& mesh) {
  const auto strides = block_strides(cuts, size, mesh);
  std::vector<op::Cut> normal;
  bool plain = true;
  std::int64_t left = size;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::int64_t ranks = mesh.axes[cuts[i].axis.index()].size;
    if (ranks == 1) continue;
    normal.push_back({cuts[i].axis, (*strides)[i]});
    plain = plain && (*strides)[i] == (left + ranks - 1) / ranks;
    left = (*strides)[i];
  }
  if (plain)
    for (op::Cut& cut : normal) cut.stride.reset();
  return normal;
}

}  // namespace

std::optional<std::vector<std::int64_t>> block_strides(const std::vector<op::Cut>& cuts,
                                                       std::int64_t size, const Mesh& mesh) {
  constexpr std::int64_t most = std::int64_t{1} << 60;  // far from overflow in what follows
  std::vector<std::int64_t> strides;
  bool exact = false;  // the first cut may leave padding after the end, the others may not
  for (const op::Cut& cut : cuts) {
    const std::int64_t ranks = mesh.axes[cut.axis.index()].size;
    const std::int64_t stride = cut.stride.value_or((size + ranks - 1) / ranks);
    std::int64_t covered = 0;
    if (stride < 1 || __builtin_mul_overflow(stride, ranks, &covered) || covered < size ||
        covered > most || (exact && covered != size))
      return std::nullopt;
    strides.push_back(stride);
    exact = exact || ranks > 1 || cut.stride.has_value();
    size = stride;
  }
  return strides;
}

Claims::Claims(const Program& program) : program_(program), claims_(program.buffers.size()) {
  for (std::size_t mesh = 0; mesh < program.meshes.size(); ++mesh)
    coordinates_.push_back(
        own_coordinates(program, MeshId(mesh)).value_or(std::vector<std::int64_t>{}));
}

const op::Sharding& Claims::of(BufferId id) {
  std::optional<op::Sharding>& claim = claims_[id.index()];
  if (claim) return *claim;
  const Buffer& buffer = program_.buffer(id);
  const Mesh& on = mesh(id);
  claim.emplace(op::Sharding{buffer.sharding.mesh, {}, {}});
  bool any_cut = false;
  for (std::size_t dim = 0; dim < buffer.sharding.dims.size(); ++dim) {
    claim->dims.push_back(normal_cuts(buffer.sharding.dims[dim], buffer.global[dim], on));
    any_cut = any_cut || !claim->dims.back().empty();
  }
  if (!any_cut) claim->dims.clear();
  for (const op::Partial& partial : buffer.sharding.partial)
    if (on.axes[partial.axis.index()].size > 1) claim->partial.push_back(partial);
  return *claim;
}

const std::vector<op::Cut>& Claims::cuts(BufferId id, std::size_t dim) {
  static const std::vector<op::Cut> none;
  const op::Sharding& claim = of(id);
  return dim < claim.dims.size() ? claim.dims[dim] : none;
}

std::int64_t Claims::coordinate(BufferId id, AxisId axis) const {
  return coordinates_[program_.buffer(id).sharding.mesh.index()][axis.index()];
}

std::int64_t Claims::first(BufferId id, std::size_t dim) {
  const std::vector<op::Cut>& list = cuts(id, dim);
  if (list.empty()) return 0;
  const auto strides = block_strides(list, program_.buffer(id).global[dim], mesh(id));
  std::int64_t start = 0;
  for (std::size_t i = 0; i < list.size(); ++i)
    start += coordinate(id, list[i].axis) * (*strides)[i];
  return start;
}

std::optional<op::Sharding> Claims::view(const Slice& slice, DType dtype) {
  op::Sharding claim = of(slice.buffer);
  claim.partial.clear();
  if (claim.dims.empty()) return claim;
  if (dtype == program_.buffer(slice.buffer).dtype && slice == program_.whole(slice.buffer))
    return claim;
  const Shape local = program_.local_shape(slice.buffer), view = program_.view_shape(slice, dtype);
  if (view.rank() == local.rank() &&
      view.elements(1, view.rank()) == local.elements(1, local.rank()))
    return claim;
  for (std::size_t dim = 1; dim < claim.dims.size(); ++dim)
    if (!claim.dims[dim].empty()) return std::nullopt;
  if (view.rank() == 0) return std::nullopt;
  claim.dims.resize(1);
  claim.dims.resize(view.rank());
  return claim;
}

std::optional<std::int64_t> Claims::rows_before(const Slice& slice) const {
  if (slice == program_.whole(slice.buffer)) return 0;
  const Shape local = program_.local_shape(slice.buffer);
  if (local.rank() == 0 || slice.rows != 1) return std::nullopt;
  const std::int64_t row = program_.buffer(slice.buffer).size_bytes / local[0];
  if (slice.offset_bytes % row != 0 || slice.row_bytes % row != 0) return std::nullopt;
  return slice.offset_bytes / row;
}

std::optional<Slice> Claims::own_block(BufferId id, std::size_t dim,
                                       const std::vector<op::Cut>& added) {
  const Shape local = program_.local_shape(id);
  const auto strides = block_strides(added, local[dim], mesh(id));
  if (!strides || strides->empty()) return std::nullopt;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < added.size(); ++i)
    start += coordinate(id, added[i].axis) * (*strides)[i];
  const std::int64_t inner =
      local.elements(dim + 1, local.rank()) * size_bytes(program_.buffer(id).dtype);
  const std::int64_t rows = local.elements(0, dim);
  return Slice{id, start * inner, rows, strides->back() * inner,
               rows == 1 ? 0 : local[dim] * inner};
}

}  // namespace fourfold::verify
