// The section `optimizer`: which one, its own settings, and what all of them have. Which optimizers
// there are, and what a setting is where a file states none, their rows say (op/optimizers.h).
#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "config/number.h"
#include "config/rules_words.h"
#include "config/schema_fields.h"

namespace fourfold::config {
namespace {

using graph::OptimizerSpec;

/// A setting of the optimizers whose rows have a member of this name: where a row keeps it, null in
/// others.
#define FOURFOLD_SETTING(name)            \
  [](auto& row) {                         \
    if constexpr (requires { row.name; }) \
      return &row.name;                   \
    else                                  \
      return nullptr;                     \
  }

/// visit(number, row) for each optimizer of a spec.
template <class Spec, class Visit>
void for_each_row(Spec&& spec, Visit&& visit) {
  std::size_t kind = 0;
  std::apply([&](auto&... row) { (visit(kind++, row), ...); }, spec.settings);
}

/// The setting of the optimizer that `spec` is, or of the first that has it.
template <class T, class Spec, class Setting>
auto& setting_of(Spec& spec, Setting setting) {
  std::conditional_t<std::is_const_v<Spec>, const T, T>* place = nullptr;
  for_each_row(spec, [&](std::size_t kind, auto& row) {
    if constexpr (!std::is_same_v<decltype(setting(row)), std::nullptr_t>)
      if (place == nullptr || kind == spec.kind) place = setting(row);
  });
  return *place;
}

template <class T, class Setting>
Place<T> at_setting(Setting setting) {
  return [setting](Config& config) -> T& { return setting_of<T>(config.optimizer, setting); };
}

/// The default of a setting for the optimizer of this number; if it has none, that of the first one
/// with the setting.
template <class T, class Setting>
T usual(std::size_t kind, Setting setting) {
  OptimizerSpec spec;
  spec.kind = kind;
  return setting_of<T>(spec, setting);
}

std::string words_of(double value) {
  return format_number(value);
}
std::string words_of(bool value) {
  return value ? "true" : "false";
}

/// The default of each optimizer in words, where it is not as the first one's: "0.1, with sgd 0".
template <class Words>
std::string usual_words(Words words_for) {
  std::string text, first;
  for_each_row(OptimizerSpec(), [&](std::size_t kind, const auto& row) {
    const std::string words = words_for(kind, row);
    if (text.empty()) text = first = words;
    if (words != first) text += format(", with {} {}", row.name, words);
  });
  return text;
}

/// A key whose default each optimizer's row has in `number_of`, a member of UpdateRule.
template <class NumberOf>
Key with_usual(Key key, NumberOf number_of) {
  key.derived_words = usual_words(
      [&](std::size_t, const auto& row) { return format_number(number_of(row.update)); });
  key.derive = [number_of, place = std::get<Place<double>>(key.field)](Config& config) {
    graph::visit_optimizer(config.optimizer,
                           [&](const auto& row) { place(config) = number_of(row.update); });
  };
  return key;
}

/// A key for settings of some optimizers, whose default is that of the optimizer's row. Several
/// settings make a list.
template <class T, class... Settings>
Key with_setting(Key key, Settings... settings) {
  const std::string words = usual_words([=](std::size_t kind, const auto&) {
    const std::string list =
        join(std::vector<std::string>{words_of(usual<T>(kind, settings))...}, ", ");
    return sizeof...(settings) > 1 ? format("[{}]", list) : list;
  });
  if constexpr (sizeof...(settings) > 1)
    key.field = Pair{at_setting<T>(settings)...};
  else
    key.field = Field(at_setting<T>(settings)...);
  if (words.find(", with ") == words.npos) {
    key.fallback = words;
    return key;
  }
  key.derived_words = words;
  key.derive = [=](Config& config) {
    const std::size_t kind = config.optimizer.kind;
    ((setting_of<T>(config.optimizer, settings) = usual<T>(kind, settings)), ...);
  };
  return key;
}

Key name_key() {
  std::vector<std::string> names, meanings, averages;
  std::vector<std::size_t> kinds;
  for_each_row(OptimizerSpec(), [&](std::size_t kind, const auto& row) {
    kinds.push_back(kind);
    names.emplace_back(row.name);
    meanings.push_back(format("{}: {}", row.name, row.update.does));
    averages.push_back(format("{} {}", row.name, row.update.num_moments));
  });
  return {.path = "optimizer.name",
          .meaning = join(meanings, "; ") + ".",
          .field = choice<std::size_t>(at(&Config::optimizer, &OptimizerSpec::kind), names, kinds),
          .fallback = names[0],
          .cost = format("Averages kept of each weight: {}.", join(averages, ", ")),
          .example = names[1],
          .elsewhere = {"optim", "optimizer_type"}};
}

/// A setting of some optimizers says nothing to the others. A file that states every default has
/// the default for it.
template <class T, class... Settings>
Rule rule_of_setting(const std::string& key, Settings... settings) {
  return {{key, "optimizer.name"}, [=](const Config& config) -> Verdict {
            static const OptimizerSpec plain;
            const auto& spec = config.optimizer;
            std::vector<std::string> owners;
            std::string named;
            bool has_it = false;
            for_each_row(spec, [&](std::size_t kind, const auto& row) {
              constexpr bool is_owner =
                  (!std::is_same_v<decltype(settings(row)), std::nullptr_t> && ...);
              if (is_owner) owners.emplace_back(row.name);
              if (kind == spec.kind) named = row.name, has_it = is_owner;
            });
            const bool is_plain =
                ((setting_of<T>(spec, settings) == setting_of<T>(plain, settings)) && ...);
            if (has_it || is_plain) return std::nullopt;
            return Finding{
                format("{} is a setting of {}, but optimizer.name = {}", key, join(owners, " and "),
                       named),
                format("leave {} out, or set optimizer.name = {}", key, join(owners, " or "))};
          }};
}

}  // namespace

std::vector<Key> optimizer_keys() {
  return {
      name_key(),
      with_usual({.path = "optimizer.lr",
                  .meaning = "The largest learning rate; lr_schedule says how it is reached and "
                             "left.",
                  .field = at_schedule(&schedule::LearningRateSpec::lr),
                  .fallback = "",
                  .bounds = above(0),
                  .example = "6e-4",
                  .elsewhere = {"learning_rate", "max_lr", "learningrate"}},
                 [](const auto& rule) { return rule.usual_lr; }),
      with_setting<double>(
          {.path = "optimizer.betas",
           .meaning = "Decay rates of averages: of the gradient and of its square (adamw); of the "
                      "average that gives the direction of a step, and of the one that is kept "
                      "(lion).",
           .field = {},
           .fallback = "",
           .bounds = from_zero_below_one(),
           .example = "[0.9, 0.99]",
           .elsewhere = {"beta1", "beta2", "adam_beta1", "adam_beta2"}},
          FOURFOLD_SETTING(beta1), FOURFOLD_SETTING(beta2)),
      with_setting<double>({.path = "optimizer.eps",
                            .meaning = "AdamW adds it to the root of the averaged square.",
                            .field = {},
                            .fallback = "",
                            .bounds = above(0),
                            .elsewhere = {"epsilon", "adam_eps", "adam_epsilon"}},
                           FOURFOLD_SETTING(epsilon)),
      with_setting<double>({.path = "optimizer.momentum",
                            .meaning = "SGD's decay rate of the sum of gradients.",
                            .field = {},
                            .fallback = "",
                            .bounds = from_zero_below_one(),
                            .example = "0.95",
                            .elsewhere = {"sgd_momentum"}},
                           FOURFOLD_SETTING(mu)),
      with_setting<bool>({.path = "optimizer.nesterov",
                          .meaning = "SGD looks ahead by one step of its momentum (Nesterov).",
                          .field = {},
                          .fallback = "",
                          .example = "true"},
                         FOURFOLD_SETTING(nesterov)),
      with_usual({.path = "optimizer.weight_decay",
                  .meaning = "Decay of matrices and embeddings, in units of the learning rate; not "
                             "of biases and gains. SGD adds it to the gradient, the others take it "
                             "off the weight.",
                  .field = at(&Config::optimizer, &OptimizerSpec::weight_decay),
                  .fallback = "",
                  .bounds = at_least(0),
                  .example = "0.01",
                  .elsewhere = {"wd", "decay"}},
                 [](const auto& rule) { return rule.usual_weight_decay; }),
      {.path = "optimizer.grad_clip",
       .meaning = "Largest global gradient norm; 0 does not clip.",
       .field = at(&Config::optimizer, &OptimizerSpec::grad_clip),
       .fallback = "1.0",
       .bounds = at_least(0),
       .example = "0",
       .elsewhere = {"clip_grad", "max_grad_norm", "gradient_clip_val", "max_norm",
                     "gradient_clipping"}},
      {.path = "optimizer.shard",
       .meaning = "states: ranks of the axis data share the optimizer's averages instead of "
                  "repeating them (ZeRO-1).",
       .field = choice<bool>(at(&Config::plan, &plan::PlanSpec::shard_states), {"none", "states"},
                             {false, true}),
       .fallback = "none",
       .cost = "states: the averages of a rank, each as large as its weights, are divided by "
               "parallel.data; about the same bytes are sent.",
       .example = "states",
       .elsewhere = {"use_distributed_optimizer", "zero_stage", "zero_optimization",
                     "optimizer_sharding"}},
  };
}

std::vector<Rule> optimizer_rules() {
  return {
      rule_of_setting<double>("optimizer.betas", FOURFOLD_SETTING(beta1), FOURFOLD_SETTING(beta2)),
      rule_of_setting<double>("optimizer.eps", FOURFOLD_SETTING(epsilon)),
      rule_of_setting<double>("optimizer.momentum", FOURFOLD_SETTING(mu)),
      rule_of_setting<bool>("optimizer.nesterov", FOURFOLD_SETTING(nesterov)),
  };
}

}  // namespace fourfold::config
