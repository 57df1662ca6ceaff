// JSON values: made, printed on one line, and read strictly. Not a streaming parser and not for
// large files.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace fourfold {

/// One JSON value; objects keep the order in which their members were set. Integers and doubles are
/// told apart: "1" reads as an integer, "1.0" as a double.
class Json {
 public:
  struct Member;
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, array, object };

  Json() = default;  // null
  // Not the variant's own copies: where a copy of one of its strings or lists throws, libstdc++ 12
  // destroys a value that never was.
  Json(const Json& other);
  Json& operator=(const Json& other) { return *this = Json(other); }
  Json(Json&&) noexcept = default;
  Json& operator=(Json&&) noexcept = default;
  ~Json() = default;
  Json(bool value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  template <std::integral T>
  Json(T value) : value_(static_cast<std::int64_t>(value)) {
    require(std::in_range<std::int64_t>(value), "an integer in JSON fits 64 bits with sign");
  }
  static Json array(std::vector<Json> items = {});
  /// An array of what stands in a container, such as the sizes of a shape.
  static Json array_of(const auto& values) {
    return array(std::vector<Json>(values.begin(), values.end()));
  }
  static Json object();
  /// The keys must differ.
  static Json object(std::vector<Member> members);

  /// Appends to an array; returns the array.
  Json& push(Json item);
  /// Sets a member of an object, in place if the key is there already; returns the object.
  Json& set(std::string key, Json value);

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  /// The value; InternalError when the kind is another. Files of users: look at kind() first.
  bool as_bool() const;
  std::int64_t as_integer() const;
  double as_double() const;  // of an integer too
  const std::string& as_string() const;
  const std::vector<Json>& items() const;
  const std::vector<Member>& members() const;
  /// The member of an object, or nullptr (also when this is no object). It lives as long as this.
  const Json* find(std::string_view key) const&;
  const Json* find(std::string_view key) const&& = delete;

  /// One line without spaces. Doubles print as the shortest text that reads back to the same bits;
  /// NaN and infinities, which JSON lacks, as null. Bytes that are not UTF-8 print as U+FFFD.
  std::string dump() const;

  friend bool operator==(const Json& a, const Json& b);

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<Json>,
               std::vector<Member>>
      value_;
};

struct Json::Member {
  std::string key;
  Json value;
  bool operator==(const Member&) const = default;
};

/// Strict: no comments, no trailing text, no duplicate keys, at most 64 levels. Errors:
/// UserError(code) that begins with `file`, line and column.
Json parse_json(std::string_view text, std::string_view file, ExitCode code = ExitCode::bad_data);

/// The text as JSON writes it, with its quotes.
std::string json_quoted(std::string_view text);

}  // namespace fourfold
