#include "show/rank_report.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/text.h"
#include "base/units.h"

namespace fourfold::show {
namespace {

/// Ranks by host, hosts in the order of their first rank.
std::vector<std::pair<std::string, std::vector<std::size_t>>> ranks_by_host(
    std::span<const measure::RankFacts> ranks) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> hosts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    auto place = std::ranges::find_if(
        hosts, [&](const auto& host) { return host.first == ranks[rank].host; });
    if (place == hosts.end()) place = hosts.insert(place, {ranks[rank].host, {}});
    place->second.push_back(rank);
  }
  return hosts;
}

/// "0-3, 6": numbers that follow one another are a range.
std::string number_list(const std::vector<std::size_t>& numbers) {
  std::vector<int> values(numbers.begin(), numbers.end());
  return core_list(values);
}

std::size_t widest(std::span<const measure::RankFacts> ranks, std::size_t least, auto text_of) {
  for (const measure::RankFacts& rank : ranks) least = std::max(least, text_of(rank).size());
  return least;
}

std::string rank_rows(std::span<const measure::RankFacts> ranks) {
  const auto host_of = [](const measure::RankFacts& rank) { return rank.host; };
  const auto cores_of = [](const measure::RankFacts& rank) { return core_list(rank.cores); };
  const std::size_t hosts = widest(ranks, 4, host_of), cores = widest(ranks, 5, cores_of);
  std::string text =
      format("{:>5}  {:<{}}  {:<{}}  {}\n", "rank", "host", hosts, "cores", cores, "gpu");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const measure::RankFacts& facts = ranks[rank];
    std::string gpu = "-";
    if (facts.gpu)
      gpu = format("{} of {}, {}, {}, NUMA node {}", facts.gpu->index, facts.gpu->visible,
                   facts.gpu->bus_id, facts.gpu->name,
                   facts.gpu->numa_node ? format("{}", *facts.gpu->numa_node) : "unknown");
    text +=
        format("{:>5}  {:<{}}  {:<{}}  {}\n", rank, facts.host, hosts, cores_of(facts), cores, gpu);
  }
  if (std::ranges::none_of(ranks,
                           [](const measure::RankFacts& rank) { return rank.gpu.has_value(); }))
    text += format("no GPU: {}\n", ranks.front().why_no_gpu);
  return text;
}

/// Which GPU of a host reaches which, by ranks; in parentheses where it does not.
std::string peer_rows(std::span<const measure::RankFacts> ranks, const std::string& host,
                      const std::vector<std::size_t>& here) {
  std::string text = format("\npeers on {}, by ranks:\n{:>5}", host, "");
  for (const std::size_t rank : here) text += format(" {:>6}", rank);
  text += "\n";
  for (const std::size_t rank : here) {
    text += format("{:>5}", rank);
    for (std::size_t i = 0; i < here.size(); ++i) {
      const machine::GpuLink& link = ranks[rank].gpu->links[i];
      const measure::RankGpu &own = *ranks[rank].gpu, &other = *ranks[here[i]].gpu;
      const bool is_own = own.bus_id == other.bus_id && own.uuid == other.uuid;
      const std::string way(machine::short_name(link.way));
      text += format(" {:>6}", is_own ? "=" : link.reaches ? way : format("({})", way));
    }
    text += "\n";
  }
  return text;
}

bool have_gpus(std::span<const measure::RankFacts> ranks) {
  return std::ranges::all_of(ranks,
                             [](const measure::RankFacts& rank) { return rank.gpu.has_value(); });
}

std::string peers(std::span<const measure::RankFacts> ranks) {
  if (!have_gpus(ranks)) return {};
  std::string text;
  for (const auto& [host, here] : ranks_by_host(ranks))
    if (here.size() > 1) text += peer_rows(ranks, host, here);
  if (!text.empty())
    text +=
        "=: the same GPU; NVL: NVLink; PIX, PXB: one PCIe switch, several; PHB: by the CPU's host "
        "bridge; NODE, SYS: within a NUMA node, between them; (in parentheses): without access to "
        "its memory\n";
  return text;
}

