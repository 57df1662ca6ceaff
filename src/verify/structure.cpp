// bounds, names, tasks: whether a program hangs together at all.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/format.h"
#include "base/number_set.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

constexpr std::int64_t buffer_alignment = 64;  // a cache line, and what vector kernels may assume

template <class Table, class NameOf>
void check_names(const Table& table, NameOf&& name_of, std::string_view what, Report& report) {
  // Mostly the hashes of the names tell, which take less memory than the names.
  NumberSet hashes;
  bool all_differ = true;
  for (const auto& entry : table)
    all_differ = hashes.insert(std::hash<std::string_view>()(name_of(entry))) && all_differ;
  if (all_differ) return;
  std::unordered_set<std::string_view> seen;
  for (const auto& entry : table)
    if (const std::string& name = name_of(entry); !seen.insert(name).second)
      report.fault("names", format("{} is the name of more than one {}", name, what));
}

void check_all_names(const Program& program, Report& report) {
  const auto name = [](const auto& entry) -> const std::string& { return entry.name; };
  check_names(program.meshes, name, "mesh", report);
  check_names(program.groups, name, "group", report);
  check_names(program.inputs, name, "input", report);
  check_names(program.streams, std::identity(), "stream", report);
  check_names(program.buffers, name, "buffer", report);
}

void check_tasks(const Program& program, Report& report) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    if (task.begin != next || task.end < task.begin)
      report.fault("tasks",
                   format("task {} holds instructions {} to {}, expected them to begin at {}", i,
                          task.begin, task.end, next));
    next = task.end;
  }
  if (next != program.instructions.size())
    report.fault("tasks",
                 format("tasks end at instruction {} of {}", next, program.instructions.size()));
}

// --- meshes, groups, buffers

std::string mesh_problem(const Program& program, const Mesh& mesh) {
  std::int64_t product = 1;
  for (const Axis& axis : mesh.axes) {
    if (axis.size < 1) return format("axis {} has size {}", axis.name, axis.size);
    if (__builtin_mul_overflow(product, axis.size, &product))
      return "its size does not fit 64 bits";
  }
  if (static_cast<std::int64_t>(mesh.ranks.size()) != product)
    return format("{} ranks on {} places", mesh.ranks.size(), product);
  std::set<Rank> seen;  // none of them, where they follow one another
  if (mesh.ranks == Ranks(mesh.ranks.front(), mesh.ranks.size())) {
    const std::size_t beyond = mesh.ranks.front().index() + mesh.ranks.size();
    if (beyond <= static_cast<std::size_t>(program.world)) return {};
    return format("rank {} of {}", beyond - 1, program.world);
  }
  for (const Rank rank : mesh.ranks) {
    if (rank.index() >= static_cast<std::size_t>(program.world))
      return format("rank {} of {}", rank.index(), program.world);
    if (!seen.insert(rank).second) return format("rank {} stands there twice", rank.index());
  }
  return {};
}

void check_axes(const Program& program, const Group& group, Report& report) {
  std::set<AxisId> seen;
  const auto exists = [&](AxisId axis) {
    return group.mesh.index() < program.meshes.size() &&
           axis.index() < program.meshes[group.mesh.index()].axes.size();
  };
  if (group.axes.empty() || !std::ranges::all_of(group.axes, exists))
    report.fault("bounds", format("group {} lies along an axis that does not exist", group.name));
  else if (!std::ranges::all_of(group.axes, [&](AxisId axis) { return seen.insert(axis).second; }))
    report.fault("bounds", format("group {} names an axis twice", group.name));
}

bool check_meshes(const Program& program, Report& report) {
  const std::size_t before = report.size();
  if (program.world < 1 || program.rank.index() >= static_cast<std::size_t>(program.world))
    report.fault("bounds", format("rank {} of {}", program.rank.index(), program.world));
  for (const Mesh& mesh : program.meshes)
    if (const std::string problem = mesh_problem(program, mesh); !problem.empty())
      report.fault("bounds", format("mesh {}: {}", mesh.name, problem));
  for (const Group& group : program.groups) check_axes(program, group, report);
  return report.size() == before;
}

