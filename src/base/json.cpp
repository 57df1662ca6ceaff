#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/format.h"

namespace fourfold {
namespace {

constexpr std::size_t max_json_depth = 64;

std::string dump_leaf(const nlohmann::json& leaf) {
  return leaf.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The library prints leaves alone: its arrays and objects allocate in their destructors, which
/// ends the process when memory has run out.
void append(std::string& text, const Json& json) {
  switch (json.kind()) {
    case Json::Kind::null:
      text += "null";
      return;
    case Json::Kind::boolean:
      text += json.as_bool() ? "true" : "false";
      return;
    case Json::Kind::integer:
      text += dump_leaf(json.as_integer());
      return;
    case Json::Kind::number:
      text += dump_leaf(json.as_double());
      return;
    case Json::Kind::string:
      text += dump_leaf(json.as_string());
      return;
    case Json::Kind::array: {
      char before = '[';
      for (const Json& item : json.items()) {
        text += std::exchange(before, ',');
        append(text, item);
      }
      text += before == '[' ? "[]" : "]";
      return;
    }
    case Json::Kind::object: {
      char before = '{';
      for (const Json::Member& member : json.members()) {
        text += std::exchange(before, ',');
        text += dump_leaf(member.key);
        text += ':';
        append(text, member.value);
      }
      text += before == '{' ? "{}" : "}";
      return;
    }
  }
  fail_internal("a JSON value has one of seven kinds");
}

/// Builds a Json from the library's events, so that duplicates and depth are seen as they come.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (!std::in_range<std::int64_t>(value))
      return refuse(format("the integer {} does not fit 64 bits with sign", value));
    return add(value);
  }
  bool number_float(double value, const std::string& /*text*/) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return refuse("a binary value"); }
  bool start_object(std::size_t /*size*/) override { return open(true); }
  bool start_array(std::size_t /*size*/) override { return open(false); }
  bool end_object() override {
    Json value = Json::object(std::move(open_.back().members));
    open_.pop_back();
    return add(std::move(value));
  }
  bool end_array() override {
    Json value = Json::array(std::move(open_.back().items));
    open_.pop_back();
    return add(std::move(value));
  }
  bool key(std::string& text) override {
    if (!open_.back().keys.insert(text).second)
      return refuse(format("duplicate key {}", json_quoted(text)));
    open_.back().key = std::move(text);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override {
    byte = position;
    std::string_view text =
        error.what();  // "[json.exception...] parse error at line 1, column 2: the reason"
    if (const auto end = text.find("] "); end != text.npos) text.remove_prefix(end + 2);
    if (text.starts_with("parse error")) text.remove_prefix(text.find(": ") + 2);
    return refuse(token.empty() ? std::string(text) : format("{} (at '{}')", text, token));
  }

  Json result;
  std::string problem;
  std::size_t byte = 0;  // 1-based; 0: unknown

 private:
  struct Level {
    bool is_object = false;
    std::vector<Json> items;
    std::vector<Json::Member> members;
    std::string key;  // of the member to come
    std::unordered_set<std::string> keys;
  };

  bool refuse(std::string text) {
    problem = std::move(text);
    return false;
  }
  bool open(bool is_object) {
    if (open_.size() == max_json_depth)
      return refuse(format("nested deeper than {} levels", max_json_depth));
    open_.emplace_back();
    open_.back().is_object = is_object;
    return true;
  }
  bool add(Json value) {
    if (open_.empty())
      result = std::move(value);
    else if (open_.back().is_object)
      open_.back().members.push_back({std::move(open_.back().key), std::move(value)});
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }

  std::vector<Level> open_;
};

/// "12:3" of a 1-based position in the text.
std::string line_and_column(std::string_view text, std::size_t byte) {
  const auto before = text.substr(0, std::min(text.size(), byte == 0 ? 0 : byte - 1));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const auto newline = before.rfind('\n');
  const auto column = newline == before.npos ? before.size() + 1 : before.size() - newline;
  return format("{}:{}", lines + 1, column);
}

}  // namespace

Json::Json(const Json& other) {
  std::visit([this](const auto& value) { value_ = value; }, other.value_);
}

Json Json::array(std::vector<Json> items) {
  Json result;
  result.value_ = std::move(items);
  return result;
}

Json Json::object() {
  return object({});
}

Json Json::object(std::vector<Member> members) {
  Json result;
  result.value_ = std::move(members);
  return result;
}

Json& Json::push(Json item) {
  require(kind() == Kind::array, "items are pushed to a JSON array");
  std::get<std::vector<Json>>(value_).push_back(std::move(item));
  return *this;
}

Json& Json::set(std::string key, Json value) {
  require(kind() == Kind::object, "members are set in a JSON object");
  auto& all = std::get<std::vector<Member>>(value_);
  const auto same =
      std::find_if(all.begin(), all.end(), [&](const Member& m) { return m.key == key; });
  if (same != all.end())
    same->value = std::move(value);
  else
    all.push_back({std::move(key), std::move(value)});
  return *this;
}

bool Json::as_bool() const {
  require(kind() == Kind::boolean, "the JSON value is a boolean");
  return std::get<bool>(value_);
}

std::int64_t Json::as_integer() const {
  require(kind() == Kind::integer, "the JSON value is an integer");
  return std::get<std::int64_t>(value_);
}

double Json::as_double() const {
  if (kind() == Kind::integer) return static_cast<double>(as_integer());
  require(kind() == Kind::number, "the JSON value is a number");
  return std::get<double>(value_);
}

const std::string& Json::as_string() const {
  require(kind() == Kind::string, "the JSON value is a string");
  return std::get<std::string>(value_);
}

const std::vector<Json>& Json::items() const {
  require(kind() == Kind::array, "the JSON value is an array");
  return std::get<std::vector<Json>>(value_);
}

const std::vector<Json::Member>& Json::members() const {
  require(kind() == Kind::object, "the JSON value is an object");
  return std::get<std::vector<Member>>(value_);
}

const Json* Json::find(std::string_view key) const& {
  if (kind() != Kind::object) return nullptr;
  for (const Member& member : members())
    if (member.key == key) return &member.value;
  return nullptr;
}

std::string json_quoted(std::string_view text) {
  return Json(text).dump();
}

std::string Json::dump() const {
  std::string text;
  append(text, *this);
  return text;
}

bool operator==(const Json& a, const Json& b) {
  return a.value_ == b.value_;
}

Json parse_json(std::string_view text, std::string_view file, ExitCode code) {
  // The parser takes a zero byte for the end of the text and would ignore what follows.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos)
    throw UserError(
        code, format("{}:{}: not valid JSON: a zero byte", file, line_and_column(text, zero + 1)));
  Builder builder;
  if (nlohmann::json::sax_parse(text, &builder)) return std::move(builder.result);
  const std::string place = builder.byte == 0 ? "" : ":" + line_and_column(text, builder.byte);
  throw UserError(code, format("{}{}: not valid JSON: {}", file, place, builder.problem));
}

}  // namespace fourfold