std::string nccl_text(std::span<const measure::RankFacts> ranks) {
  const measure::RankFacts& first = ranks.front();
  if (first.between.empty()) return {};
  std::string text = format("\nbetween GPUs: {}\n", first.between);
  if (first.nccl.empty()) return text;
  std::set<std::string> ways;
  for (const measure::RankFacts& rank : ranks)
    ways.insert(rank.ways.ways.begin(), rank.ways.ways.end());
  const std::vector<std::string> all(ways.begin(), ways.end());
  text += format("NCCL {}: all ranks by {}{}\n", first.nccl,
                 all.empty() ? "ways that its log does not name" : join(all, ", "),
                 first.ways.network.empty() ? "" : format("; network {}", first.ways.network));
  return text;
}

/// The numbers of ranks for which something holds.
std::vector<std::size_t> ranks_where(std::span<const measure::RankFacts> ranks, auto holds) {
  std::vector<std::size_t> numbers;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (holds(ranks[rank])) numbers.push_back(rank);
  return numbers;
}

std::string some_ranks(const std::vector<std::size_t>& numbers) {
  return format("rank{} {}", numbers.size() == 1 ? "" : "s", number_list(numbers));
}

}  // namespace

std::string rank_table(std::span<const measure::RankFacts> ranks) {
  const auto hosts = ranks_by_host(ranks);
  std::set<std::string> counts;
  for (const auto& [host, here] : hosts) counts.insert(format("{}", here.size()));
  const std::vector<std::string> all(counts.begin(), counts.end());
  const measure::RankFacts& first = ranks.front();
  return format("{} on {}, {} each; {}, which takes {}\n\n",
                counted(static_cast<std::int64_t>(ranks.size()), "rank"),
                counted(static_cast<std::int64_t>(hosts.size()), "host"), join(all, " or "),
                first.mpi,
                first.mpi_takes_device_memory ? "memory of devices" : "no memory of devices") +
         rank_rows(ranks) + peers(ranks) + nccl_text(ranks);
}

std::vector<std::string> rank_warnings(std::span<const measure::RankFacts> ranks) {
  std::vector<std::string> warnings;
  std::map<std::string, std::vector<std::size_t>> advice, no_gpu;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].advice.empty()) advice[ranks[rank].advice].push_back(rank);
    if (!ranks[rank].why_no_gpu.empty()) no_gpu[ranks[rank].why_no_gpu].push_back(rank);
  }
  for (const auto& [text, who] : advice)
    warnings.push_back(format("{}: {}", some_ranks(who), text));
  // Where no rank has one, nobody asked for GPUs.
  std::size_t without = 0;
  for (const auto& [text, who] : no_gpu) without += who.size();
  if (without < ranks.size())
    for (const auto& [text, who] : no_gpu)
      warnings.push_back(format("{} without a GPU, which others have: {}", some_ranks(who), text));
  const measure::RankFacts& first = ranks.front();
  if (const auto other =
          ranks_where(ranks, [&](const measure::RankFacts& r) { return r.mpi != first.mpi; });
      !other.empty())
    warnings.push_back(
        format("{} loaded {}, and rank 0 {}; put the same MPI into LD_LIBRARY_PATH "
               "on all hosts",
               some_ranks(other), ranks[other.front()].mpi, first.mpi));
  if (const auto by_tcp =
          ranks_where(ranks, [](const measure::RankFacts& r) { return r.ways.has_sockets(); });
      !by_tcp.empty())
    warnings.push_back(format(
        "{}: NCCL sends by TCP sockets, as it has found nothing faster: load the plugin of this "
        "network (NCCL_NET names it, and ends the job where it is missing), or let it see the "
        "adapters (NCCL_IB_HCA, /dev/infiniband in a container); NCCL_DEBUG=INFO says what it "
        "tried",
        some_ranks(by_tcp)));
  if (have_gpus(ranks))
    for (const auto& [host, here] : ranks_by_host(ranks)) {
      const auto cut_off = ranks_where(ranks, [&, &name = host](const measure::RankFacts& r) {
        return r.host == name &&
               std::ranges::any_of(r.gpu->links, [](const machine::GpuLink& link) {
                 return link.way != machine::GpuWay::unknown && !link.reaches;
               });
      });
      if (!cut_off.empty())
        warnings.push_back(
            format("{} on {}: GPUs that do not reach each other's memory exchange through the "
                   "host's; look at `nvidia-smi topo -p2p r` and at ACS in the BIOS",
                   some_ranks(cut_off), host));
    }
  return warnings;
}

}  // namespace fourfold::show
