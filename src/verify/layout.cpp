// layout: blocked buffers are between a pack, an unpack and collectives; nobody else knows their
// order. Messages carry boxes. What collectives ask of it is in verify_conversion.
#include "base/format.h"
#include "verify/box.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

/// True if an instruction reads and writes tensors as if they were plain.
bool wants_plain(const What& what) {
  return std::holds_alternative<Compute>(what) || std::holds_alternative<Feed>(what) ||
         std::holds_alternative<Send>(what) || std::holds_alternative<Recv>(what);
}

bool stays_inside(const Buffer& buffer) {
  return buffer.region == Region::transient &&
         (buffer.role == BufferRole::activation || buffer.role == BufferRole::gradient ||
          buffer.role == BufferRole::workspace);
}

/// What is wrong with what a message carries: it must say which elements of the whole tensor it
/// has.
std::string message_problem(const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffer(slice.buffer);
  if (buffer.blocked) return {};  // told already
  if (buffer.role == BufferRole::step_block || buffer.role == BufferRole::result_block)
    return slice_dtype(program, slice) ? std::string()
                                       : format("{} bytes from {} of {} are no field of it",
                                                slice.bytes(), slice.offset_bytes, buffer.name);
  if (box_of(program, slice)) return {};
  return format("{} x {} bytes from {}, {} apart, are no box of {}, which is {} here", slice.rows,
                slice.row_bytes, slice.offset_bytes, slice.pitch_bytes, buffer.name,
                to_string(program.local_shape(slice.buffer)));
}

void check_messages(const Program& program, Report& report) {
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const What& what = program.instructions[i].what;
    const auto* send = std::get_if<Send>(&what);
    const auto* recv = std::get_if<Recv>(&what);
    if (send == nullptr && recv == nullptr) continue;
    const std::string problem = message_problem(program, send != nullptr ? send->from : recv->to);
    if (!problem.empty()) report.fault("layout", i, problem);
  }
}

}  // namespace

void check_layout(const Program& program, Report& report) {
  check_messages(program, report);
  bool any = false;
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.blocked) continue;
    any = true;
    if (!stays_inside(buffer))
      report.fault(
          "layout",
          format("{} is a {} {}, which others read as a plain one, but blocked", buffer.name,
                 buffer.region == Region::persistent ? "persistent" : "transient",
                 to_string(buffer.role)));
  }
  if (!any) return;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    if (!wants_plain(program.instructions[i].what)) continue;
    for (const Access& access : accesses(program.instructions[i]))
      if (const Buffer& buffer = program.buffer(access.slice.buffer); buffer.blocked)
        report.fault("layout", i, format("{} is blocked, expected a plain one", buffer.name));
  }
}

}  // namespace fourfold::verify
