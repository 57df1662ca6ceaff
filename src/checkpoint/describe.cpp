#include "checkpoint/describe.h"

#include "base/error.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "base/units.h"

namespace fourfold::checkpoint {

std::string line_of(const Store& store, std::int64_t step, const std::string& kept) {
  try {
    const Found found = store.open(step);
    const Manifest& m = found.manifest;
    return format("step {:>9}  {:>10}  {:>3} file{}  {}{}{}\n", step, format_bytes(m.size_bytes()),
                  m.files.size(), m.files.size() == 1 ? " " : "s", m.grid,
                  m.is_finite ? "" : "  not finite",
                  kept.empty() ? "" : format("  stays: {}", kept));
  } catch (const UserError& error) {
    const bool is_read = error.code() != ExitCode::storage;
    return format("step {:>9}  {}: {}\n", step, is_read ? "damaged" : "not read",
                  without_controls(error.what()));
  }
}

std::string describe(const Found& found) {
  const Manifest& m = found.manifest;
  std::int64_t elements = 0;
  for (const auto& tensor : m.tensors) elements += tensor.shape.elements();
  std::string text = format("checkpoint   {}\nstep         {}, after {} samples\n", found.path,
                            m.step, m.samples_seen);
  text += format("saved by     {} on {}\n", m.version, m.grid);
  text += format("state        {} tensors, {} elements, {} in {}\ndata         {}\n\n",
                 m.tensors.size(), format_count(static_cast<double>(elements)),
                 format_bytes(m.size_bytes()),
                 counted(static_cast<std::int64_t>(m.files.size()), "file"), m.data);
  for (const auto& tensor : m.tensors)
    text += format("{:<40} {:<4} {:<18} digest {:016x}  {}\n", tensor.name, to_string(tensor.dtype),
                   to_string(tensor.shape), tensor.digest,
                   counted(static_cast<std::int64_t>(tensor.slices.size()), "slice"));
  return text;
}

}  // namespace fourfold::checkpoint
