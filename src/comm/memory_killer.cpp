#include "comm/memory_killer.h"

#include <fstream>

#include "base/format.h"

namespace fourfold::comm {

std::optional<std::int64_t> memory_kills(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  for (std::int64_t value = 0; file >> key >> value;)
    if (key == "oom_kill") return value;
  return std::nullopt;
}

std::string memory_kill_notice(std::optional<std::int64_t> before,
                               std::optional<std::int64_t> now) {
  if (!before || !now || *now <= *before) return "";
  return format(
      "; the kernel's memory killer has ended {} process{} on this host since the job began: the "
      "memory was exhausted; start fewer ranks on a host, reduce train.micro_batch_size, or ask "
      "for "
      "more memory",
      *now - *before, *now - *before == 1 ? "" : "es");
}

}  // namespace fourfold::comm
