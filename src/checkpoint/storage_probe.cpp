#include "checkpoint/storage_probe.h"

#include <unistd.h>

#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"

namespace fourfold::checkpoint {

void probe_storage(FileSystem& files, const std::string& folder) {
  constexpr std::string_view text = "Can this folder keep a checkpoint?\n";
  const std::string first = format("{}/.probe-{}", folder, ::getpid()), second = first + "-2";
  for (const std::string& path : {first, second})
    if (files.exists(path)) files.remove_file(path);
  write_new_file(files, first, text);
  files.rename(first, second);
  files.sync_directory(folder);
  std::string found;
  try {
    found = read_text(files, second);
  } catch (const UserError& error) {
    throw UserError(ExitCode::storage, error.what());
  }
  if (found != text)
    throw UserError(ExitCode::storage,
                    format("{}: what was written is not what is read back; check the disk or the "
                           "network file system",
                           second));
  files.remove_file(second);
}

void check_room(FileSystem& files, const std::string& folder, const StoragePlan& plan) {
  const std::int64_t needed = plan.checkpoints * plan.checkpoint_bytes + plan.other_bytes;
  const std::int64_t available = files.free_bytes(folder) + plan.reused_bytes;
  if (needed <= available) return;
  throw UserError(ExitCode::storage,
                  format("{}: has room for {}, the run needs {}: {} checkpoints of {} at once, and "
                         "{} besides; make space, choose another run.dir, or keep fewer "
                         "(checkpoint.keep_last)",
                         folder, format_bytes(available), format_bytes(needed), plan.checkpoints,
                         format_bytes(plan.checkpoint_bytes), format_bytes(plan.other_bytes)));
}

}  // namespace fourfold::checkpoint
