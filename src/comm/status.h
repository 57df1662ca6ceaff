// How each rank ended, in a file of its own: launchers report one exit code for all.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/mesh.h"

namespace fourfold::comm {

struct RankStatus {
  Rank rank;
  std::string host;
  std::int64_t pid = 0;
  ExitCode code = ExitCode::done;
  std::string message;  // the reason; empty when all is well
};

/// FOLDER/rank-3.json
std::string status_path(const std::string& folder, Rank rank);
/// Writes {"rank", "host", "pid", "code", "message", "time"} there, and makes the folder. Never
/// throws: it is called when all is lost, and then says on standard error why it could not.
void write_status(const std::string& folder, const RankStatus& status) noexcept;

}  // namespace fourfold::comm
