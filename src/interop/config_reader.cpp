#include "interop/config_reader.h"

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace fourfold::interop {

const Json* ConfigReader::find(std::string_view key, std::string_view alias) const {
  for (const std::string_view name : {key, alias}) {
    const Json* value = name.empty() ? nullptr : json_.find(name);
    if (value != nullptr && value->kind() != Json::Kind::null) return value;
  }
  return nullptr;
}

std::int64_t ConfigReader::integer(std::string_view key, std::string_view alias,
                                   std::int64_t fallback, std::int64_t most) {
  const Json* value = find(key, alias);
  if (value == nullptr) return fallback;
  if (value->kind() == Json::Kind::integer && value->as_integer() >= 1 &&
      value->as_integer() <= most)
    return value->as_integer();
  refuse(key, *value, format("expected an integer from 1 to {}", most));
  return fallback;
}

double ConfigReader::number(std::string_view key, double fallback, bool may_be_zero, double below) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  const bool is_number =
      value->kind() == Json::Kind::integer || value->kind() == Json::Kind::number;
  const double got = is_number ? value->as_double() : -1;
  if (is_number && got < below && (got > 0 || (may_be_zero && got == 0))) return got;
  refuse(key, *value,
         format("expected a number {} 0 and below {}", may_be_zero ? "from" : "above", below));
  return fallback;
}

bool ConfigReader::boolean(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->kind() == Json::Kind::boolean) return value->as_bool();
  refuse(key, *value, "expected true or false");
  return fallback;
}

void ConfigReader::demand(std::string_view key, bool wanted, bool fallback, std::string_view why) {
  const bool got = boolean(key, fallback);
  if (got != wanted)
    problems_.push_back(
        format("{}{} = {}: {}; a model that was trained so cannot be imported, and another "
               "value in this file would make it compute something else",
               section_, key, got, why));
}

void ConfigReader::refuse(std::string_view key, const Json& value, std::string_view what) {
  constexpr std::size_t most = 60;
  std::string shown = value.dump();
  if (shown.size() > most) shown = shown.substr(0, most) + "...";
  problems_.push_back(format("{}{} = {}: {}", section_, key, shown, what));
}

void ConfigReader::take_problems(const ConfigReader& other) {
  problems_.insert(problems_.end(), other.problems_.begin(), other.problems_.end());
}

void ConfigReader::finish() const {
  if (problems_.empty()) return;
  const std::string separator = format("\n{}: ", place_);
  throw UserError(ExitCode::no_checkpoint, format("{}: {}", place_, join(problems_, separator)));
}

}  // namespace fourfold::interop
