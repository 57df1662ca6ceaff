#include "comm/status.h"

#include <ctime>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "comm/termination.h"

namespace fourfold::comm {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

std::string status_path(const std::string& folder, Rank rank) {
  return join_path(folder, format("rank-{}.json", rank.index()));
}

void write_status(const std::string& folder, const RankStatus& status) noexcept {
  try {
    make_directories(folder);
    const Json json = Json::object({{"rank", status.rank.index()},
                                    {"host", status.host},
                                    {"pid", status.pid},
                                    {"code", static_cast<std::int64_t>(status.code)},
                                    {"message", status.message},
                                    {"time", utc_now()}});
    write_file_atomic(status_path(folder, status.rank), json.dump() + "\n");
  } catch (const std::exception& error) {
    say_on_stderr(format("warning: the status of rank {} is not written: {}", status.rank.index(),
                         error.what()));
  }
}

}  // namespace fourfold::comm
