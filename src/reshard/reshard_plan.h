// The plan of a resharding: who sends which box to whom, how, and in which order. Not yet the
// messages of each rank: those are lower.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshard/links.h"
#include "reshard/placement.h"
#include "reshard/schedule.h"

namespace fourfold::reshard {

/// How one box gets from a sender to its receivers. With t the time of the box between two hosts,
/// A hosts of B receivers each, K chunks, nothing else under way and links inside hosts free:
enum class Strategy : std::uint8_t {
  send_recv,          // to each receiver: A B t
  local_all_gather,   // a share to each receiver of a host, which then gather: A t
  global_all_gather,  // a share to each receiver, all of which then gather: t + (AB-1)/(AB) t
  broadcast,          // along a chain, host after host, in chunks: t (K + A - 1) / K
  signal,             // one byte to each receiver: the order alone, no data; the upper bound
  alpa                // the rival: as its rule picks, see alpa_groups
};
std::string_view to_string(Strategy strategy);
std::optional<Strategy> parse_strategy(std::string_view text);
std::span<const std::string_view> strategy_names();

struct ReshardOptions {
  Strategy strategy = Strategy::broadcast;
  Ordering ordering = Ordering::best;  // the strategy `alpa` has its own
  std::optional<std::int64_t> chunks;  // of each broadcast; none: best_chunks, most_chunks at most
  Links links;
  std::int64_t element_bytes = 4;
  SearchLimits limits;
};
/// Each is an instruction of every rank of the chain, and beyond some hundred K the time of t (K +
/// A - 1) / K has nothing left to lose.
inline constexpr std::int64_t most_chunks = 1000;

/// How the ranks of a transfer come by its box.
enum class Method : std::uint8_t {
  shares,  // the sender gives each member of a group a share of the box, and the group gathers
  chain,   // the box passes along the one group in chunks
  signal   // one byte for each member
};

struct Transfer {
  Box box;
  Rank sender;
  Method method = Method::chain;
  std::vector<std::vector<Rank>> groups;  // of receivers; those of a host stand together
  std::int64_t chunks = 1;
  double start_s = 0, seconds = 0;  // by the model; of the ways between hosts
  bool is_local = false;            // within one host
  bool operator==(const Transfer&) const = default;
};
/// A rank that wants a box which it has itself.
struct LocalCopy {
  Rank rank;
  Box box;
  bool operator==(const LocalCopy&) const = default;
};

struct ReshardPlan {
  Shape shape;
  std::int64_t element_bytes = 4;
  Strategy strategy = Strategy::broadcast;
  Ordering ordering = Ordering::best;
  std::size_t num_unit_tasks = 0;
  std::vector<Transfer> transfers;  // in the order in which they start, local ones last
  std::vector<LocalCopy> copies;
  double makespan_s = 0;
  /// No strategy and no order is faster: as of schedule.h, each box once over the ways it must
  /// take.
  double lower_bound_s = 0;
  std::int64_t bytes_between_hosts = 0;
  bool operator==(const ReshardPlan&) const = default;
};

/// `host_of` says of each rank of the job on which host it is. Receivers whose host has a holder
/// get their box from it, within the host; all others of a unit task by one transfer from one
/// holder, the first of the host that the ordering chose. A pure function: every rank makes the
/// same plan. Cost: near linear in unit tasks, and the limits of the search.
ReshardPlan make_plan(const Placement& from, const Placement& to, std::span<const HostId> host_of,
                      const ReshardOptions& options);

/// Alpa's rule (Zhuang et al. 2023, section 5.1.1; cross_mesh_resharding.py of the project): the
/// box is cut evenly, by the greatest number that divides the receivers and some dim of it, and as
/// many neighbours each gather one copy. So all do where the receivers divide a dim, across hosts
/// too, and each gets all of it where nothing divides.
std::vector<std::vector<Rank>> alpa_groups(const Box& box, std::span<const Rank> receivers);

/// Bytes of one transfer that pass from one host to another; an all-gather goes round a ring.
std::int64_t bytes_between_hosts(const Transfer& transfer, std::int64_t element_bytes,
                                 std::span<const HostId> host_of);

/// What was planned, with makespan, lower bound and bytes between hosts, and a line for each
/// transfer.
std::string to_text(const ReshardPlan& plan);

}  // namespace fourfold::reshard
