#include "program/builder.h"

#include <algorithm>

#include "base/error.h"
#include "op/blocks.h"

namespace fourfold::program {
namespace {

constexpr std::int64_t alignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

bool is_persistent(BufferRole role) {
  return role == BufferRole::parameter || role == BufferRole::moment ||
         role == BufferRole::counter || role == BufferRole::cache ||
         role == BufferRole::step_block || role == BufferRole::result_block;
}

}  // namespace

Builder::Builder(op::ProgramKind kind, Rank rank, const Mesh& mesh,
                 std::vector<std::string> streams)
    : Builder(kind, rank, {mesh}, MeshId(0), static_cast<std::int64_t>(mesh.ranks.size()),
              std::move(streams)) {}

Builder::Builder(op::ProgramKind kind, Rank rank, std::vector<Mesh> meshes, MeshId own,
                 std::int64_t world, std::vector<std::string> streams)
    : mesh_(own) {
  program.kind = kind;
  program.rank = rank;
  program.world = world;
  program.meshes = std::move(meshes);
  program.streams = std::move(streams);
}

op::Sharding Builder::sharding(const std::vector<std::string>& cuts) const {
  op::Sharding result;
  result.mesh = mesh_;
  bool any_cut = false;
  for (const std::string& names : cuts) {
    auto& dim = result.dims.emplace_back();
    for (std::size_t start = 0; start < names.size();) {
      const std::size_t end = std::min(names.find(',', start), names.size());
      const std::string name = names.substr(start, end - start);
      const std::size_t colon = name.find(':');
      const auto& axes = mesh().axes;
      for (std::size_t axis = 0; axis < axes.size(); ++axis)
        if (axes[axis].name == name.substr(0, colon)) {
          dim.push_back({AxisId(axis), {}});
          if (colon != std::string::npos) dim.back().stride = std::stoll(name.substr(colon + 1));
        }
      start = end + 1;
    }
    any_cut = any_cut || !dim.empty();
  }
  if (!any_cut) result.dims.clear();
  return result;
}

BufferId Builder::place(std::string_view name, const Shape& global, Kind kind,
                        const std::vector<std::string>& cuts) {
  Buffer buffer;
  buffer.name = name;
  buffer.dtype = kind.dtype;
  buffer.global = global;
  buffer.sharding = sharding(cuts);
  buffer.role = kind.role;
  buffer.region = is_persistent(kind.role) ? Region::persistent : Region::transient;
  buffer.size_bytes =
      op::local_shape(global, buffer.sharding, mesh()).elements() * size_bytes(kind.dtype);
  program.buffers.push_back(buffer);
  return BufferId(program.buffers.size() - 1);
}

BufferId Builder::buffer(std::string_view name, const Shape& global, Kind kind,
                         const std::vector<std::string>& cuts) {
  const BufferId id = place(name, global, kind, cuts);
  Buffer& added = program.buffers[id.index()];
  auto& end =
      added.region == Region::persistent ? program.persistent_bytes : program.transient_bytes;
  added.offset_bytes = end;
  end = aligned(end + added.space_bytes());
  return id;
}

BufferId Builder::buffer_over(std::string_view other, std::string_view name, const Shape& global,
                              Kind kind, const std::vector<std::string>& cuts) {
  const BufferId id = place(name, global, kind, cuts);
  program.buffers[id.index()].offset_bytes = buffer_named(program, other).offset_bytes;
  return id;
}

BufferId Builder::blocked(std::string_view name, const Shape& global, Kind kind,
                          const std::vector<std::string>& cuts, std::size_t dim,
                          std::string_view axis) {
  const BufferId id = place(name, global, kind, cuts);
  Buffer& added = program.buffers[id.index()];
  for (std::size_t i = 0; i < mesh().axes.size(); ++i)
    if (mesh().axes[i].name == axis) added.blocked = Blocked{dim, AxisId(i)};
  const std::int64_t parts = mesh().axes[added.blocked->axis.index()].size;
  const std::int64_t size = program.local_shape(id)[dim];
  added.blocked->share = (size + parts - 1) / parts;
  added.size_bytes = added.size_bytes / size * added.blocked->share * parts;
  added.offset_bytes = program.transient_bytes;
  program.transient_bytes = aligned(program.transient_bytes + added.size_bytes);
  return id;
}

void Builder::blocks() {
  for (const auto& [name, bytes, role] :
       {std::tuple("step", sizeof(op::StepBlock), BufferRole::step_block),
        std::tuple("result", sizeof(op::ResultBlock), BufferRole::result_block)}) {
    const BufferId id = buffer(name, {static_cast<std::int64_t>(bytes / 8)}, {role, DType::u64});
    program.buffers[id.index()].two_by_parity = true;
    program.persistent_bytes = aligned(program.persistent_bytes + static_cast<std::int64_t>(bytes));
  }
}

std::vector<std::int64_t> Builder::coordinates() const {
  // A rank that the mesh does not have is that of a program which is only printed.
  return mesh().coordinates_of(program.rank).value_or(mesh().coordinates(0));
}

void Builder::group(const std::vector<std::string>& axes) {
  const auto own = coordinates();
  Group group{{}, mesh_, {}, {}};
  for (const std::string& name : axes) {
    const auto found = std::ranges::find(mesh().axes, name, &Axis::name);
    group.axes.emplace_back(static_cast<std::size_t>(found - mesh().axes.begin()));
    group.name += (group.name.empty() ? "" : "-") + name;
  }
  for (std::size_t i = 0; i < mesh().ranks.size(); ++i) {
    auto other = mesh().coordinates(i);
    for (const AxisId axis : group.axes) other[axis.index()] = own[axis.index()];
    if (other == own) group.members.push_back(mesh().ranks[i]);
  }
  program.groups.push_back(group);
}

std::int64_t Builder::first(std::string_view name, std::size_t dim) const {
  const Buffer& buffer = program.buffer(*program.find_buffer(name));
  if (dim >= buffer.sharding.dims.size()) return 0;
  return op::first_index(buffer.global[dim], buffer.sharding.dims[dim], mesh(), coordinates());
}

std::int64_t Builder::local(std::string_view name, std::size_t dim) const {
  return program.local_shape(*program.find_buffer(name))[dim];
}

op::TensorWindow Builder::window(std::string_view name, std::size_t first_dim) const {
  op::TensorWindow result;
  const Buffer& buffer = program.buffer(*program.find_buffer(name));
  for (std::size_t dim = first_dim; dim < buffer.global.rank(); ++dim) {
    result.global.push_back(buffer.global[dim]);
    result.first.push_back(first(name, dim));
  }
  return result;
}

void Builder::task(TaskKind kind, std::optional<std::int64_t> micro) {
  if (!program.tasks.empty()) program.tasks.back().end = program.instructions.size();
  program.tasks.push_back({kind, micro, program.instructions.size(), program.instructions.size()});
}

StreamId Builder::stream(std::string_view name) const {
  const auto found = std::find(program.streams.begin(), program.streams.end(), name);
  require(found != program.streams.end(), "a test names a stream of its program");
  return StreamId(static_cast<std::size_t>(found - program.streams.begin()));
}

Slice Builder::slice(std::string_view name) const {
  if (const auto id = program.find_buffer(name)) return program.whole(*id);
  const auto field = op::find_block_field(name);
  require(field.has_value(), "a test names a buffer or a block's field");
  const auto block = program.find_buffer(name.substr(0, name.find('.')));
  return {*block, static_cast<std::int64_t>(field->offset_bytes), 1, size_bytes(field->dtype), 0};
}

void Builder::add(std::string_view on, What what) {
  if (is_serial_ && !program.instructions.empty()) {
    const StreamId last = program.instructions.back().stream;
    if (last != stream(on)) {
      const EventId event(program.num_events++);
      program.instructions.push_back({last, Record{event}});
      program.instructions.push_back({stream(on), Wait{event}});
    }
  }
  program.instructions.push_back({stream(on), std::move(what)});
}

void Builder::op(std::string_view on, op::Op op, std::initializer_list<std::string_view> operands,
                 DType dtype) {
  Compute compute{std::move(op), dtype, {}, std::nullopt, "reference"};
  for (const std::string_view operand : operands) compute.slices.push_back(slice(operand));
  add(on, compute);
}

namespace {
GroupId group_named(const Program& program, std::string_view name) {
  for (std::size_t i = 0; i < program.groups.size(); ++i)
    if (program.groups[i].name == name) return GroupId(i);
  fail_internal("a test names a group of its program");
}
}  // namespace

void Builder::all_reduce(std::string_view axis, std::string_view data) {
  add(axis, AllReduce{group_named(program, axis), op::Reduction::sum, {slice(data)}});
}
void Builder::all_reduce(std::string_view axis, const std::vector<std::string>& data) {
  Slices slices;
  for (const std::string& name : data) slices.push_back(slice(name));
  add(axis, AllReduce{group_named(program, axis), op::Reduction::sum, std::move(slices)});
}
void Builder::all_gather(std::string_view axis, std::string_view from, std::string_view to) {
  add(axis, AllGather{group_named(program, axis), {slice(from)}, {slice(to)}});
}
void Builder::reduce_scatter(std::string_view axis, std::string_view from, std::string_view to) {
  add(axis,
      ReduceScatter{group_named(program, axis), op::Reduction::sum, {slice(from)}, {slice(to)}});
}
void Builder::all_to_all(std::string_view axis, std::string_view from, std::string_view to) {
  add(axis, AllToAll{group_named(program, axis), {slice(from)}, {slice(to)}});
}
void Builder::feed(std::int64_t micro, std::string_view to) {
  const Slice slice_to = slice(to);
  const Buffer& buffer = program.buffer(slice_to.buffer);
  const auto is_it = [&](const Input& input) { return input.name == to; };
  const auto place = std::ranges::find_if(program.inputs, is_it);
  const InputId input(static_cast<std::size_t>(place - program.inputs.begin()));
  if (place == program.inputs.end())
    program.inputs.push_back(
        {std::string(to), buffer.dtype, Shape({buffer.global.begin() + 1, buffer.global.end()})});
  add("feed", Feed{input, micro, slice_to});
}

EventId Builder::record(std::string_view on) {
  const EventId event(program.num_events++);
  add(on, Record{event});
  return event;
}
void Builder::wait(std::string_view on, EventId event) {
  add(on, Wait{event});
}

Program Builder::finish() {
  if (!program.tasks.empty()) program.tasks.back().end = program.instructions.size();
  return program;
}

std::size_t find_instruction(const Program& program, std::string_view wanted, std::size_t count) {
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    if (name(program.instructions[i]) == wanted && count-- == 0) return i;
  fail_internal("a test names an instruction of its program");
}

void erase_instruction(Program& program, std::size_t index) {
  program.instructions.erase(program.instructions.begin() + static_cast<std::ptrdiff_t>(index));
  for (Task& task : program.tasks) {
    if (task.begin > index) --task.begin;
    if (task.end > index) --task.end;
  }
}

void insert_instruction(Program& program, std::size_t index, const Instruction& instruction) {
  const bool at_end = index == program.instructions.size();
  program.instructions.insert(program.instructions.begin() + static_cast<std::ptrdiff_t>(index),
                              instruction);
  for (Task& task : program.tasks) {
    if (task.begin > index) ++task.begin;
    if (task.end > index) ++task.end;
  }
  if (at_end && !program.tasks.empty()) ++program.tasks.back().end;
}

Buffer& buffer_named(Program& program, std::string_view name) {
  const auto id = program.find_buffer(name);
  require(id.has_value(), "a test names a buffer of its program");
  return program.buffers[id->index()];
}

}  // namespace fourfold::program
