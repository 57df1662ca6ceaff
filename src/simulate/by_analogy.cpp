#include "simulate/by_analogy.h"

#include <algorithm>
#include <functional>
#include <map>
#include <variant>

#include "base/format.h"
#include "base/units.h"
#include "machine/priced_by.h"

namespace fourfold::simulate {

std::vector<ByAnalogy> priced_by_analogy(const program::Job& job, const Simulation& simulation,
                                         const machine::Cluster& cluster) {
  std::map<std::string, double> seconds;
  for (const SimulatedRank& rank : simulation.ranks) {
    const program::Program& program = job.classes.at(rank.of_class).at(simulation.program);
    const double share =
        static_cast<double>(rank.stands_for) / static_cast<double>(simulation.num_ranks);
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const auto* compute = std::get_if<program::Compute>(&program.instructions[i].what);
      if (compute == nullptr || machine::priced_by(cluster.device, compute->op, compute->dtype) !=
                                    machine::PricedBy::analogy)
        continue;
      seconds[std::string(op::name(compute->op))] +=
          share * (rank.times[i].end_s - rank.times[i].begin_s);
    }
  }
  std::vector<ByAnalogy> all;
  for (const auto& [op, time] : seconds) all.push_back({op, time});
  std::ranges::stable_sort(all, std::greater<>(), &ByAnalogy::seconds);
  return all;
}

std::string analogy_mark(const std::vector<ByAnalogy>& all) {
  return all.empty() ? "" : "~";
}

std::string analogy_text(const std::vector<ByAnalogy>& all) {
  double seconds = 0;
  std::string words;
  for (const ByAnalogy& one : all) {
    seconds += one.seconds;
    words += format("{}{} {}", words.empty() ? "" : ", ", one.op, format_duration(one.seconds));
  }
  return format(
      "{} of what a rank computes, priced as products of as many flops, because nobody measured it "
      "there: {}",
      format_duration(seconds), words);
}

Json analogy_json(const std::vector<ByAnalogy>& all) {
  Json list = Json::array();
  for (const ByAnalogy& one : all)
    list.push(Json::object({{"op", one.op}, {"seconds", one.seconds}}));
  return list;
}

}  // namespace fourfold::simulate
