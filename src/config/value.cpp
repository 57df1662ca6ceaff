#include "config/value.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "config/number.h"
#include "config/suggest.h"

namespace fourfold::config {
namespace {

/// Stores one node into the place of each kind of field.
class Storer {
 public:
  using Result = std::optional<Rejection>;

  Storer(const Key& key, const YamlNode& node, Config& config)
      : key_(key), node_(node), config_(config) {}

  Result operator()(const Place<bool>& place) const {
    if (!is_plain()) return unexpected(hint_about_quotes());
    if (node_.text != "true" && node_.text != "false") return unexpected(hint_about_truth());
    place(config_) = node_.text == "true";
    return std::nullopt;
  }
  Result operator()(const Place<int>& place) const { return store_integer(place); }
  Result operator()(const Place<std::int64_t>& place) const { return store_integer(place); }
  Result operator()(const Place<std::uint64_t>& place) const { return store_integer(place); }
  Result operator()(const Place<std::optional<std::int64_t>>& place) const {
    if (is_plain() && node_.text == "auto") {
      place(config_).reset();
      return std::nullopt;
    }
    std::int64_t number = 0;
    auto refusal =
        store_integer(Place<std::int64_t>([&](Config&) -> std::int64_t& { return number; }));
    if (!refusal) place(config_) = number;
    return refusal;
  }
  Result operator()(const Place<double>& place) const { return store_number(node_, place); }
  Result operator()(const Place<std::string>& place) const {
    if (node_.kind != YamlNode::Kind::scalar)
      return unexpected("put text that holds ': ', '[' or '{' in quotes");
    place(config_) = node_.text;
    return std::nullopt;
  }
  Result operator()(const Choice& choice) const {
    for (std::size_t i = 0; i < choice.names.size(); ++i) {
      if (node_.kind != YamlNode::Kind::scalar || node_.text != choice.names[i]) continue;
      choice.set(config_, i);
      return std::nullopt;
    }
    return unexpected(hint_about_names(choice.names));
  }
  Result operator()(const Pair& pair) const {
    if (node_.kind != YamlNode::Kind::list || node_.items.size() != 2)
      return unexpected(format("write two numbers in brackets: {}", key_.example));
    if (auto refusal = store_number(node_.items[0], pair.first)) return refusal;
    return store_number(node_.items[1], pair.second);
  }
  Result operator()(const Permutation& permutation) const {
    const std::string form = format("for example [{}]", join(permutation.names, ", "));
    if (node_.kind != YamlNode::Kind::list) return unexpected("write a list: " + form);
    std::vector<std::string> order;
    for (const YamlNode& item : node_.items) {
      const auto& names = permutation.names;
      if (item.kind != YamlNode::Kind::scalar ||
          std::find(names.begin(), names.end(), item.text) == names.end())
        return unexpected(item, "", form);
      if (std::find(order.begin(), order.end(), item.text) != order.end())
        return unexpected(item, "stands in the list already", form);
      order.push_back(item.text);
    }
    for (const std::string& name : permutation.names)
      if (std::find(order.begin(), order.end(), name) == order.end())
        return unexpected(node_, format("lacks '{}'", name), form);
    permutation.place(config_) = std::move(order);
    return std::nullopt;
  }
  Result operator()(const Place<plan::Checkpointing>& place) const {
    const std::vector<std::string> words = split(node_.text, ' ');
    if (node_.text == "none") {
      place(config_) = {};
    } else if (node_.text == "full") {
      place(config_) = {.layers = 1};
    } else if (node_.text == "selective") {
      place(config_) = {.layers = 1, .keeps_products = true};
    } else if (node_.text == "auto") {
      place(config_) = {.is_auto = true};
    } else if (words.size() == 2 && words[0] == "every") {
      const auto layers = read_integer(words[1]);
      if (!std::holds_alternative<std::int64_t>(layers) || std::get<std::int64_t>(layers) < 1)
        return unexpected("N is a number of blocks, at least 1: every 2");
      place(config_) = {.layers = std::get<std::int64_t>(layers)};
    } else {
      if (std::holds_alternative<std::int64_t>(read_integer(node_.text)))
        return unexpected(format("write 'every {}'", node_.text));
      return unexpected(words[0] == "every" ? "say of how many blocks: every 2"
                                            : hint_about_names(std::vector<std::string>{
                                                  "none", "selective", "full", "auto"}));
    }
    return std::nullopt;
  }
  Result operator()(const Integers& integers) const {
    const std::string form = format("write a list: {}", key_.example);
    if (node_.kind != YamlNode::Kind::list) return unexpected(form);
    std::vector<std::int64_t> list;
    for (const YamlNode& item : node_.items) {
      const bool is_scalar = item.kind == YamlNode::Kind::scalar && !item.quoted;
      if (is_scalar && !integers.zero.empty() && item.text == integers.zero) {
        list.push_back(0);
        continue;
      }
      const auto read = read_integer(is_scalar ? item.text : std::string());
      if (const auto* refusal = std::get_if<Refusal>(&read))
        return unexpected(item, is_scalar ? refusal->reason : "", form);
      list.push_back(std::get<std::int64_t>(read));
      if (!key_.bounds.contains(static_cast<double>(list.back()))) return unexpected(item, "", "");
    }
    if (list.size() > integers.most_items)
      return unexpected(node_, format("has {} items, at most {}", list.size(), integers.most_items),
                        form);
    integers.place(config_) = std::move(list);
    return std::nullopt;
  }
  Result operator()(const Place<std::vector<double>>& place) const {
    if (node_.kind != YamlNode::Kind::list || node_.items.empty())
      return unexpected(format("write a list: {}", key_.example));
    std::vector<double> list(node_.items.size());
    for (std::size_t i = 0; i < list.size(); ++i)
      if (auto refusal = store_number(node_.items[i],
                                      Place<double>([&](Config&) -> double& { return list[i]; })))
        return refusal;
    place(config_) = std::move(list);
    return std::nullopt;
  }
  Result operator()(const Place<data::BadPictures>& place) const {
    constexpr std::string_view skips = "skip:";
    const std::string& text = node_.text;
    if (node_.kind == YamlNode::Kind::scalar && text == "stop") {
      place(config_) = {};
      return std::nullopt;
    }
    const bool is_skip = node_.kind == YamlNode::Kind::scalar && text.starts_with(skips);
    const auto most = read_integer(is_skip ? text.substr(skips.size()) : std::string());
    if (!std::holds_alternative<std::int64_t>(most) || std::get<std::int64_t>(most) < 0)
      return unexpected("N is the most pictures to leave out: skip:10");
    place(config_) = {.skip = std::get<std::int64_t>(most)};
    return std::nullopt;
  }
  Result operator()(const Amount& amount) const {
    const std::string& text = node_.text;
    if (!is_plain()) return unexpected(hint_about_quotes());
    if (!amount.open.empty() && text == amount.open) {
      amount.set(config_, std::nullopt);
      return std::nullopt;
    }
    if (!amount.zero.empty() && text == amount.zero) {
      amount.set(config_, 0);
      return std::nullopt;
    }
    if (amount.is_size) {
      const auto bytes = parse_bytes(text);
      if (!bytes || !key_.bounds.contains(static_cast<double>(*bytes)))
        return unexpected(format("write a whole number with its unit: {}", key_.example));
      amount.set(config_, *bytes);
      return std::nullopt;
    }
    std::int64_t number = 0;
    auto refusal =
        store_integer(Place<std::int64_t>([&](Config&) -> std::int64_t& { return number; }));
    if (!refusal) amount.set(config_, number);
    return refusal;
  }
  Result operator()(const Place<Blend>& place) const {
    if (node_.kind != YamlNode::Kind::list) return unexpected(blend_form);
    Blend blend;
    for (const YamlNode& item : node_.items) {
      data::BlendPart part;
      if (auto refusal = store_part(item, part)) return refusal;
      blend.push_back(std::move(part));
    }
    place(config_) = std::move(blend);
    return std::nullopt;
  }
  Result operator()(const Place<Pins>& place) const {
    const std::string form = format("for example {}", key_.example);
    if (node_.kind != YamlNode::Kind::map) return unexpected(form);
    Pins pins;
    for (const YamlMember& member : node_.members) {
      if (member.value.kind != YamlNode::Kind::scalar)
        return unexpected(member.value, "", "put the sharding in quotes, " + form);
      auto pin = plan::parse_pin(member.key.text, member.value.text);
      if (!pin) return unexpected(member.value, "", form);
      pins.push_back(std::move(*pin));
    }
    place(config_) = std::move(pins);
    return std::nullopt;
  }

