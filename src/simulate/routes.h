// The routes of all that the runners of a job exchange, and who meets whom on them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "program/runners.h"
#include "simulate/route.h"
#include "simulate/tracks.h"

namespace fourfold::simulate {

/// What moves once all who meet have come.
struct Transfer {
  std::uint32_t route = 0;
  double latency_s = 0;
  double flow_bytes = 0;  // that each flow of the route carries
  bool is_tree = false;
};

class Routes {
 public:
  /// Where one rank stands for its class, a route has the flows of all groups or messages that the
  /// ranks of the class have in one place; else those of one group or message. `tracks` by class.
  /// Cost: n log n in the ranks and their groups, and in the messages of the runners.
  Routes(const Links& links, const program::MeetingsView& meetings, const program::Runners& runners,
         std::span<const Track> tracks);

  std::span<const Route> list() const { return routes_; }
  /// The uses of each route, as RouteMaker has them.
  std::vector<std::vector<Use>> uses() const { return maker_.uses(); }
  /// False where groups or messages that count as equal differ in what they take.
  bool are_alike() const;
  /// What a collective of a runner moves, or a message that it sends; `runner` is its index in the
  /// list. The latency holds the fixed time of an instruction, as that of a measured group does.
  Transfer transfer(std::size_t runner, const Item& item) const;

 private:
  /// The routes of one group of a runner.
  struct OfGroup {
    std::uint32_t ring = 0, direct = 0;  // routes, where something takes them
    std::size_t members = 0;
    std::int64_t stride = 0;  // between neighbours; 0: none is common
  };
  struct Needs {
    bool ring = false, direct = false;
  };

  void add_groups(std::size_t runner, const std::vector<Needs>& needs);
  void add_messages(std::size_t runner);
  std::uint32_t add(Route route);

  const Links& links_;
  const program::MeetingsView& meetings_;
  const program::Runners& runners_;
  std::span<const Track> tracks_;
  RouteMaker maker_;
  std::vector<std::vector<std::size_t>> ranks_of_class_;
  std::vector<Route> routes_;
  std::vector<std::vector<OfGroup>> groups_;          // by runner
  std::vector<std::vector<std::uint32_t>> messages_;  // by runner and message: the route
  std::map<std::pair<std::uint32_t, bool>, std::uint32_t> of_communicator_;
  std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> of_pair_;
};

}  // namespace fourfold::simulate
