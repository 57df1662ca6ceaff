#include "search/price.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.h"

namespace fourfold::search {
namespace {

using compile::Purpose;
using machine::AxisGroup;

/// Axes that follow one another in rank order are one group.
std::vector<AxisGroup> joined(std::vector<AxisGroup> groups) {
  std::ranges::sort(groups, {}, &AxisGroup::stride);
  std::vector<AxisGroup> result;
  for (const AxisGroup& group : groups) {
    if (group.ranks == 1) continue;
    if (!result.empty() && result.back().stride * result.back().ranks == group.stride)
      result.back().ranks *= group.ranks;
    else
      result.push_back(group);
  }
  return result;
}

/// Traffic that may run beside computation.
struct Hideable {
  Purpose purpose;
  double seconds;
};

/// Hides as large a share of each as `seconds` are of all.
void hide(const std::vector<Hideable>& list, double seconds, Price& price) {
  double all = 0;
  for (const Hideable& one : list) all += one.seconds;
  if (all == 0) return;
  const double share = std::min(1.0, seconds / all);
  for (const Hideable& one : list) {
    double& hidden = one.purpose == Purpose::weights     ? price.hidden_weights
                     : one.purpose == Purpose::gradients ? price.hidden_gradients
                                                         : price.hidden_activations;
    hidden += share * one.seconds;
  }
}

double& of_purpose(Price& price, Purpose purpose) {
  if (purpose == Purpose::weights) return price.weights;
  return purpose == Purpose::gradients ? price.gradients : price.activations;
}

}  // namespace

std::vector<AxisGroup> groups_in_order(const Mesh& mesh, const std::vector<std::string>& order) {
  std::vector<AxisGroup> groups(mesh.axes.size());
  std::int64_t stride = 1;
  for (const std::string& name : order) {
    const auto axis = std::ranges::find(mesh.axes, name, &Axis::name);
    require(axis != mesh.axes.end(), "an order names the axes of its mesh");
    groups[static_cast<std::size_t>(axis - mesh.axes.begin())] = {axis->size, stride};
    stride *= axis->size;
  }
  return groups;
}

Pricer::Link Pricer::link_of(AxisGroup group) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = links_.try_emplace({group.ranks, group.stride});
  if (!is_new) return place->second;
  const std::int64_t last = (group.ranks - 1) * group.stride / cluster_.ranks_per_device;
  const auto level = cluster_.meeting_level(0, last);
  place->second = {machine::axis_bytes_per_s(cluster_, group),
                   level ? cluster_.levels[*level].latency_s : 0};
  return place->second;
}

double Pricer::seconds(Collective kind, const std::vector<AxisGroup>& groups, const Sent& sent) {
  const std::vector<AxisGroup> apart = joined(groups);
  if (apart.empty()) return 0;
  const double wider = cluster_.widened(sent.element_bytes);
  if (apart.size() == 1)
    if (const auto* measured = cluster_.measured_alike(kind, apart[0].ranks, apart[0].stride))
      return sent.calls > 0
                 ? sent.calls * measured->seconds(wider * sent.payload_bytes / sent.calls)
                 : wider * sent.payload_bytes / measured->bytes_per_s;
  double rate = std::numeric_limits<double>::infinity(), latency = 0, ranks = 1;
  for (const AxisGroup& group : apart) {
    const Link link = link_of(group);
    rate = std::min(rate, link.bytes_per_s);
    latency = std::max(latency, link.latency_s);
    ranks *= static_cast<double>(group.ranks);
  }
  return sent.calls * facts_of(kind).steps(ranks) * latency + wider * sent.sent_bytes / rate;
}

Price Pricer::price(const Demand& demand, const std::vector<AxisGroup>& groups) {
  const machine::Device& device = cluster_.device;
  const auto sharing = static_cast<double>(cluster_.ranks_per_device);
  Price price;
  for (const auto& [flops, count] : demand.products)
    if (flops > 0)
      price.products += sharing * count * flops / machine::product_flops_per_s(rate_, flops);
  const auto others_of = [&](double bytes) {
    return sharing * bytes / (device.memory_bytes_per_s * device.memory_share);
  };
  price.others = others_of(demand.other_bytes) + demand.instructions * device.instruction_s;
  std::map<std::tuple<Purpose, Collective, std::vector<AxisId>>, TrafficPrice> traffic;
  std::vector<Hideable> in_micros, at_end;
  double at_end_exposed = 0;
  for (const auto& [key, sent] : demand.sent) {
    std::vector<AxisGroup> along;
    for (const AxisId axis : key.axes) along.push_back(groups[axis.index()]);
    Sent priced = sent;
    // Gradients that are sent once in a step share messages.
    if (key.is_at_end && key.purpose == Purpose::gradients && bucket_bytes_ > 0)
      priced.calls =
          std::min(sent.calls, std::ceil(sent.payload_bytes / static_cast<double>(bucket_bytes_)));
    const double seconds = this->seconds(key.kind, along, priced);
    of_purpose(price, key.purpose) += seconds;
    if (key.is_hideable) (key.is_at_end ? at_end : in_micros).push_back({key.purpose, seconds});
    if (key.is_at_end && !key.is_hideable) at_end_exposed += seconds;
    TrafficPrice& entry = traffic[{key.purpose, key.kind, key.axes}];
    entry.purpose = key.purpose;
    entry.kind = key.kind;
    entry.axes = key.axes;
    entry.sent_bytes += sent.sent_bytes;
    entry.seconds += seconds;
  }
  double sums_at_end = 0;
  for (const Hideable& one : at_end) sums_at_end += one.seconds;
  sums_at_end += at_end_exposed;
  // Sums at the end run beside the last backward pass alone, two thirds of a micro-batch's work.
  constexpr double backward_share = 2.0 / 3;
  hide(in_micros, price.compute(), price);
  const double last = backward_share * price.compute() / demand.micros;
  const double hidden_in_micros = price.hidden();
  hide(at_end, std::min(last, price.compute() - hidden_in_micros), price);
  price.at_end = sums_at_end - (price.hidden() - hidden_in_micros) +
                 others_of(demand.update_bytes) + demand.update_instructions * device.instruction_s;
  price.slower_by = price.hidden() * (device.slowdown_beside_communication - 1);
  for (auto& [key, entry] : traffic) price.traffic.push_back(std::move(entry));
  std::ranges::stable_sort(price.traffic, std::ranges::greater(), &TrafficPrice::seconds);
  return price;
}

}  // namespace fourfold::search
