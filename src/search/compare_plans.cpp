#include "search/compare_plans.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/text.h"
#include "search/explain.h"
#include "search/layout_costs.h"

namespace fourfold::search {
namespace {

/// The same name for all layers: a number between dots is '*'.
std::string without_layer(const std::string& name) {
  std::vector<std::string> words = split(name, '.');
  for (std::string& word : words)
    if (!word.empty() && std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c); }))
      word = "*";
  return join(words, ".");
}

/// One side of the comparison.
class Side {
 public:
  Side(const Question& question, const PricedPlan& priced, Pricer& pricer)
      : model_(question.build(question.layers, priced.spec)),
        plan_(std::get<plan::Plan>(plan::make_plan(model_, priced.spec))),
        pricer_(pricer) {
    setting_.mesh = &plan_.meshes[0];
    setting_.groups = groups_in_order(*setting_.mesh, priced.spec.grid.order);
    setting_.batching = plan_.batching;
    setting_.compute = plan_.compute;
    setting_.bucket_bytes = priced.spec.bucket_bytes;
    setting_.checkpointing = priced.spec.checkpointing;
    setting_.cached_gathers = priced.spec.cached_gathers;
  }

  struct Ops {
    std::int64_t number = 0;
    std::string first;
    std::string all;  // of every layer, to tell whether two sides are equal
    double seconds = 0;
  };
  std::map<std::string, Ops> ops() const {
    const LayoutCosts costs(train(), setting_, pricer_);
    const std::vector<std::string> names = plan::names_of_ops(train());
    std::map<std::string, Ops> result;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (plan::sees_state(train(), train().nodes[i])) continue;
      Ops& ops = result[without_layer(names[i])];
      const std::string text = text_of(i);
      if (ops.number++ == 0) ops.first = text;
      ops.all += text + "\n";
      ops.seconds += costs.of_op(i, shardings().nodes[i]);
    }
    return result;
  }

  struct Traffic {
    double calls = 0, seconds = 0;
  };
  std::map<std::string, Traffic> sent() const {
    std::map<std::string, Traffic> result;
    for (const auto& [key, sent] : demand_of(train(), plan_).sent) {
      std::vector<std::string> axes;
      std::vector<machine::AxisGroup> groups;
      for (const AxisId axis : key.axes) {
        axes.push_back(setting_.mesh->axes[axis.index()].name);
        groups.push_back(setting_.groups[axis.index()]);
      }
      Traffic& traffic =
          result[format("{} along {}{}{}, for {}", to_string(key.kind), join(axes, "-"),
                        key.label.empty() ? "" : " of ", key.label, purpose_word(key.purpose))];
      traffic.calls += sent.calls;
      traffic.seconds += pricer_.seconds(key.kind, groups, sent);
    }
    return result;
  }

 private:
  const graph::Graph& train() const { return model_.at(op::ProgramKind::train); }
  const plan::GraphShardings& shardings() const { return plan_.of(op::ProgramKind::train); }

  /// How an op sees its operands, and what it gives.
  std::string text_of(std::size_t node) const {
    const graph::Node& op = train().nodes[node];
    const plan::NodeShardings& its = shardings().nodes[node];
    const auto list = [&](const std::vector<graph::ValueId>& ids,
                          const std::vector<op::Sharding>& cuts) {
      std::vector<std::string> words;
      for (std::size_t i = 0; i < ids.size(); ++i)
        words.push_back(op::to_string(train().value(ids[i]).shape, cuts[i], *setting_.mesh));
      return join(words, ", ");
    };
    return list(op.reads, its.reads) + " -> " + list(op.outputs, its.outputs);
  }

  graph::ModelGraphs model_;
  plan::Plan plan_;
  Pricer& pricer_;
  LayoutSetting setting_;
};

template <class Difference>
void sort_by_difference(std::vector<Difference>& list) {
  std::ranges::stable_sort(list, std::greater(), [](const Difference& one) {
    return std::abs(one.seconds_a - one.seconds_b);
  });
}

template <class T>
T of(const std::map<std::string, T>& all, const std::string& name) {
  const auto place = all.find(name);
  return place == all.end() ? T() : place->second;
}

template <class T>
std::set<std::string> names_of(const std::map<std::string, T>& a,
                               const std::map<std::string, T>& b) {
  std::set<std::string> names;
  for (const auto* side : {&a, &b})
    for (const auto& [name, value] : *side) names.insert(name);
  return names;
}

}  // namespace

PlanDifferences compare_plans(const Question& question, const PricedPlan& a, const PricedPlan& b) {
  Pricer pricer(*question.cluster,
                *machine::rate_of(question.cluster->device, question.spec.compute),
                question.spec.bucket_bytes);
  const Side side_a(question, a, pricer), side_b(question, b, pricer);
  PlanDifferences result;
  const auto ops_a = side_a.ops(), ops_b = side_b.ops();
  for (const std::string& name : names_of(ops_a, ops_b)) {
    const Side::Ops of_a = of(ops_a, name), of_b = of(ops_b, name);
    if (of_a.all != of_b.all)
      result.ops.push_back({name, std::max(of_a.number, of_b.number), of_a.first, of_b.first,
                            of_a.seconds, of_b.seconds});
  }
  const auto sent_a = side_a.sent(), sent_b = side_b.sent();
  for (const std::string& name : names_of(sent_a, sent_b)) {
    const Side::Traffic of_a = of(sent_a, name), of_b = of(sent_b, name);
    if (of_a.calls != of_b.calls || of_a.seconds != of_b.seconds)
      result.sent.push_back({name, of_a.calls, of_b.calls, of_a.seconds, of_b.seconds});
  }
  sort_by_difference(result.ops);
  sort_by_difference(result.sent);
  return result;
}

}  // namespace fourfold::search