/// The fault unless each axis cuts or is partial at most once and all cuts are in whole blocks.
std::string sharding_problem(const Buffer& buffer, const Mesh& mesh) {
  std::set<AxisId> used;
  const auto take = [&](AxisId axis) {
    return axis.index() < mesh.axes.size() && used.insert(axis).second;
  };
  if (!buffer.sharding.dims.empty() && buffer.sharding.dims.size() != buffer.global.rank())
    return format("its sharding has {} dims of {}", buffer.sharding.dims.size(),
                  buffer.global.rank());
  for (std::size_t dim = 0; dim < buffer.sharding.dims.size(); ++dim) {
    for (const op::Cut& cut : buffer.sharding.dims[dim]) {
      if (!take(cut.axis))
        return format("axis {} does not exist or is used twice", cut.axis.index());
      if (cut.stride && *cut.stride < 1) return format("a cut of stride {}", *cut.stride);
    }
    if (!block_strides(buffer.sharding.dims[dim], buffer.global[dim], mesh))
      return format("the cuts of dim {} do not nest in whole blocks of its {} elements", dim,
                    buffer.global[dim]);
  }
  for (const op::Partial& partial : buffer.sharding.partial)
    if (!take(partial.axis))
      return format("axis {} does not exist or is used twice", partial.axis.index());
  return {};
}

/// A blocked buffer has room for as many parts of equal size as the axis has ranks; `local` becomes
/// the shape of that room.
std::string blocked_problem(const Buffer& buffer, const Mesh& mesh, Shape& local) {
  if (!buffer.blocked) return {};
  const auto& [dim, axis, share] = *buffer.blocked;
  if (dim >= local.rank() || axis.index() >= mesh.axes.size())
    return "it is blocked in a dim or along an axis that does not exist";
  const std::int64_t ranks = mesh.axes[axis.index()].size;
  std::int64_t room = 0;
  if (__builtin_mul_overflow(share, ranks, &room)) return "its blocks do not fit 64 bits";
  if (share < 1 || room < local[dim])
    return format("{} parts of {} do not hold the {} of dim {}", ranks, share, local[dim], dim);
  local[dim] = room;
  return {};
}

/// Bytes of a shape, or nothing where they do not fit 64 bits with room to spare for sums.
std::optional<std::int64_t> checked_bytes(const Shape& shape, DType dtype) {
  std::int64_t bytes = size_bytes(dtype);
  for (const std::int64_t size : shape)
    if (size < 1 || __builtin_mul_overflow(bytes, size, &bytes) || bytes >= (std::int64_t{1} << 60))
      return std::nullopt;
  return bytes;
}

std::string buffer_problem(const Program& program, const Buffer& buffer) {
  if (buffer.sharding.mesh.index() >= program.meshes.size()) return "its mesh does not exist";
  if (!own_coordinates(program, buffer.sharding.mesh)) return "its mesh does not have this rank";
  if (!checked_bytes(buffer.global, buffer.dtype))
    return format("the shape {} is not one", to_string(buffer.global));
  const Mesh& mesh = program.meshes[buffer.sharding.mesh.index()];
  if (auto problem = sharding_problem(buffer, mesh); !problem.empty()) return problem;
  Shape local = op::local_shape(buffer.global, buffer.sharding, mesh);
  if (auto problem = blocked_problem(buffer, mesh, local); !problem.empty()) return problem;
  if (const auto bytes = checked_bytes(local, buffer.dtype); bytes != buffer.size_bytes)
    return format("it has {} bytes, its shape {} of {} {}", buffer.size_bytes, to_string(local),
                  fourfold::to_string(buffer.dtype), bytes.value_or(0));
  if (buffer.offset_bytes < 0 || buffer.offset_bytes % buffer_alignment != 0)
    return format("its offset {} is not a multiple of {}", buffer.offset_bytes, buffer_alignment);
  const std::int64_t region =
      buffer.region == Region::persistent ? program.persistent_bytes : program.transient_bytes;
  if (buffer.space_bytes() > region || buffer.offset_bytes > region - buffer.space_bytes())
    return format("it ends at {}, its region at {}", buffer.offset_bytes + buffer.space_bytes(),
                  region);
  return {};
}

