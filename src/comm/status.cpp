#include "comm/status.h"

#include <cstdio>
#include <ctime>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"

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
    std::fprintf(stderr, "warning: the status of rank %zu is not written: %s\n",
                 status.rank.index(), error.what());
  }
}

}  // namespace fourfold::comm
