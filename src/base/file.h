// Whole files, read and written, with errors a user can act on. Not a reader of large files by
// pieces.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace fourfold {

/// The file's bytes. Errors: UserError(code) with the reason and what to do.
std::string read_file(const std::string& path, ExitCode code = ExitCode::bad_data);

/// Writes a temporary sibling, flushes it to the disk and renames it: after a crash `path` holds
/// either the old text or the new one, whole. The folder must exist. Errors: UserError(storage);
/// the sibling is then removed.
void write_file_atomic(const std::string& path, std::string_view text);

/// Makes the folder and its parents; fine when it is there already. Errors: UserError(storage).
void make_directories(const std::string& path);

bool file_exists(const std::string& path);
/// Seen from the current directory, without "." and "..".
std::string absolute_path(const std::string& path);
/// "runs/a/metrics.jsonl" from "runs/a" and "metrics.jsonl"; an absolute `name` stays as it is.
std::string join_path(const std::string& folder, const std::string& name);

}  // namespace fourfold