bool check_buffers(const Program& program, Report& report) {
  const std::size_t before = report.size();
  constexpr std::int64_t most_bytes = std::int64_t{1} << 61;
  for (const std::int64_t bytes : {program.persistent_bytes, program.transient_bytes})
    if (bytes < 0 || bytes > most_bytes)
      report.fault("bounds", format("a region of {} bytes", bytes));
  if (report.size() != before) return false;
  for (const Buffer& buffer : program.buffers)
    if (const std::string problem = buffer_problem(program, buffer); !problem.empty())
      report.fault("bounds", format("buffer {}: {}", buffer.name, problem));
  return report.size() == before;
}

// --- instructions

std::string slice_problem(const Program& program, const Slice& slice) {
  constexpr std::int64_t most_rows = std::int64_t{1} << 24;  // rules look at every row
  if (slice.buffer.index() >= program.buffers.size())
    return format("buffer {} does not exist", slice.buffer.index());
  const Buffer& buffer = program.buffer(slice.buffer);
  const bool one_row = slice.rows == 1 && slice.pitch_bytes == 0;
  if (slice.row_bytes < 1 || slice.rows < 1 || slice.rows > most_rows ||
      (!one_row && slice.pitch_bytes < slice.row_bytes) || (slice.rows == 1 && !one_row))
    return format("{} rows of {} bytes, {} apart, are no slice of {}", slice.rows, slice.row_bytes,
                  slice.pitch_bytes, buffer.name);
  std::int64_t end = 0;
  if (slice.offset_bytes < 0 || __builtin_mul_overflow(slice.rows - 1, slice.pitch_bytes, &end) ||
      __builtin_add_overflow(end, slice.row_bytes, &end) ||
      __builtin_add_overflow(end, slice.offset_bytes, &end) || end > buffer.size_bytes)
    return format("the slice at {} of {} rows of {} bytes does not lie within the {} bytes of {}",
                  slice.offset_bytes, slice.rows, slice.row_bytes, buffer.size_bytes, buffer.name);
  const bool is_block =
      buffer.role == BufferRole::step_block || buffer.role == BufferRole::result_block;
  const std::int64_t element = is_block ? 1 : size_bytes(buffer.dtype);
  if (slice.offset_bytes % element != 0 || slice.row_bytes % element != 0 ||
      slice.pitch_bytes % element != 0)
    return format("a slice of {} does not begin and end between elements", buffer.name);
  return {};
}

/// Checks that the sides of a collective are lists of as many tensors, of one at least.
template <AnyCollective Kind>
std::string list_problem(const Kind& what) {
  if constexpr (requires { what.data; }) {
    if (what.data.empty()) return "a collective of no tensor";
  } else {
    if (what.from.empty()) return "a collective of no tensor";
    if (what.from.size() != what.to.size())
      return format("{} tensors become {}", what.from.size(), what.to.size());
  }
  return {};
}

template <class Kind>
std::string kind_problem(const Program& program, const Kind& what) {
  if constexpr (std::is_same_v<Kind, Compute>)
    if (what.slices.size() != op::operands(what.op).size())
      return format("{} operands, expected {}", what.slices.size(), op::operands(what.op).size());
  if constexpr (AnyCollective<Kind>) {
    if (what.group.index() >= program.groups.size())
      return format("group {} does not exist", what.group.index());
    if (const std::string problem = list_problem(what); !problem.empty()) return problem;
  }
  if constexpr (requires { what.input; })
    if (what.input.index() >= program.inputs.size())
      return format("input {} does not exist", what.input.index());
  if constexpr (requires { what.event; })
    if (what.event.index() >= program.num_events)
      return format("event {} of {}", what.event.index(), program.num_events);
  if constexpr (requires { what.peer; })
    if (what.peer.index() >= static_cast<std::size_t>(program.world) || what.peer == program.rank)
      return format("peer {} of {}", what.peer.index(), program.world);
  return {};
}

