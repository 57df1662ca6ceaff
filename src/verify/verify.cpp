#include "verify/verify.h"

#include <algorithm>

#include "base/format.h"
#include "op/blocks.h"
#include "program/text.h"
#include "verify/rules.h"

namespace fourfold::verify {

void Report::fault(std::string_view rule, std::string_view message) {
  faults_.push_back({std::string(rule), std::nullopt,
                     format("{}: {}", to_string(program_.kind), message), std::nullopt});
}

void Report::fault(std::string_view rule, std::size_t instruction, std::string_view message) {
  faults_.push_back({std::string(rule), instruction,
                     format("{}: {}", place_text(program_, instruction), message), std::nullopt});
}

std::vector<Fault> verify(const Program& program) {
  Report report(program);
  if (!check_structure(program, report)) return report.take();
  Claims claims(program);
  check_groups(program, report);
  check_persistent_overlap(program, report);
  const std::size_t before = report.size();
  check_operands(program, report);
  const bool shapes_fit = report.size() == before;
  check_writes(program, report);
  check_layout(program, report);
  check_feeds(claims, report);
  check_updates(claims, report);
  check_rounded(program, report);
  if (check_order(program, report)) check_memory(program, report);
  if (shapes_fit) {
    check_state(claims, report);
    check_attributes(claims, report);
  }
  check_sums(program, report);
  return report.take();
}

// --- shared questions

std::int64_t address(const Program& program, BufferId id) {
  const Buffer& buffer = program.buffer(id);
  return buffer.offset_bytes + (buffer.region == Region::persistent ? 0 : program.persistent_bytes);
}

namespace {

/// True if the run meets a row of the slice, which begins at `start`.
bool meets_row(const AddressRange& run, std::int64_t start, const Slice& slice) {
  if (slice.rows == 1) return run.overlaps({start, start + slice.row_bytes});
  // The first row that ends after the run's begin; rows before it end too early.
  const std::int64_t beyond = run.begin - start - slice.row_bytes;
  const std::int64_t row = beyond < 0 ? 0 : beyond / slice.pitch_bytes + 1;
  return row < slice.rows && start + row * slice.pitch_bytes < run.end;
}

}  // namespace

bool overlap(const Program& program, const Slice& a, const Slice& b) {
  const Buffer& buffer = program.buffer(b.buffer);
  bool found = false;
  for (std::int64_t copy = 0; copy < (buffer.two_by_parity ? 2 : 1); ++copy) {
    const std::int64_t start =
        address(program, b.buffer) + copy * buffer.size_bytes + b.offset_bytes;
    const AddressRange hull{start, start + b.end_bytes() - b.offset_bytes};
    const std::int64_t a_start = address(program, a.buffer);
    if (!hull.overlaps({a_start, a_start + program.buffer(a.buffer).space_bytes()})) continue;
    for_each_run(program, a,
                 [&](const AddressRange& run) { found = found || meets_row(run, start, b); });
  }
  return found;
}

std::optional<DType> slice_dtype(const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffer(slice.buffer);
  const auto field = [&](const auto& fields) -> std::optional<DType> {
    for (const op::BlockField& f : fields)
      if (static_cast<std::int64_t>(f.offset_bytes) == slice.offset_bytes && slice.rows == 1 &&
          size_bytes(f.dtype) == slice.row_bytes)
        return f.dtype;
    return std::nullopt;
  };
  if (buffer.role == BufferRole::step_block) return field(op::step_fields);
  if (buffer.role == BufferRole::result_block) return field(op::result_fields);
  return buffer.dtype;
}

std::string place_text(const Program& program, std::size_t instruction) {
  std::string task = "outside of all tasks";
  for (const Task& candidate : program.tasks)
    if (candidate.begin <= instruction && instruction < candidate.end) {
      task = short_text(candidate);
      break;
    }
  return format("{}: {}: instruction {} ({})", to_string(program.kind), task, instruction,
                short_text(program, program.instructions[instruction]));
}

std::optional<std::vector<std::int64_t>> own_coordinates(const Program& program, MeshId id) {
  return program.meshes[id.index()].coordinates_of(program.rank);
}

}  // namespace fourfold::verify
