// Where the values of a configuration were given. Beside the configuration, not a part of it.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace fourfold::config {

struct Origin {
  std::string place;  // "default", "derived", "gpt.yaml:12" or "--set #2"
  std::string value;  // as YAML, when it was loaded; a run may settle another
};

/// The origins by key. Configurations that differ only in them are equal.
class Origins {
 public:
  void set(const std::string& key, Origin origin) {
    by_key_.insert_or_assign(key, std::move(origin));
  }
  /// nullptr for a Config that was not loaded.
  const Origin* find(std::string_view key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &found->second;
  }
  bool operator==(const Origins&) const { return true; }

 private:
  std::map<std::string, Origin, std::less<>> by_key_;
};

}  // namespace fourfold::config
