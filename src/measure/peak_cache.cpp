#include "measure/peak_cache.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/host_facts.h"
#include "base/json.h"
#include "base/small_file.h"
#include "measure/build_info.h"

namespace fourfold::measure {
namespace {

/// No core computes so fast: tiles of 16 x 16 products of 32 bf16 numbers, one in 16 cycles of 5
/// GHz, are 5 TFLOP/s (AMX). What a file says beyond it was damaged, or is of another time.
constexpr double most_of_a_core = 1e13;

std::string machine_in_words(DType dtype, int threads) {
  const HostFacts host = host_facts();
  std::string text = format("{}, {} cores, {} products on {} threads", host.cpu_model,
                            host.cores_online, to_string(dtype), threads);
  if (host.cpu_limit) text += format(", limited to {} cores", *host.cpu_limit);
  for (const auto& [name, version] : product_libraries()) text += format(", {} {}", name, version);
  return text;
}

}  // namespace

std::string cache_folder(const comm::Variable& variable) {
  if (!variable) return {};
  if (const auto cache = variable("XDG_CACHE_HOME"); cache && cache->starts_with('/'))
    return join_path(*cache, "fourfold");
  if (const auto home = variable("HOME"); home && home->starts_with('/'))
    return join_path(*home, ".cache/fourfold");
  return {};
}

PeakCache::PeakCache(const std::string& folder, DType dtype, int threads)
    : machine_(machine_in_words(dtype, threads)), most_flops_per_s_(most_of_a_core * threads) {
  if (!folder.empty())
    path_ = join_path(folder, format("peak-{}.json", hash128_text(machine_).substr(0, 16)));
}

KnownPeak PeakCache::read() const {
  if (path_.empty() || !file_exists(path_)) return {};
  try {
    const Json json = parse_json(read_own_file(path_), path_);
    const auto member = [&](const char* key, Json::Kind kind) {
      const Json* value = json.find(key);
      return value != nullptr && value->kind() == kind ? value : nullptr;
    };
    const Json *machine = member("machine", Json::Kind::string),
               *rate = member("flops_per_s", Json::Kind::number),
               *measurements = member("measurements", Json::Kind::integer);
    if (machine == nullptr || rate == nullptr || measurements == nullptr ||
        machine->as_string() != machine_)
      return {};
    const KnownPeak peak{rate->as_double(), measurements->as_integer()};
    const bool is_possible =
        peak.flops_per_s > 0 && peak.flops_per_s <= most_flops_per_s_ && peak.measurements >= 0;
    return is_possible ? peak : KnownPeak{};
  } catch (const UserError&) {
    return {};  // it is measured and written anew
  }
}

KnownPeak PeakCache::add(double flops_per_s) const {
  KnownPeak peak = read();
  peak.flops_per_s = std::max(peak.flops_per_s, flops_per_s);
  ++peak.measurements;
  write(peak);
  return peak;
}

void PeakCache::doubt() const {
  KnownPeak peak = read();
  peak.measurements = 0;
  if (peak.flops_per_s > 0) write(peak);
}

void PeakCache::write(const KnownPeak& peak) const {
  if (path_.empty()) return;
  try {
    make_directories(path_.substr(0, path_.rfind('/')));
    write_file_atomic(path_, Json::object()
                                     .set("machine", machine_)
                                     .set("flops_per_s", peak.flops_per_s)
                                     .set("measurements", peak.measurements)
                                     .dump() +
                                 "\n");
  } catch (const UserError&) {
    // A cache that cannot be written is none.
  }
}

}  // namespace fourfold::measure
