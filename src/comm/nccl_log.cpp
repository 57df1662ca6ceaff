#include "comm/nccl_log.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"

namespace fourfold::comm {
namespace {

/// What stands after the words, up to the communicator that some versions name.
std::string_view rest_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == line.npos) return {};
  line.remove_prefix(at + words.size());
  return trim(line.substr(0, line.find(" comm ")));
}

/// "NET/AWS Libfabric" of "NET/AWS Libfabric/0/GDRDMA".
std::string_view way_of(std::string_view text) {
  const std::size_t first = text.find('/');
  if (first == text.npos) return text;
  return text.substr(0, text.find('/', first + 1));
}

}  // namespace

bool NcclWays::has_sockets() const {
  return std::ranges::any_of(ways,
                             [](const std::string& way) { return way.starts_with("NET/Socket"); });
}

NcclWays nccl_ways(std::string_view log) {
  NcclWays found;
  for (const std::string& line : split(log, '\n')) {
    if (const std::string_view network = rest_after(line, "NCCL INFO Using network ");
        !network.empty())
      found.network = network;
    if (line.find("NCCL INFO Channel ") == line.npos) continue;
    if (const std::string_view way = rest_after(line, " via "); !way.empty())
      found.ways.insert(std::string(way_of(way)));
  }
  return found;
}

}  // namespace fourfold::comm
