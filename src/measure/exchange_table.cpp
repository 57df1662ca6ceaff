#include "measure/exchange_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/format.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "machine/mesh_bandwidth.h"

namespace fourfold::measure {
namespace {

/// One line, or one object.
struct TimedExchange {
  const NamedGroup& group;
  const ExchangeTimes& times;
  const TimedBytes& sample;
  double link_bytes_per_s;  // infinite where no machine is named

  double ring_bytes_per_s() const {
    return ring_share(times.exchange) * sample.bytes / sample.seconds;
  }
};

std::string exchanges_header() {
  return format("{:<15} {:<12} {:>6} {:>7} {:>10} {:>12} {:>9} {:>10} {:>7} {:>8}\n", "kind",
                "group", "ranks", "stride", "bytes", "time us", "GB/s", "link GB/s", "of it",
                "spread");
}

std::string line_of(const TimedExchange& result) {
  const bool has_link = std::isfinite(result.link_bytes_per_s);
  const Exchange& exchange = result.times.exchange;
  return format(
      "{:<15} {:<12} {:>6} {:>7} {:>10} {:>12.1f} {:>9.4g} {:>10} {:>7} {:>7.0f}%\n",
      to_string(exchange.kind), result.group.name, exchange.ranks, exchange.stride,
      format_bytes(std::llround(result.sample.bytes)), 1e6 * result.sample.seconds,
      result.ring_bytes_per_s() / 1e9,
      has_link ? format("{:.4g}", result.link_bytes_per_s / 1e9) : "-",
      has_link ? format("{:.0f}%", 100 * result.ring_bytes_per_s() / result.link_bytes_per_s) : "-",
      100 * result.times.spread);
}

Json json_of(const TimedExchange& result) {
  const Exchange& exchange = result.times.exchange;
  return Json::object()
      .set("kind", to_string(exchange.kind))
      .set("group", result.group.name)
      .set("ranks", exchange.ranks)
      .set("stride", exchange.stride)
      .set("bytes", static_cast<std::int64_t>(std::llround(result.sample.bytes)))
      .set("median_s", result.sample.seconds)
      .set("spread", result.times.spread)
      .set("bytes_per_s", result.sample.bytes / result.sample.seconds)
      .set("ring_bytes_per_s", result.ring_bytes_per_s())
      .set("link_bytes_per_s", result.link_bytes_per_s);
}

}  // namespace

std::vector<NamedGroup> groups_of(std::int64_t world, const std::optional<GridSizes>& grid) {
  std::vector<NamedGroup> groups = {{"world", world, 1}};
  if (!grid) return groups;
  constexpr std::array<const char*, 4> axes{"x", "y", "z", "data"};
  std::int64_t stride = 1;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const std::int64_t ranks = (*grid)[axis];
    if (ranks == 1) continue;
    if (ranks == world)
      groups.front().name += format(", {}", axes[axis]);
    else
      groups.push_back({axes[axis], ranks, stride});
    stride *= ranks;
  }
  return groups;
}

void measure_exchanges(comm::World& world, Carrier& carrier, const std::string& carried_by,
                       const ExchangeRequest& request, const Print& print) {
  const auto ranks = static_cast<std::int64_t>(world.size());
  const std::int64_t hosts =
      std::max<std::int64_t>(1, ranks / static_cast<std::int64_t>(world.local_size()));
  const bool is_first = world.rank().index() == 0;
  const std::string title =
      format("{} on {}: {}{}", counted(ranks, "rank"), counted(hosts, "host"), carried_by,
             request.machine ? format("; beside {}", request.machine->title) : "");
  const auto show = [&](const std::string& text) {
    if (is_first && !request.is_json) print(text);
  };
  show(title + "\n\n" + exchanges_header());
  Json results = Json::array();
  for (const NamedGroup& group : groups_of(ranks, request.grid))
    for (const ExchangeKind kind : request.kinds) {
      const Exchange exchange{kind, kind ? group.ranks : 2, group.stride};
      const ExchangeTimes times =
          measure_exchange(world, carrier, exchange, request.sizes, request.seconds);
      const double link = request.machine ? machine::axis_bytes_per_s(
                                                *request.machine, {exchange.ranks, exchange.stride})
                                          : HUGE_VAL;
      for (const TimedBytes& sample : times.samples) {
        const TimedExchange result{group, times, sample, link};
        results.push(json_of(result));
        show(line_of(result));
      }
    }
  show("\nGB/s: what each rank sends, if its group is a ring; medians of all ranks' slowest\n");
  if (is_first && request.is_json)
    print(Json::object()
              .set("ranks", ranks)
              .set("hosts", hosts)
              .set("carried_by", carried_by)
              .set("machine", request.machine ? Json(request.machine->name) : Json())
              .set("results", results)
              .dump() +
          "\n");
}

}  // namespace fourfold::measure
