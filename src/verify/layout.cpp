// layout: blocked buffers are between a pack, an unpack and collectives; nobody else knows their
// order. What collectives ask of it is in verify_conversion.
#include "base/format.h"
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

}  // namespace

void check_layout(const Program& program, Report& report) {
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
