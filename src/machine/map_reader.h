// Reads the members of one map of a YAML file strictly: what is missing, unknown or wrong becomes a
// problem at its place. Not the keys of configurations (config/).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/yaml.h"

namespace fourfold::machine {

class MapReader {
 public:
  /// The document, the map and the problems outlive the reader. `remedy`: what helps against every
  /// problem; may be empty. A node that is no map is a problem, `what` its name, and has no
  /// members.
  MapReader(const YamlDocument& document, const YamlNode& map, std::vector<Diagnostic>& problems,
            std::string remedy, const std::string& what = "this");

  bool has(const std::string& key) const { return member(key) != nullptr; }
  /// The value of a key that must be there; nullptr with a problem where it is not.
  const YamlNode* find(const std::string& key);

  // Each returns a harmless value where there is a problem.
  std::string text(const std::string& key);
  std::string one_of(const std::string& key, const std::vector<std::string>& choices);
  std::int64_t whole(const std::string& key, std::int64_t least);
  double number(const std::string& key, double least, double most);
  /// 0, or within bounds that no machine reaches, so that sums of times are finite.
  double quantity(const std::string& key, Quantity quantity);
  /// The same, and 0 is a problem.
  double positive(const std::string& key, Quantity quantity);
  /// The items of a list.
  const std::vector<YamlNode>& list(const std::string& key);

  /// After the last known key: every other one is a problem.
  void refuse_others();
  /// Reports the value of a key, if it is there.
  void wrong(const std::string& key, const std::string& expected);
  void wrong(const YamlNode& node, const std::string& key, const std::string& expected);

 private:
  const YamlNode* member(const std::string& key) const;

  const YamlDocument& document_;
  const YamlNode& map_;
  std::vector<Diagnostic>& problems_;
  std::string remedy_;
  std::vector<std::string> known_;
};

}  // namespace fourfold::machine
