#include <algorithm>

#include "base/format.h"
#include "base/units.h"
#include "simulate/prediction.h"

namespace fourfold::simulate {
namespace {

/// With as many decimals as a step of that length needs.
std::string milliseconds(double seconds, double step_s) {
  return format("{:.{}f}", 1e3 * seconds, step_s < 10e-3 ? 3 : step_s < 1 ? 2 : 1);
}

std::string share(double seconds, double step_s) {
  return format("{:.1f} %", step_s > 0 ? 100 * seconds / step_s : 0);
}

std::string what_text(const Cost& cost) {
  return cost.is_exposed ? "exposed " + cost.what : cost.what;
}

}  // namespace

std::string to_text(const Prediction& prediction) {
  const double step_s = prediction.step_s;
  std::size_t width = 7;
  for (const Cost& cost : prediction.costs) width = std::max(width, what_text(cost).size());
  for (const trace::Traffic& traffic : prediction.traffic)
    width = std::max(width, traffic.name.size());
  width = std::min<std::size_t>(width, 44);
  std::string text = format("{:<{}}  {:>10}  {:>8}\n", "cost", width, "ms", "of step");
  for (const Cost& cost : prediction.costs)
    text += format("{:<{}}  {:>10}  {:>8}\n", what_text(cost), width,
                   milliseconds(cost.seconds, step_s), share(cost.seconds, step_s));
  if (prediction.traffic.empty()) return text;
  text += format("\n{:<{}}  {:>10}  {:>8}  {:>9}  {:>10}  {:>10}\n", "traffic", width, "ms",
                 "calls", "bytes", "hidden", "exposed");
  for (const trace::Traffic& traffic : prediction.traffic)
    text +=
        format("{:<{}}  {:>10}  {:>8}  {:>9}  {:>10}  {:>10}\n", traffic.name, width,
               milliseconds(traffic.amount.seconds, step_s), format("{:.6g}", traffic.amount.calls),
               format_bytes(static_cast<std::int64_t>(traffic.amount.bytes)),
               milliseconds(traffic.hidden_s, step_s), milliseconds(traffic.exposed_s, step_s));
  return text;
}

Json to_json(const Prediction& prediction) {
  Json costs = Json::array();
  for (const Cost& cost : prediction.costs)
    costs.push(Json::object(
        {{"what", cost.what}, {"exposed", cost.is_exposed}, {"seconds", cost.seconds}}));
  Json traffic = Json::array();
  for (const trace::Traffic& one : prediction.traffic)
    traffic.push(Json::object({{"name", one.name},
                               {"seconds", one.amount.seconds},
                               {"calls", one.amount.calls},
                               {"bytes", one.amount.bytes},
                               {"hidden_s", one.hidden_s},
                               {"exposed_s", one.exposed_s}}));
  return Json::object({{"step_s", prediction.step_s},
                       {"compute_s", prediction.compute_s},
                       {"exposed_communication_s", prediction.exposed_s},
                       {"costs", std::move(costs)},
                       {"traffic", std::move(traffic)},
                       {"flops", prediction.flops},
                       {"peak_bytes", prediction.peak_bytes}});
}

}  // namespace fourfold::simulate
