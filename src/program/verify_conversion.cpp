// state, for instructions that move values: which change of sharding a collective or a copy makes.
#include <algorithm>

#include "base/format.h"
#include "program/verify_rules.h"
#include "program/verify_state.h"

namespace fourfold::program {
namespace {

using State = PartialMap::State;
using Dims = std::vector<std::vector<op::Cut>>;

/// A whole buffer as a collective sees it: global and local shape, and the cuts of every dim.
struct Tensor {
  const Buffer& buffer;
  const Mesh& mesh;
  Shape local;
  Dims dims;
};

Tensor tensor(const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffer(slice.buffer);
  const Mesh& mesh = mesh_of(program, slice);
  Dims dims = normalized(buffer.sharding, mesh).dims;
  dims.resize(buffer.global.rank());
  return {buffer, mesh, program.local_shape(slice.buffer), std::move(dims)};
}

const std::string& axis_name(const Program& program, const Group& group) {
  return program.meshes[group.mesh.index()].axes[group.axis.index()].name;
}

/// What holds of all conversions between whole buffers along a group.
std::string common_problem(const Program& program, const Group& group, const Slice& from,
                           const Slice& to) {
  for (const Slice* slice : {&from, &to}) {
    const Buffer& buffer = program.buffer(slice->buffer);
    if (buffer.sharding.mesh != group.mesh)
      return format("{} does not lie on the mesh of the group", buffer.name);
    if (*slice != program.whole(slice->buffer))
      return format("it takes part of {}, expected all of it", buffer.name);
  }
  if (program.buffer(from.buffer).global != program.buffer(to.buffer).global)
    return format("{} and {} have different shapes", program.buffer(from.buffer).name,
                  program.buffer(to.buffer).name);
  return {};
}

/// Removes the group's axis from the partial ones.
std::string take_partial(const Program& program, const Group& group, op::Reduction reduction,
                         const Slice& slice, State& state) {
  const auto place =
      std::find(state.axes.begin(), state.axes.end(), op::Partial{group.axis, reduction});
  if (place != state.axes.end()) {
    state.axes.erase(place);
    return {};
  }
  if (state.zero || group.members.size() == 1) return {};
  return format("{} is {}, so there is nothing to reduce along {}",
                program.buffer(slice.buffer).name,
                partial_text(state.axes, mesh_of(program, slice)), axis_name(program, group));
}

/// The dim whose innermost cut is whole blocks of the axis.
std::optional<std::size_t> innermost_on(const Dims& dims, AxisId axis) {
  for (std::size_t dim = 0; dim < dims.size(); ++dim)
    if (!dims[dim].empty() && dims[dim].back() == op::Cut{axis, std::nullopt}) return dim;
  return std::nullopt;
}

/// Equal parts of the memory are blocks of a dim only if nothing lies outside of it.
std::string contiguity_problem(const Tensor& tensor, std::size_t dim) {
  if (tensor.local.elements(0, dim) == 1) return {};
  return format("equal parts of {} are not blocks of its dim {}", tensor.buffer.name, dim);
}

/// Takes the axis off the dim where it is the innermost cut; faults where there is none.
std::string take_cut(Dims& dims, AxisId axis, const std::string& buffer,
                     const std::string& axis_text, std::size_t& dim) {
  const auto found = innermost_on(dims, axis);
  if (!found) return format("{} has no dim cut innermost by {}", buffer, axis_text);
  dim = *found;
  dims[dim].pop_back();
  return {};
}

}  // namespace

Conversion convert(const Program& program, const AllReduce& what, const State& from) {
  const Group& group = program.groups[what.group.index()];
  Conversion result{from, {}};
  if (program.buffer(what.data.buffer).sharding.mesh != group.mesh)
    result.problem =
        format("{} does not lie on the mesh of the group", program.buffer(what.data.buffer).name);
  else
    result.problem = take_partial(program, group, what.reduction, what.data, result.state);
  return result;
}

Conversion convert(const Program& program, const ReduceScatter& what, const State& from) {
  const Group& group = program.groups[what.group.index()];
  Conversion result{from, common_problem(program, group, what.from, what.to)};
  if (!result.problem.empty()) return result;
  result.problem = take_partial(program, group, what.reduction, what.from, result.state);
  if (!result.problem.empty()) return result;
  const Tensor source = tensor(program, what.from), target = tensor(program, what.to);
  Dims dims = target.dims;
  if (group.members.size() > 1) {
    std::size_t dim = 0;
    result.problem = take_cut(dims, group.axis, target.buffer.name, axis_name(program, group), dim);
    if (result.problem.empty()) result.problem = contiguity_problem(source, dim);
  }
  if (result.problem.empty() && dims != source.dims)
    result.problem = format("{} and {} differ in more than the cut by {}", source.buffer.name,
                            target.buffer.name, axis_name(program, group));
  return result;
}

Conversion convert(const Program& program, const AllGather& what, const State& from) {
  const Group& group = program.groups[what.group.index()];
  Conversion result{from, common_problem(program, group, what.from, what.to)};
  if (!result.problem.empty()) return result;
  const Tensor source = tensor(program, what.from), target = tensor(program, what.to);
  Dims dims = source.dims;
  if (group.members.size() > 1) {
    std::size_t dim = 0;
    result.problem = take_cut(dims, group.axis, source.buffer.name, axis_name(program, group), dim);
    if (result.problem.empty()) result.problem = contiguity_problem(target, dim);
  }
  if (result.problem.empty() && dims != target.dims)
    result.problem = format("{} and {} differ in more than the cut by {}", source.buffer.name,
                            target.buffer.name, axis_name(program, group));
  return result;
}

Conversion convert(const Program& program, const AllToAll& what, const State& from) {
  const Group& group = program.groups[what.group.index()];
  Conversion result{from, common_problem(program, group, what.from, what.to)};
  if (!result.problem.empty()) return result;
  const Tensor source = tensor(program, what.from), target = tensor(program, what.to);
  Dims before = source.dims, after = target.dims;
  if (group.members.size() > 1) {
    const std::string& axis = axis_name(program, group);
    std::size_t lost = 0, gained = 0;
    result.problem = take_cut(before, group.axis, source.buffer.name, axis, lost);
    if (result.problem.empty())
      result.problem = take_cut(after, group.axis, target.buffer.name, axis, gained);
    if (result.problem.empty()) result.problem = contiguity_problem(source, gained);
    if (result.problem.empty()) result.problem = contiguity_problem(target, lost);
  }
  if (result.problem.empty() && before != after)
    result.problem = format("{} and {} differ in more than the cut by {}", source.buffer.name,
                            target.buffer.name, axis_name(program, group));
  return result;
}

namespace {

/// Whether `to` is this rank's block of `from`, cut further in one dim.
bool is_own_block(const Program& program, const Copy& what) {
  const Tensor source = tensor(program, what.from), target = tensor(program, what.to);
  if (source.buffer.sharding.mesh != target.buffer.sharding.mesh ||
      source.buffer.global != target.buffer.global || what.to != program.whole(what.to.buffer))
    return false;
  std::optional<std::size_t> dim;
  for (std::size_t i = 0; i < source.dims.size(); ++i) {
    if (source.dims[i] == target.dims[i]) continue;
    if (dim) return false;
    dim = i;
  }
  if (!dim) return false;
  const auto &outer = source.dims[*dim], &all = target.dims[*dim];
  if (all.size() < outer.size() || !std::equal(outer.begin(), outer.end(), all.begin()))
    return false;
  const std::vector<op::Cut> added(all.begin() + static_cast<std::ptrdiff_t>(outer.size()),
                                   all.end());
  if (std::any_of(added.begin(), added.end(),
                  [](const op::Cut& cut) { return cut.stride.has_value(); }))
    return false;

  const auto coordinates = own_coordinates(program, source.buffer.sharding.mesh);
  const std::int64_t inner =
      source.local.elements(*dim + 1, source.local.rank()) * size_bytes(source.buffer.dtype);
  const std::int64_t start =
      block_start(added, source.local[*dim], source.mesh, *coordinates) * inner;
  const std::int64_t rows = source.local.elements(0, *dim), row_bytes = target.local[*dim] * inner;
  const std::int64_t pitch = rows == 1 ? 0 : source.local[*dim] * inner;
  return what.from == Slice{what.from.buffer, start, rows, row_bytes, pitch};
}

}  // namespace

Conversion convert(const Program& program, const Copy& what, const State& from) {
  Conversion result{from, {}};
  const Buffer &source = program.buffer(what.from.buffer), &target = program.buffer(what.to.buffer);
  const Dims from_dims = normalized(source.sharding, mesh_of(program, what.from)).dims;
  const Dims to_dims = normalized(target.sharding, mesh_of(program, what.to)).dims;
  const bool both_uncut = from_dims.empty() && to_dims.empty();
  const bool alike = source.global == target.global && from_dims == to_dims &&
                     what.from.offset_bytes == what.to.offset_bytes &&
                     what.from.rows == what.to.rows && what.from.row_bytes == what.to.row_bytes &&
                     what.from.pitch_bytes == what.to.pitch_bytes;
  if (source.sharding.mesh != target.sharding.mesh)
    result.problem = format("{} and {} lie on different meshes", source.name, target.name);
  else if (!both_uncut && !alike && !is_own_block(program, what))
    result.problem =
        format("{} is neither all of {} nor this rank's block of it", target.name, source.name);
  return result;
}

}  // namespace fourfold::program
