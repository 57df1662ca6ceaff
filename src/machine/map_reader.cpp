#include "machine/map_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace fourfold::machine {
namespace {

/// The whole text as a number of this kind.
template <class Number>
bool reads_as(const std::string& text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end;
}

struct Bounds {
  double least, most;
  std::string_view unit;
};

/// Far beyond any machine, on both sides.
Bounds bounds_of(Quantity quantity) {
  constexpr double most = 1e30;
  switch (quantity) {
    case Quantity::bytes_per_s:
      return {1, most, "B/s"};
    case Quantity::flops_per_s:
      return {1, most, "FLOP/s"};
    case Quantity::seconds:
      return {1e-12, 1e6, "s"};
    case Quantity::bytes:
      return {1e-3, most, "B"};
    case Quantity::flops:
      return {1e-3, most, "FLOP"};
  }
  fail_internal("a quantity is one of those listed");
}

}  // namespace

MapReader::MapReader(const YamlDocument& document, const YamlNode& map,
                     std::vector<Diagnostic>& problems, std::string remedy, const std::string& what)
    : document_(document), map_(map), problems_(problems), remedy_(std::move(remedy)) {
  if (map.kind != YamlNode::Kind::map) wrong(map, what, "a map of keys and values");
}

const YamlNode* MapReader::member(const std::string& key) const {
  for (const YamlMember& member : map_.members)
    if (member.key.text == key) return &member.value;
  return nullptr;
}

const YamlNode* MapReader::find(const std::string& key) {
  known_.push_back(key);
  const YamlNode* node = member(key);
  if (node == nullptr && map_.kind == YamlNode::Kind::map)
    problems_.push_back(document_.problem_at(map_, format("'{}' is missing here", key), remedy_));
  return node;
}

std::string MapReader::text(const std::string& key) {
  const YamlNode* node = find(key);
  if (node == nullptr || node->kind == YamlNode::Kind::scalar) return node ? node->text : "";
  return wrong(*node, key, "a text"), "";
}

std::string MapReader::one_of(const std::string& key, const std::vector<std::string>& choices) {
  const YamlNode* node = find(key);
  if (node == nullptr) return "";
  if (std::find(choices.begin(), choices.end(), node->text) == choices.end())
    wrong(*node, key, join(choices, ", "));
  return node->text;
}

std::int64_t MapReader::whole(const std::string& key, std::int64_t least) {
  const YamlNode* node = find(key);
  std::int64_t value = 0;
  if (node == nullptr || (reads_as(node->text, value) && value >= least))
    return node ? value : least;
  return wrong(*node, key, format("a whole number from {}", least)), least;
}

double MapReader::number(const std::string& key, double least, double most) {
  const YamlNode* node = find(key);
  double value = 0;
  if (node == nullptr || (reads_as(node->text, value) && value >= least && value <= most))
    return node ? value : least;
  const bool has_end = most < std::numeric_limits<double>::max();
  wrong(*node, key, format("a number from {}{}", least, has_end ? format(" to {}", most) : ""));
  return least;
}

double MapReader::quantity(const std::string& key, Quantity quantity) {
  const YamlNode* node = find(key);
  if (node == nullptr) return 0;
  const auto value = parse_quantity(node->text, quantity);
  if (!value) return wrong(*node, key, std::string(quantity_in_words(quantity))), 0;
  const auto [least, most, unit] = bounds_of(quantity);
  if (*value == 0 || (*value >= least && *value <= most)) return *value;
  return wrong(*node, key,
               format("{:g} to {:g} {}: {}", least, most, unit, quantity_in_words(quantity))),
         0;
}

double MapReader::positive(const std::string& key, Quantity quantity) {
  const std::size_t before = problems_.size();
  const double value = this->quantity(key, quantity);
  if (value == 0 && problems_.size() == before && has(key))
    wrong(key, format("more than 0: {}", quantity_in_words(quantity)));
  return value;
}

const std::vector<YamlNode>& MapReader::list(const std::string& key) {
  static const std::vector<YamlNode> none;
  const YamlNode* node = find(key);
  if (node == nullptr || node->kind == YamlNode::Kind::list) return node ? node->items : none;
  return wrong(*node, key, "a list"), none;
}

void MapReader::refuse_others() {
  for (const YamlMember& member : map_.members) {
    if (std::find(known_.begin(), known_.end(), member.key.text) != known_.end()) continue;
    const auto meant = nearest(member.key.text, known_);
    problems_.push_back(document_.problem_at(
        member.key, format("unknown '{}'; known here: {}", member.key.text, join(known_, ", ")),
        meant ? format("did you mean '{}'?", *meant) : remedy_));
  }
}

void MapReader::wrong(const std::string& key, const std::string& expected) {
  if (const YamlNode* node = member(key)) wrong(*node, key, expected);
}

void MapReader::wrong(const YamlNode& node, const std::string& key, const std::string& expected) {
  problems_.push_back(document_.problem_at(
      node, format("{} is {}, expected {}", key, node.described(), expected), remedy_));
}

}  // namespace fourfold::machine