  Result operator()(const Place<pipeline::WeightDelay>& place) const {
    const auto delay = pipeline::weight_delay_from(is_plain() ? node_.text : std::string());
    if (!delay) return unexpected(hint_about_names(std::vector<std::string>{"none", "auto"}));
    place(config_) = *delay;
    return std::nullopt;
  }
  Result operator()(const Place<Grids>& place) const {
    if (node_.kind != YamlNode::Kind::list) return unexpected(grids_form);
    Grids grids;
    for (const YamlNode& item : node_.items) {
      plan::Grid grid;
      if (auto refusal = store_grid(item, grid)) return refusal;
      grids.push_back(std::move(grid));
    }
    place(config_) = std::move(grids);
    return std::nullopt;
  }

 private:
  static constexpr const char* grids_form = "for example [{x: 2, data: 1}, {y: 2}]";

  Result store_grid(const YamlNode& item, plan::Grid& grid) const {
    if (item.kind != YamlNode::Kind::map) return unexpected(item, "", grids_form);
    std::int64_t data = 1;
    const std::array<std::pair<std::string_view, std::int64_t*>, 4> axes = {
        {{"x", &grid.x}, {"y", &grid.y}, {"z", &grid.z}, {"data", &data}}};
    for (const YamlMember& member : item.members) {
      const auto axis =
          std::ranges::find(axes, member.key.text, &decltype(axes)::value_type::first);
      if (axis == axes.end()) return unexpected(member.key, "is none of x, y, z, data", grids_form);
      const bool is_scalar = member.value.kind == YamlNode::Kind::scalar && !member.value.quoted;
      const auto read = read_integer(is_scalar ? member.value.text : std::string());
      if (const auto* refusal = std::get_if<Refusal>(&read))
        return unexpected(member.value, is_scalar ? refusal->reason : "", grids_form);
      *axis->second = std::get<std::int64_t>(read);
      if (!key_.bounds.contains(static_cast<double>(*axis->second)))
        return unexpected(member.value, "", "");
    }
    grid.data = data;
    return std::nullopt;
  }

