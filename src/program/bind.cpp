#include "program/bind.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::program {
namespace {

/// How many places on a mesh lie between neighbours along each axis.
std::vector<std::size_t> strides_of(const Mesh& mesh) {
  std::vector<std::size_t> strides(mesh.axes.size());
  std::size_t stride = 1;
  for (std::size_t axis = mesh.axes.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= static_cast<std::size_t>(mesh.axes[axis].size);
  }
  return strides;
}

/// Appends the ranks at the places from `place` on along the group's axes from number `depth` on.
void add_members(const Mesh& mesh, const Group& group, const std::vector<std::size_t>& strides,
                 std::size_t place, std::size_t depth, Ranks& members) {
  if (depth == group.axes.size()) return members.push_back(mesh.ranks[place]);
  const std::size_t axis = group.axes[depth].index();
  for (std::int64_t i = 0; i < mesh.axes[axis].size; ++i, place += strides[axis])
    add_members(mesh, group, strides, place, depth + 1, members);
}

class Binder {
 public:
  Binder(Program& program, Rank rank) : program_(program) {
    program.rank = rank;
    for (const Mesh& mesh : program.meshes) {
      coordinates_.push_back(mesh.coordinates_of(rank).value_or(std::vector<std::int64_t>()));
    }
  }

  void run() {
    for (Group& group : program_.groups) {
      const Mesh& mesh = program_.meshes[group.mesh.index()];
      group.members =
          members_from(mesh, group, first_place(mesh, group, coordinates_on(group.mesh)));
    }
    for (Instruction& instruction : program_.instructions)
      std::visit([&](auto& what) { bind_kind(what); }, instruction.what);
  }

 private:
  /// Index of this rank's first element of a dim of a buffer.
  std::int64_t first(const Buffer& buffer, std::size_t dim) const {
    if (dim >= buffer.sharding.dims.size()) return 0;
    const MeshId mesh = buffer.sharding.mesh;
    return op::first_index(buffer.global[dim], buffer.sharding.dims[dim],
                           program_.meshes[mesh.index()], coordinates_on(mesh));
  }
  const std::vector<std::int64_t>& coordinates_on(MeshId mesh) const {
    const auto& coordinates = coordinates_[mesh.index()];
    require(coordinates.size() == program_.meshes[mesh.index()].axes.size(),
            format("rank {} is one of mesh {}", program_.rank.index(),
                   program_.meshes[mesh.index()].name));
    return coordinates;
  }
  const Buffer& buffer(const Slice& slice) const { return program_.buffer(slice.buffer); }

  op::TensorWindow window(const Buffer& tensor, std::size_t from_dim) const {
    op::TensorWindow result;
    const auto& dims = tensor.sharding.dims;
    const bool is_cut =
        std::any_of(dims.begin() + static_cast<std::ptrdiff_t>(std::min(from_dim, dims.size())),
                    dims.end(), [](const auto& cuts) { return !cuts.empty(); });
    if (!is_cut) return result;
    for (std::size_t dim = from_dim; dim < tensor.global.rank(); ++dim) {
      result.global.push_back(tensor.global[dim]);
      result.first.push_back(first(tensor, dim));
    }
    return result;
  }

  void bind_kind(Compute& what) {
    op::for_each_place(what.op, [&](const op::Place& place, auto& told) {
      bind_place(place, told, buffer(what.slices[place.operand]));
    });
    if (is_update(what.op))
      for (const op::Piece& piece : op::pieces(what.op)) bind_update(what, piece);
  }

  void bind_place(const op::Place& place, std::int64_t& told, const Buffer& tensor) const {
    const std::size_t dim = place.dim_of(tensor.global);
    const bool is_cut = dim < tensor.sharding.dims.size() && !tensor.sharding.dims[dim].empty();
    if (place.told == op::Place::Told::first) told = first(tensor, dim);
    if (place.told == op::Place::Told::size) told = tensor.global[dim];
    if (place.told == op::Place::Told::size_if_cut) told = is_cut ? tensor.global[dim] : 0;
  }
  void bind_place(const op::Place&, op::SampleWindow& told, const Buffer& tensor) const {
    told.first = program_.feeds.sample_of(told.chunk, first(tensor, 0));
  }
  void bind_place(const op::Place& place, op::TensorWindow& told, const Buffer& tensor) const {
    told = window(tensor, place.dim);
  }
  /// Local shapes are the same on all ranks.
  void bind_place(const op::Place&, const Shape&, const Buffer&) const {}

