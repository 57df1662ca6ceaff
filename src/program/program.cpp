#include "program/program.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::program {

std::string_view to_string(BufferRole role) {
  switch (role) {
    case BufferRole::parameter:
      return "parameter";
    case BufferRole::moment:
      return "moment";
    case BufferRole::average:
      return "average";
    case BufferRole::rounded:
      return "rounded";
    case BufferRole::counter:
      return "counter";
    case BufferRole::cache:
      return "cache";
    case BufferRole::step_block:
      return "step_block";
    case BufferRole::result_block:
      return "result_block";
    case BufferRole::feed:
      return "feed";
    case BufferRole::activation:
      return "activation";
    case BufferRole::gradient:
      return "gradient";
    case BufferRole::workspace:
      return "workspace";
    case BufferRole::output:
      return "output";
  }
  fail_internal("every buffer role has a name");
}

std::string_view averaged_name(std::string_view name) {
  constexpr std::string_view prefix = "average/";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string_view();
}

namespace {

constexpr std::string_view rounded_suffix = "/rounded";

}  // namespace

std::string_view rounded_name(std::string_view name) {
  if (!name.ends_with(rounded_suffix)) return {};
  return name.substr(0, name.size() - rounded_suffix.size());
}

std::string name_of_rounded(std::string_view parameter) {
  return format("{}{}", parameter, rounded_suffix);
}

std::string_view to_string(TaskKind kind) {
  switch (kind) {
    case TaskKind::init:
      return "init";
    case TaskKind::receive:
      return "receive";
    case TaskKind::forward:
      return "forward";
    case TaskKind::backward:
      return "backward";
    case TaskKind::weight_backward:
      return "weight_backward";
    case TaskKind::gradient_sync:
      return "gradient_sync";
    case TaskKind::update:
      return "update";
    case TaskKind::evaluate:
      return "evaluate";
    case TaskKind::decode:
      return "decode";
    case TaskKind::digest:
      return "digest";
  }
  fail_internal("every task kind has a name");
}

std::optional<BufferId> Program::find_buffer(std::string_view buffer_name) const {
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].name == buffer_name) return BufferId(i);
  return std::nullopt;
}

Shape Program::local_shape(BufferId id) const {
  const Buffer& b = buffer(id);
  return op::local_shape(b.global, b.sharding, meshes[b.sharding.mesh.index()]);
}

Slice Program::whole(BufferId id) const {
  return {id, 0, 1, buffer(id).size_bytes, 0};
}

std::int64_t Feeds::sample_of(std::int64_t chunk, std::int64_t index) const {
  if (chunks == 1) return index;
  // Unsigned, as numbers that no program has may be read from text.
  const auto rows = static_cast<std::uint64_t>(of_chunk()),
             of_all = static_cast<std::uint64_t>(count), at = static_cast<std::uint64_t>(index);
  return static_cast<std::int64_t>(at / rows * of_all + static_cast<std::uint64_t>(chunk) * rows +
                                   at % rows);
}

std::string Program::axes_text(const Group& group) const {
  std::string text;
  for (const AxisId axis : group.axes)
    text +=
        format("{}{}", text.empty() ? "" : "-", meshes[group.mesh.index()].axes[axis.index()].name);
  return text;
}

Shape Program::view_shape(const Slice& slice, DType dtype) const {
  const Buffer& b = buffer(slice.buffer);
  Shape shape = local_shape(slice.buffer);
  if (slice.offset_bytes == 0 && slice.rows == 1 && slice.row_bytes == b.size_bytes &&
      dtype == b.dtype)
    return shape;
  const std::int64_t bytes = slice.bytes();
  const bool is_field = b.role == BufferRole::step_block || b.role == BufferRole::result_block;
  if (is_field && bytes == size_bytes(dtype)) return {};
  const std::int64_t row = shape.rank() > 0 && shape[0] > 0 ? b.size_bytes / shape[0] : 0;
  if (row > 0 && dtype == b.dtype && slice.rows == 1 && bytes % row == 0) {
    shape[0] = bytes / row;
    return shape;
  }
  if (bytes == size_bytes(dtype)) return {};
  return {bytes / size_bytes(dtype)};
}

std::vector<Shape> Program::operand_shapes(const Compute& compute) const {
  const op::Operands operands = op::operands(compute.op);
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < operands.size(); ++i)
    shapes.push_back(
        view_shape(compute.slices[i], op::element_dtype(operands[i].element, compute.dtype)));
  return shapes;
}

const Program* Bundle::find(op::ProgramKind kind) const {
  for (const Program& p : programs)
    if (p.kind == kind) return &p;
  return nullptr;
}

const Program& Bundle::at(op::ProgramKind kind) const {
  const Program* found = find(kind);
  require(found != nullptr,
          [&] { return format("the bundle has a program named {}", op::to_string(kind)); });
  return *found;
}

std::vector<MemoryClass> persistent_memory_by_role(const Program& program) {
  std::vector<MemoryClass> classes;
  for (const Buffer& b : program.buffers) {
    if (b.region != Region::persistent) continue;
    const auto place = std::find_if(classes.begin(), classes.end(),
                                    [&](const auto& c) { return c.role == b.role; });
    if (place == classes.end())
      classes.push_back({b.role, b.space_bytes()});
    else
      place->bytes += b.space_bytes();
  }
  return classes;
}

double total_flops(const Program& program) {
  double total = 0;
  for (const Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<Compute>(&instruction.what))
      total += op::flops(compute->op, program.operand_shapes(*compute));
  return total;
}

}  // namespace fourfold::program