/// Checks that chunks divide the samples of a micro-batch, of this rank and of all.
std::string chunks_problem(const Feeds& feeds) {
  if (feeds.chunks == 1) return {};
  if (feeds.chunks > 1 && feeds.count >= feeds.chunks && feeds.count % feeds.chunks == 0 &&
      feeds.samples >= feeds.count && feeds.samples % feeds.chunks == 0)
    return {};
  return format("{} chunks of {} samples, {} over all ranks", feeds.chunks, feeds.count,
                feeds.samples);
}

bool check_instructions(const Program& program, Report& report) {
  const std::size_t before = report.size();
  if (const std::string problem = chunks_problem(program.feeds); !problem.empty())
    report.fault("bounds", problem);
  constexpr std::size_t most_streams = 256;  // vector clocks are quadratic in streams
  if (program.streams.size() > most_streams)
    report.fault("bounds", format("{} streams, at most {}", program.streams.size(), most_streams));
  if (program.num_events > program.instructions.size())
    report.fault("events", format("{} events in {} instructions", program.num_events,
                                  program.instructions.size()));
  for (const Input& input : program.inputs)
    if (!checked_bytes(input.sample_shape, input.dtype))
      report.fault("bounds", format("input {}: the shape {} is not one", input.name,
                                    to_string(input.sample_shape)));
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.stream.index() >= program.streams.size())
      report.fault("bounds", i, format("stream {} does not exist", instruction.stream.index()));
    const std::string problem =
        std::visit([&](const auto& what) { return kind_problem(program, what); }, instruction.what);
    if (!problem.empty()) {
      report.fault(std::holds_alternative<Compute>(instruction.what) ? "operands" : "bounds", i,
                   problem);
      continue;
    }
    for (const Access& access : accesses(instruction))
      if (const std::string bad = slice_problem(program, access.slice); !bad.empty())
        report.fault("bounds", i, bad);
  }
  return report.size() == before;
}

}  // namespace

bool check_structure(const Program& program, Report& report) {
  check_all_names(program, report);
  check_tasks(program, report);
  return check_meshes(program, report) && check_buffers(program, report) &&
         check_instructions(program, report);
}

bool check_peers(const Program& program, Report& report) {
  const std::size_t before = report.size();
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    std::visit(
        [&](const auto& what) {
          if constexpr (requires { what.peer; }) {
            std::string problem = kind_problem(program, what);
            if (problem.empty())
              problem = slice_problem(program, accesses(program.instructions[i])[0].slice);
            if (!problem.empty()) report.fault("bounds", i, problem);
          }
        },
        program.instructions[i].what);
  return report.size() == before;
}

void check_persistent_overlap(const Program& program, Report& report) {
  std::vector<const Buffer*> buffers;
  for (const Buffer& buffer : program.buffers)
    if (buffer.region == Region::persistent) buffers.push_back(&buffer);
  std::stable_sort(buffers.begin(), buffers.end(), [](const Buffer* a, const Buffer* b) {
    return a->offset_bytes < b->offset_bytes;
  });
  const Buffer* furthest = nullptr;
  for (const Buffer* buffer : buffers) {
    if (furthest != nullptr &&
        furthest->offset_bytes + furthest->space_bytes() > buffer->offset_bytes)
      report.fault("persistent-overlap",
                   format("{} and {} share persistent bytes from {} on", furthest->name,
                          buffer->name, buffer->offset_bytes));
    if (furthest == nullptr || buffer->offset_bytes + buffer->space_bytes() >
                                   furthest->offset_bytes + furthest->space_bytes())
      furthest = buffer;
  }
}

}  // namespace fourfold::verify
