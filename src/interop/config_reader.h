// The keys of a config.json of Hugging Face, read one after the other; all that is wrong is told
// together. Not what a key means: hub_family.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace fourfold::interop {

class ConfigReader {
 public:
  /// `json` is an object and outlives the reader. `place` begins messages: the file, or the file
  /// and an object in it.
  ConfigReader(const Json& json, std::string_view place) : json_(json), place_(place) {}

  /// Below either name; the first one counts. Null where both are absent or null.
  const Json* find(std::string_view key, std::string_view alias = "") const;
  /// True if the key is there, be it null.
  bool has(std::string_view key) const { return json_.find(key) != nullptr; }
  const Json& json() const { return json_; }

  /// From 1 on.
  std::int64_t integer(std::string_view key, std::string_view alias, std::int64_t fallback,
                       std::int64_t most);
  double number(std::string_view key, double fallback, bool may_be_zero, double below);
  bool boolean(std::string_view key, bool fallback);
  /// Refuses any value but this one, for the reason given.
  void demand(std::string_view key, bool wanted, bool fallback, std::string_view why);

  void refuse(std::string_view key, const Json& value, std::string_view what);
  /// "rope_scaling." before the keys that are told.
  void set_section(std::string_view section) { section_ = section; }
  /// Adds the problems that another reader has found.
  void take_problems(const ConfigReader& other);

  /// Errors: UserError(no_checkpoint), a line for each problem.
  void finish() const;

 private:
  const Json& json_;
  std::string place_, section_;
  std::vector<std::string> problems_;
};

}  // namespace fourfold::interop