  static constexpr const char* blend_form =
      "for example [{path: data/books, weight: 3}, {path: data/web, weight: 1}]";

  Result store_part(const YamlNode& item, data::BlendPart& part) const {
    if (item.kind != YamlNode::Kind::map) return unexpected(item, "", blend_form);
    const YamlNode *path = nullptr, *weight = nullptr;
    for (const YamlMember& member : item.members) {
      if (member.key.text == "path")
        path = &member.value;
      else if (member.key.text == "weight")
        weight = &member.value;
      else
        return unexpected(member.key, "is none of path, weight", blend_form);
    }
    if (path == nullptr || path->kind != YamlNode::Kind::scalar || path->text.empty())
      return unexpected(path == nullptr ? item : *path, "has no path", blend_form);
    if (weight == nullptr) return unexpected(item, "has no weight", blend_form);
    part.path = path->text;
    if (auto refusal =
            store_number(*weight, Place<double>([&](Config&) -> double& { return part.weight; })))
      return refusal;
    if (part.weight <= 0) return unexpected(*weight, "", "");
    return std::nullopt;
  }

  bool is_plain() const { return node_.kind == YamlNode::Kind::scalar && !node_.quoted; }

  Rejection unexpected(std::string hint) const { return unexpected(node_, "", std::move(hint)); }
  Rejection unexpected(const YamlNode& node, std::string_view reason, std::string hint) const {
    if (node_.kind == YamlNode::Kind::null)
      return {format("{} has no value", key_.path),
              format("leave it out for the default ({})", default_words(key_)), &node};
    std::string got = node.described();
    if (node.quoted) got += " in quotes";
    if (!reason.empty()) got += format(", which {}", reason);
    return {format("{}: expected {}; got {}", key_.path, type_words(key_), got), std::move(hint),
            &node};
  }

  std::string hint_about_quotes() const { return node_.quoted ? "remove the quotes" : ""; }
  /// "30s", where the key's unit is s already.
  std::string hint_about_unit(const YamlNode& node) const {
    const bool is_measured = !node.text.empty() && node.text[0] >= '0' && node.text[0] <= '9';
    return is_measured && !key_.unit.empty() ? format("write a plain number, in {}", key_.unit)
                                             : "";
  }
  std::string hint_about_truth() const {
    constexpr std::array<std::string_view, 8> yes = {"yes",  "Yes",  "on", "On",
                                                     "True", "TRUE", "1",  "y"};
    constexpr std::array<std::string_view, 8> no = {"no",    "No",    "off", "Off",
                                                    "False", "FALSE", "0",   "n"};
    for (const auto word : yes)
      if (node_.text == word) return "write true";
    for (const auto word : no)
      if (node_.text == word) return "write false";
    return "";
  }
  std::string hint_about_names(const std::vector<std::string>& names) const {
    return suggest_value(key_, node_.text, names);
  }

