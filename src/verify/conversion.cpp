// state, layout, for instructions that move values: which change of sharding and of the order in
// memory a collective, a copy, a pack or an unpack makes.
#include <algorithm>

#include "base/format.h"
#include "verify/rules.h"
#include "verify/state.h"

namespace fourfold::verify {
namespace {

using Partials = PartialMap::Partials;
using Dims = std::vector<std::vector<op::Cut>>;

/// A whole buffer as a collective sees it: local shape, and the cuts of every dim.
struct Tensor {
  const Buffer& buffer;
  Shape local;
  Dims dims;
};

Tensor tensor(Claims& claims, const Slice& slice) {
  const Buffer& buffer = claims.program().buffer(slice.buffer);
  Dims dims = claims.of(slice.buffer).dims;
  dims.resize(buffer.global.rank());
  return {buffer, claims.program().local_shape(slice.buffer), std::move(dims)};
}

/// The axes of a group along which there is more than one rank.
std::vector<AxisId> real_axes(const Program& program, const Group& group) {
  std::vector<AxisId> axes;
  for (const AxisId axis : group.axes)
    if (program.meshes[group.mesh.index()].axes[axis.index()].size > 1) axes.push_back(axis);
  return axes;
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

/// Removes the group's axes from the partial ones.
std::string take_partial(Claims& claims, const Group& group, op::Reduction reduction,
                         const Slice& slice, Partials& partials) {
  for (const AxisId axis : real_axes(claims.program(), group)) {
    const auto place =
        std::find(partials.axes.begin(), partials.axes.end(), op::Partial{axis, reduction});
    if (place != partials.axes.end()) {
      partials.axes.erase(place);
    } else if (!partials.zero) {
      const Mesh& mesh = claims.mesh(slice.buffer);
      return format("{} is {}, so there is nothing to reduce along {}",
                    claims.program().buffer(slice.buffer).name, partial_text(partials.axes, mesh),
                    mesh.axes[axis.index()].name);
    }
  }
  return {};
}

/// Takes the group's axes off the dim where they are the innermost cuts, in their order; faults
/// where there is none.
std::string take_cuts(Dims& dims, const Program& program, const Group& group,
                      const std::string& buffer, std::size_t& dim) {
  const std::vector<AxisId> axes = real_axes(program, group);
  const auto by_axis = [](const op::Cut& cut, AxisId axis) { return cut.axis == axis; };
  for (dim = 0; dim < dims.size(); ++dim) {
    std::vector<op::Cut>& cuts = dims[dim];
    if (cuts.size() < axes.size()) continue;
    const auto inner = cuts.end() - static_cast<std::ptrdiff_t>(axes.size());
    if (!std::equal(inner, cuts.end(), axes.begin(), by_axis)) continue;
    cuts.erase(inner, cuts.end());
    return {};
  }
  return format("{} has no dim cut innermost by {}", buffer, program.axes_text(group));
}

// --- layout: the order in memory

/// Tells whether equal shares of the memory, each `share` long in a dim, are the blocks of that dim
/// along the axes of a group: the buffer is blocked so, or nothing lies outside of the dim and all
/// shares are full.
std::string shares_problem(const Tensor& tensor, std::size_t dim, const Program& program,
                           const Group& group, std::int64_t share) {
  const Mesh& mesh = program.meshes[group.mesh.index()];
  if (const auto& blocked = tensor.buffer.blocked) {
    if (*blocked == Blocked{dim, blocked->axis, share} &&
        real_axes(program, group) == std::vector{blocked->axis})
      return {};
    return format("{} is blocked in dim {} along {} by {}, expected dim {} along {} by {}",
                  tensor.buffer.name, blocked->dim, mesh.axes[blocked->axis.index()].name,
                  blocked->share, dim, program.axes_text(group), share);
  }
  const auto members = static_cast<std::int64_t>(group.members.size());
  if (tensor.local.elements(0, dim) == 1 && tensor.local[dim] == members * share) return {};
  return format("equal parts of {} are not blocks of its dim {}", tensor.buffer.name, dim);
}

std::string plain_problem(const Buffer& buffer) {
  return buffer.blocked ? format("{} is blocked, expected a plain one", buffer.name)
                        : std::string{};
}

/// Sets the problem, of rule layout, where there is none yet.
void keep_problem(Conversion& result, std::string problem) {
  if (!result.problem.empty() || problem.empty()) return;
  result.problem = std::move(problem);
  result.rule = "layout";
}

void check_same_cuts(Conversion& result, const Program& program, const Group& group,
                     const Tensor& source, const Dims& expected, const Tensor& target,
                     const Dims& found) {
  if (result.problem.empty() && expected != found)
    result.problem = format("{} and {} differ in more than the cut by {}", source.buffer.name,
                            target.buffer.name, program.axes_text(group));
}

}  // namespace

Conversion convert(Claims& claims, const AllReduce& what, const Slice& from, const Slice& /*to*/,
                   const Partials& partials) {
  const Program& program = claims.program();
  const Group& group = program.groups[what.group.index()];
  const Buffer& buffer = program.buffer(from.buffer);
  Conversion result{partials, {}};
  if (buffer.sharding.mesh != group.mesh)
    result.problem = format("{} does not lie on the mesh of the group", buffer.name);
  else
    result.problem = take_partial(claims, group, what.reduction, from, result.partials);
  if (buffer.blocked && from != program.whole(from.buffer))
    keep_problem(result, format("it takes part of {}, which is blocked", buffer.name));
  return result;
}

Conversion convert(Claims& claims, const ReduceScatter& what, const Slice& from, const Slice& to,
                   const Partials& partials) {
  const Program& program = claims.program();
  const Group& group = program.groups[what.group.index()];
  Conversion result{partials, common_problem(program, group, from, to)};
  if (!result.problem.empty()) return result;
  result.problem = take_partial(claims, group, what.reduction, from, result.partials);
  if (!result.problem.empty()) return result;
  const Tensor source = tensor(claims, from), target = tensor(claims, to);
  Dims dims = target.dims;
  if (group.members.size() > 1) {
    std::size_t dim = 0;
    result.problem = take_cuts(dims, program, group, target.buffer.name, dim);
    if (!result.problem.empty()) return result;
    check_same_cuts(result, program, group, source, source.dims, target, dims);
    keep_problem(result, shares_problem(source, dim, program, group, target.local[dim]));
  }
  check_same_cuts(result, program, group, source, source.dims, target, dims);
  keep_problem(result, plain_problem(target.buffer));
  return result;
}

Conversion convert(Claims& claims, const AllGather& what, const Slice& from, const Slice& to,
                   const Partials& partials) {
  const Program& program = claims.program();
  const Group& group = program.groups[what.group.index()];
  if (from.buffer == to.buffer)
    return {partials, own_share_problem(claims, group, from, to), "part"};
  Conversion result{partials, common_problem(program, group, from, to)};
  if (!result.problem.empty()) return result;
  const Tensor source = tensor(claims, from), target = tensor(claims, to);
  Dims dims = source.dims;
  if (group.members.size() > 1) {
    std::size_t dim = 0;
    result.problem = take_cuts(dims, program, group, source.buffer.name, dim);
    if (!result.problem.empty()) return result;
    check_same_cuts(result, program, group, source, dims, target, target.dims);
    keep_problem(result, shares_problem(target, dim, program, group, source.local[dim]));
  }
  check_same_cuts(result, program, group, source, dims, target, target.dims);
  keep_problem(result, plain_problem(source.buffer));
  return result;
}

Conversion convert(Claims& claims, const AllToAll& what, const Slice& from, const Slice& to,
                   const Partials& partials) {
  const Program& program = claims.program();
  const Group& group = program.groups[what.group.index()];
  Conversion result{partials, common_problem(program, group, from, to)};
  if (!result.problem.empty()) return result;
  const Tensor source = tensor(claims, from), target = tensor(claims, to);
  Dims before = source.dims, after = target.dims;
  if (group.members.size() > 1) {
    std::size_t lost = 0, gained = 0;
    result.problem = take_cuts(before, program, group, source.buffer.name, lost);
    if (result.problem.empty())
      result.problem = take_cuts(after, program, group, target.buffer.name, gained);
    if (!result.problem.empty()) return result;
    check_same_cuts(result, program, group, source, before, target, after);
    keep_problem(result, shares_problem(source, gained, program, group, target.local[gained]));
    keep_problem(result, shares_problem(target, lost, program, group, source.local[lost]));
  }
  check_same_cuts(result, program, group, source, before, target, after);
  return result;
}

std::string own_share_problem(Claims& claims, const Group& group, const Slice& from,
                              const Slice& to) {
  const Program& program = claims.program();
  const Buffer& buffer = program.buffer(to.buffer);
  if (buffer.sharding.mesh != group.mesh)
    return format("{} does not lie on the mesh of the group", buffer.name);
  if (buffer.blocked) return plain_problem(buffer);
  if (to != program.whole(to.buffer))
    return format("it gathers part of {}, expected all of it", buffer.name);
  const Shape local = program.local_shape(to.buffer);
  const auto members = static_cast<std::int64_t>(group.members.size());
  if (local.rank() == 0 || local[0] % members != 0)
    return format("{} is not {} equal parts of its rows", buffer.name, members);
  std::vector<op::Cut> cuts;
  for (const AxisId axis : group.axes) cuts.push_back({axis, std::nullopt});
  const auto own = claims.own_block(to.buffer, 0, cuts);
  if (from == *own) return {};
  return format("this rank's part of {} along {} is {} bytes from {} on, not {} from {} on",
                buffer.name, program.axes_text(group), own->bytes(), own->offset_bytes,
                from.bytes(), from.offset_bytes);
}

namespace {

/// This rank's share of a blocked buffer, of so many bytes.
Slice own_share(Claims& claims, BufferId id, std::int64_t bytes) {
  const AxisId axis = claims.program().buffer(id).blocked->axis;
  return {id, claims.coordinate(id, axis) * bytes, 1, bytes, 0};
}

/// True if `to` is this rank's block of `from`, cut further in one dim.
bool is_own_block(Claims& claims, const Copy& what) {
  const Tensor source = tensor(claims, what.from), target = tensor(claims, what.to);
  if (source.buffer.sharding.mesh != target.buffer.sharding.mesh ||
      source.buffer.global != target.buffer.global || target.buffer.blocked ||
      what.to != claims.program().whole(what.to.buffer))
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
  if (const auto& blocked = source.buffer.blocked)
    return all.size() == outer.size() + 1 && all.back().axis == blocked->axis &&
           *blocked == Blocked{*dim, blocked->axis, target.local[*dim]} &&
           what.from == own_share(claims, what.from.buffer, what.to.bytes());
  return what.from ==
         claims.own_block(what.from.buffer, *dim,
                          {all.begin() + static_cast<std::ptrdiff_t>(outer.size()), all.end()});
}

/// True if both sides are the same part of buffers that lie alike.
bool is_alike(Claims& claims, const Copy& what) {
  const Program& program = claims.program();
  const Buffer &source = program.buffer(what.from.buffer), &target = program.buffer(what.to.buffer);
  Slice moved = what.from;
  moved.buffer = what.to.buffer;
  return source.global == target.global &&
         claims.of(what.from.buffer).dims == claims.of(what.to.buffer).dims &&
         source.blocked == target.blocked && moved == what.to;
}

/// Pack and Unpack: two whole buffers that differ only in the order in memory.
Conversion reorder(Claims& claims, const Slice& plain, const Slice& blocked, const Slice& from,
                   const Partials& partials) {
  const Program& program = claims.program();
  const Buffer &one = program.buffer(plain.buffer), &other = program.buffer(blocked.buffer);
  Conversion result{partials, {}};
  for (const Slice* slice : {&plain, &blocked})
    if (*slice != program.whole(slice->buffer))
      result.problem =
          format("it takes part of {}, expected all of it", program.buffer(slice->buffer).name);
  if (one.sharding.mesh != other.sharding.mesh)
    result.problem = format("{} and {} lie on different meshes", one.name, other.name);
  else if (one.global != other.global)
    result.problem = format("{} and {} have different shapes", one.name, other.name);
  else if (claims.of(plain.buffer).dims != claims.of(blocked.buffer).dims)
    result.problem = format("{} and {} are not cut alike", one.name, other.name);
  keep_problem(result, plain_problem(one));
  if (!other.blocked)
    keep_problem(result, format("{} is plain, expected one that is blocked: it {}", other.name,
                                from == plain ? "packs" : "unpacks"));
  return result;
}

}  // namespace

std::string copy_problem(Claims& claims, const Copy& what) {
  const Program& program = claims.program();
  const Buffer &source = program.buffer(what.from.buffer), &target = program.buffer(what.to.buffer);
  if (source.sharding.mesh != target.sharding.mesh)
    return format("{} and {} lie on different meshes", source.name, target.name);
  const bool both_uncut = claims.of(what.from.buffer).dims.empty() &&
                          claims.of(what.to.buffer).dims.empty() && !source.blocked &&
                          !target.blocked;
  if (both_uncut || is_alike(claims, what) || is_own_block(claims, what)) return {};
  return format("{} is neither all of {} nor this rank's block of it", target.name, source.name);
}

Conversion convert(Claims& claims, const Copy& what, const Partials& partials) {
  const Buffer& source = claims.program().buffer(what.from.buffer);
  const Buffer& target = claims.program().buffer(what.to.buffer);
  Conversion result{partials, copy_problem(claims, what)};
  if (!result.problem.empty() && source.blocked != target.blocked) {
    result.problem.clear();
    keep_problem(result,
                 format("{} and {} have different orders in memory", source.name, target.name));
  }
  return result;
}

Conversion convert(Claims& claims, const Pack& what, const Partials& partials) {
  return reorder(claims, what.from, what.to, what.from, partials);
}

Conversion convert(Claims& claims, const Unpack& what, const Partials& partials) {
  return reorder(claims, what.to, what.from, what.from, partials);
}

std::optional<OwnUpdate> own_update(Claims& claims, const Compute& update) {
  const auto weight = op::operand_of(update.op, op::State::weight),
             moment = op::operand_of(update.op, op::State::moment);
  if (!weight || !moment) return std::nullopt;
  const Program& program = claims.program();
  const BufferId id = update.slices[*weight].buffer, kept = update.slices[*moment].buffer;
  const std::vector<op::Cut>&whole = claims.cuts(id, 0), &own_cuts = claims.cuts(kept, 0);
  if (&claims.mesh(id) != &claims.mesh(kept) || own_cuts.size() <= whole.size() ||
      !std::equal(whole.begin(), whole.end(), own_cuts.begin()) ||
      program.buffer(id).global != program.buffer(kept).global)
    return std::nullopt;
  OwnUpdate own{{own_cuts.begin() + static_cast<std::ptrdiff_t>(whole.size()), own_cuts.end()}, {}};
  const auto block = claims.own_block(id, 0, own.added);
  if (!block || update.slices[*weight] != *block)
    own.problem = format("the rows of {} are not this rank's block, which {} holds",
                         program.buffer(id).name, program.buffer(kept).name);
  return own;
}

}  // namespace fourfold::verify
