#include "measure/rank_facts.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/json.h"
#include "comm/mpi.h"
#include "comm/nccl_api.h"
#include "measure/cuda_parts.h"
#include "measure/cuda_run.h"
#include "measure/gpu_place.h"

namespace fourfold::measure {
namespace {

/// Errors of one rank begin with its name, so that a job which it ends says whose they are.
template <class What>
auto named(const comm::World& world, const std::string& host, const What& what) {
  try {
    return what();
  } catch (const UserError& error) {
    throw UserError(error.code(),
                    format("rank {} on {}: {}", world.rank().index(), host, error.what()));
  }
}

std::optional<int> numa_node_of(const std::string& bus_id) {
  const auto line = first_line(format("/sys/bus/pci/devices/{}.0/numa_node", bus_id));
  if (!line) return std::nullopt;
  int node = -1;
  std::from_chars(line->data(), line->data() + line->size(), node);
  if (node < 0) return std::nullopt;  // -1: the system has no nodes
  return node;
}

RankGpu look_at_gpu(const machine::CudaFacts& cuda, const GpuPlace& place) {
  const machine::CudaDevice& device = cuda.devices.at(static_cast<std::size_t>(place.index));
  return {place.index, static_cast<int>(cuda.devices.size()), device.bus_id,
          device.name, numa_node_of(device.bus_id),           {},
          device.uuid};
}

/// How this rank's GPU lies to those of the ranks of its host; all call together.
std::vector<machine::GpuLink> look_at_links(comm::World& world, const RankFacts& own) {
  std::vector<std::string> others;
  for (const std::string& text : world.all_gather(own.host + " " + own.gpu->bus_id))
    if (text.starts_with(own.host + " ")) others.push_back(text.substr(own.host.size() + 1));
  std::vector<machine::GpuLink> links = cuda_links(own.gpu->bus_id, others);
  for (std::size_t i = 0; i < others.size(); ++i)
    if (others[i] == own.gpu->bus_id) links[i] = {};
  return links;
}

std::string words_of(const GpuPlace& place) {
  switch (place.between) {
    case Between::nccl:
      return place.what_nccl_lacks.empty() ? "NCCL" : format("NCCL ({})", place.what_nccl_lacks);
    case Between::mpi:
      return format("messages by MPI from the device, collectives by way of the host ({})",
                    place.why_not_nccl);
    case Between::host:
      return format("by way of the host ({})", place.why_not_nccl);
  }
  fail_internal("tensors pass in a known way");
}

/// Makes a group of all ranks, and reads which ways it takes.
comm::NcclWays look_at_nccl(comm::World& world, const GpuPlace& place,
                            const std::string& nccl_log) {
  const auto device = open_device_of_rank(place.index, world, Between::nccl);
  comm::GroupSpec all{"doctor", {}, 0, 0};
  for (std::size_t rank = 0; rank < world.size(); ++rank) all.members.emplace_back(rank);
  device->carries().create_groups({&all, 1});
  if (!file_exists(nccl_log)) return {};
  comm::NcclWays ways = comm::nccl_ways(read_file(nccl_log));
  std::remove(nccl_log.c_str());
  return ways;
}

/// All ranks call together: what depends on GPUs.
void look_at_gpus(comm::World& world, const std::string& nccl_log, RankFacts& own) {
  const machine::CudaFacts cuda = cuda_facts();
  if (cuda.state != machine::CudaState::ready) own.why_no_gpu = machine::trouble(cuda);
  const std::vector<std::string> troubles = world.all_gather(own.why_no_gpu);
  if (std::ranges::any_of(troubles, [](const std::string& text) { return !text.empty(); })) return;
  const GpuPlace place = named(world, own.host, [&] { return place_gpu(world); });
  own.gpu = look_at_gpu(cuda, place);
  own.gpu->links = look_at_links(world, own);
  own.between = words_of(place);
  if (place.between != Between::nccl || world.size() == 1) return;
  named(world, own.host, [&] {
    own.nccl = nccl_version(comm::load_nccl());
    own.ways = look_at_nccl(world, place, nccl_log);
  });
}

}  // namespace

std::vector<RankFacts> look_at_ranks(comm::World& world, const std::string& nccl_log) {
  const comm::Placement placement = comm::own_placement();
  RankFacts own{placement.host,
                {},
                comm::mpi_library(),
                comm::mpi_takes_device_memory(),
                comm::advise_threads(world).warning};
  for (std::size_t core = 0; core < placement.cores.size(); ++core)
    if (placement.cores[core]) own.cores.push_back(static_cast<int>(core));
  look_at_gpus(world, nccl_log, own);
  std::vector<RankFacts> all;
  for (const std::string& text : world.all_gather(to_text(own)))
    all.push_back(rank_facts_of_text(text));
  return all;
}

std::string to_text(const RankFacts& facts) {
  Json json = Json::object()
                  .set("host", facts.host)
                  .set("cores", Json::array_of(facts.cores))
                  .set("mpi", facts.mpi)
                  .set("mpi_takes_device_memory", facts.mpi_takes_device_memory)
                  .set("advice", facts.advice)
                  .set("why_no_gpu", facts.why_no_gpu)
                  .set("between", facts.between)
                  .set("nccl", facts.nccl)
                  .set("network", facts.ways.network)
                  .set("ways", Json::array_of(facts.ways.ways));
  if (facts.gpu) {
    Json links = Json::array();
    for (const machine::GpuLink& link : facts.gpu->links)
      links.push(
          Json::object().set("way", static_cast<int>(link.way)).set("reaches", link.reaches));
    json.set("gpu",
             Json::object()
                 .set("index", facts.gpu->index)
                 .set("visible", facts.gpu->visible)
                 .set("bus_id", facts.gpu->bus_id)
                 .set("uuid", facts.gpu->uuid)
                 .set("name", facts.gpu->name)
                 .set("numa_node", facts.gpu->numa_node ? Json(*facts.gpu->numa_node) : Json())
                 .set("links", std::move(links)));
  }
  return json.dump();
}

RankFacts rank_facts_of_text(const std::string& text) {
  const Json json = parse_json(text, "what a rank says of itself", ExitCode::internal);
  const auto word = [&](const char* key) { return json.find(key)->as_string(); };
  RankFacts facts{word("host"),
                  {},
                  word("mpi"),
                  json.find("mpi_takes_device_memory")->as_bool(),
                  word("advice")};
  for (const Json& core : json.find("cores")->items())
    facts.cores.push_back(static_cast<int>(core.as_integer()));
  facts.why_no_gpu = word("why_no_gpu");
  facts.between = word("between");
  facts.nccl = word("nccl");
  facts.ways.network = word("network");
  for (const Json& way : json.find("ways")->items()) facts.ways.ways.insert(way.as_string());
  const Json* const gpu = json.find("gpu");
  if (gpu == nullptr) return facts;
  const Json& node = *gpu->find("numa_node");
  facts.gpu =
      RankGpu{static_cast<int>(gpu->find("index")->as_integer()),
              static_cast<int>(gpu->find("visible")->as_integer()),
              gpu->find("bus_id")->as_string(), gpu->find("name")->as_string(),
              node.kind() == Json::Kind::null ? std::nullopt
                                              : std::optional(static_cast<int>(node.as_integer()))};
  facts.gpu->uuid = gpu->find("uuid")->as_string();
  for (const Json& link : gpu->find("links")->items())
    facts.gpu->links.push_back({static_cast<machine::GpuWay>(link.find("way")->as_integer()),
                                link.find("reaches")->as_bool()});
  return facts;
}

}  // namespace fourfold::measure