  template <class T>
  Result store_integer(const Place<T>& place) const {
    if (!is_plain()) return unexpected(hint_about_quotes());
    const auto read = read_integer(node_.text);
    if (const auto* refusal = std::get_if<Refusal>(&read))
      return unexpected(node_, refusal->reason, refusal->hint);
    const std::int64_t value = std::get<std::int64_t>(read);
    if (!key_.bounds.contains(static_cast<double>(value)) || !std::in_range<T>(value))
      return unexpected("");
    place(config_) = static_cast<T>(value);
    return std::nullopt;
  }
  Result store_number(const YamlNode& node, const Place<double>& place) const {
    if (node.kind != YamlNode::Kind::scalar || node.quoted)
      return unexpected(node, "", node.quoted ? "remove the quotes" : "");
    const auto read = read_number(node.text);
    if (const auto* refusal = std::get_if<Refusal>(&read))
      return unexpected(node, refusal->reason,
                        refusal->hint.empty() ? hint_about_unit(node) : refusal->hint);
    const double value = std::get<double>(read);
    if (!key_.bounds.contains(value)) return unexpected(node, "", "");
    place(config_) = value;
    return std::nullopt;
  }

  const Key& key_;
  const YamlNode& node_;
  Config& config_;
};

struct Printer {
  Config& config;
  std::string operator()(const Place<bool>& place) const {
    return place(config) ? "true" : "false";
  }
  std::string operator()(const Place<int>& place) const { return format("{}", place(config)); }
  std::string operator()(const Place<std::int64_t>& place) const {
    return format("{}", place(config));
  }
  std::string operator()(const Place<std::uint64_t>& place) const {
    return format("{}", place(config));
  }
  std::string operator()(const Place<std::optional<std::int64_t>>& place) const {
    const auto& number = place(config);
    return number ? format("{}", *number) : "auto";
  }
  std::string operator()(const Place<double>& place) const { return format_number(place(config)); }
  std::string operator()(const Place<std::string>& place) const {
    return yaml_quoted(place(config));
  }
  std::string operator()(const Choice& choice) const { return choice.names[choice.get(config)]; }
  std::string operator()(const Pair& pair) const {
    return format("[{}, {}]", format_number(pair.first(config)),
                  format_number(pair.second(config)));
  }
  std::string operator()(const Permutation& permutation) const {
    return format("[{}]", join(permutation.place(config), ", "));
  }
  std::string operator()(const Place<Blend>& place) const {
    std::vector<std::string> parts;
    for (const data::BlendPart& part : place(config))
      parts.push_back(
          format("{{path: {}, weight: {}}}", yaml_quoted(part.path), format_number(part.weight)));
    return format("[{}]", join(parts, ", "));
  }
  std::string operator()(const Place<pipeline::WeightDelay>& place) const {
    return pipeline::to_string(place(config));
  }
  std::string operator()(const Place<Grids>& place) const {
    std::vector<std::string> words;
    for (const plan::Grid& grid : place(config))
      words.push_back(
          format("{{x: {}, y: {}, z: {}, data: {}}}", grid.x, grid.y, grid.z, grid.data));
    return format("[{}]", join(words, ", "));
  }
  std::string operator()(const Integers& integers) const {
    std::vector<std::string> words;
    for (const std::int64_t number : integers.place(config))
      words.push_back(number == 0 && !integers.zero.empty() ? integers.zero : format("{}", number));
    return format("[{}]", join(words, ", "));
  }
  std::string operator()(const Place<std::vector<double>>& place) const {
    std::vector<std::string> words;
    for (const double number : place(config)) words.push_back(format_number(number));
    return format("[{}]", join(words, ", "));
  }
  std::string operator()(const Place<data::BadPictures>& place) const {
    const data::BadPictures& bad = place(config);
    return bad.skip ? format("skip:{}", *bad.skip) : "stop";
  }
  std::string operator()(const Amount& amount) const {
    const auto number = amount.get(config);
    if (!number) return amount.open;
    if (*number == 0 && !amount.zero.empty()) return amount.zero;
    return amount.is_size ? exact_bytes(*number) : format("{}", *number);
  }
  std::string operator()(const Place<plan::Checkpointing>& place) const {
    return plan::to_string(place(config));
  }
  std::string operator()(const Place<Pins>& place) const {
    std::vector<std::string> words;
    for (const plan::Pin& pin : place(config))
      words.push_back(
          format("{}: {}", yaml_quoted(pin.pattern), yaml_quoted(plan::to_string(pin))));
    return format("{{{}}}", join(words, ", "));
  }
};

}  // namespace

std::optional<Rejection> store_value(const Key& key, const YamlNode& node, Config& config) {
  return std::visit(Storer(key, node, config), key.field);
}

void store_fallback(const Key& key, Config& config) {
  if (key.fallback.empty()) return;
  std::vector<Diagnostic> problems;
  const YamlDocument document = parse_yaml(key.fallback, key.path, problems);
  require(problems.empty() && !store_value(key, document.root, config),
          "a default of the schema is a valid value");
}

std::string value_text(const Key& key, Config& config) {
  return std::visit(Printer{config}, key.field);
}

}  // namespace fourfold::config