  /// Where the optimizer's state is cut further than the weight, it updates its own rows of it.
  void bind_update(Compute& what, const op::Piece& piece) const {
    const auto slice_of = [&](op::State state) -> Slice& {
      return what.slices[piece.operands[op::operand_of(piece.op, state).value()]];
    };
    Slice& weight = slice_of(op::State::weight);
    const Buffer& whole = buffer(weight);
    const Buffer& moment = buffer(slice_of(op::State::moment));
    if (weight.bytes() == whole.size_bytes) return;
    const std::int64_t row_bytes = whole.size_bytes / program_.local_shape(weight.buffer)[0];
    weight.offset_bytes = (first(moment, 0) - first(whole, 0)) * row_bytes;
  }

  void bind_kind(Copy& what) const {
    const Buffer &from = buffer(what.from), &to = buffer(what.to);
    if (from.blocked && !to.blocked) {
      const auto& own = coordinates_on(from.sharding.mesh);
      what.from.offset_bytes = own[from.blocked->axis.index()] * what.from.bytes();
      return;
    }
    const Shape local = program_.local_shape(what.from.buffer);
    for (std::size_t dim = 0; dim < from.global.rank(); ++dim) {
      const std::int64_t start = first(to, dim) - first(from, dim);
      if (start == 0) continue;
      what.from.offset_bytes =
          start * local.elements(dim + 1, local.rank()) * size_bytes(from.dtype);
      return;
    }
    what.from.offset_bytes = 0;
  }

  /// A gather may bring together what the ranks updated of one buffer.
  void bind_kind(AllGather& what) const {
    const Group& group = program_.groups[what.group.index()];
    for_each_tensor(what, [&](Slice& from, const Slice& to) {
      if (from.buffer != to.buffer) return;
      const auto place = static_cast<std::int64_t>(*group.members.position(program_.rank));
      from.offset_bytes = to.offset_bytes + place * from.bytes();
    });
  }

  void bind_kind(const Feed& what) {
    Feeds& feeds = program_.feeds;
    feeds.first = feeds.sample_of(0, first(buffer(what.to), 0));
  }

  template <class Kind>
  void bind_kind(const Kind&) const {}

  Program& program_;
  std::vector<std::vector<std::int64_t>>
      coordinates_;  // by mesh; empty where the rank is not of it
};

}  // namespace

std::vector<std::int64_t> coordinates_of(const Mesh& mesh, Rank rank) {
  auto coordinates = mesh.coordinates_of(rank);
  require(coordinates.has_value(), format("rank {} is one of mesh {}", rank.index(), mesh.name));
  return *std::move(coordinates);
}

std::size_t first_place(const Mesh& mesh, const Group& group,
                        const std::vector<std::int64_t>& coordinates) {
  std::size_t first = 0, stride = 1;
  for (std::size_t axis = mesh.axes.size(); axis-- > 0;) {
    if (std::ranges::find(group.axes, AxisId(axis)) == group.axes.end())
      first += static_cast<std::size_t>(coordinates[axis]) * stride;
    stride *= static_cast<std::size_t>(mesh.axes[axis].size);
  }
  return first;
}

Ranks members_from(const Mesh& mesh, const Group& group, std::size_t first) {
  const std::size_t outer = mesh.axes.size() - group.axes.size();
  std::size_t count = 1;
  bool is_inner = true;  // the innermost axes, in their order: places that follow one another
  for (std::size_t i = 0; i < group.axes.size(); ++i) {
    is_inner = is_inner && group.axes[i].index() == outer + i;
    count *= static_cast<std::size_t>(mesh.axes[group.axes[i].index()].size);
  }
  if (is_inner) return mesh.ranks.range(first, count);
  Ranks members;
  add_members(mesh, group, strides_of(mesh), first, 0, members);
  return members;
}

void bind(Program& program, Rank rank) {
  Binder(program, rank).run();
}

void bind(Bundle& bundle, Rank rank) {
  for (Program& program : bundle.programs) bind(program, rank);
}

}  // namespace fourfold::program
