#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/random.h"

namespace fourfold {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_json(text, "model.json");
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    return error.what();
  }
  return "no error";
}

TEST(Json, prints_on_one_line_in_the_order_of_setting) {
  Json json = Json::object();
  json.set("step", 3).set("loss", 0.5).set("done", false).set("name", "a\"b").set("none", Json());
  json.set("list", Json::array({1, 2.0, "three"})).set("step", 4);
  EXPECT_EQ(
      json.dump(),
      R"({"step":4,"loss":0.5,"done":false,"name":"a\"b","none":null,"list":[1,2.0,"three"]})");
}

TEST(Json, what_json_lacks_prints_as_null) {
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, bytes_that_are_not_utf8_still_print) {
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\"");
}

TEST(Json, doubles_read_back_to_the_same_bits) {
  const Random random(1, random_stream("json"));
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const double value = random.normal(i, 0) * std::pow(10, 600 * random.uniform(i, 1) - 300);
    const Json read = parse_json(Json(value).dump(), "test");
    ASSERT_EQ(read.kind(), Json::Kind::number);
    ASSERT_EQ(read.as_double(), value);
  }
}

TEST(Json, integers_and_doubles_are_told_apart) {
  EXPECT_EQ(parse_json("1", "t").kind(), Json::Kind::integer);
  EXPECT_EQ(parse_json("1.0", "t").kind(), Json::Kind::number);
  EXPECT_EQ(parse_json("1", "t").as_double(), 1.0);
  EXPECT_EQ(parse_json("-9223372036854775808", "t").as_integer(),
            std::numeric_limits<std::int64_t>::min());
}

TEST(Json, what_was_printed_reads_back_equal) {
  Json inner = Json::object();
  inner.set("dtype", "F32").set("shape", Json::array({65, 128})).set("empty", Json::object());
  const Json json = Json::array({inner, true, Json(), -1, 1e300, "\n\t\u00e9"});
  EXPECT_EQ(parse_json(json.dump(), "test"), json);
}

TEST(Json, members_are_found_by_key) {
  const Json json = parse_json(R"({"a": {"b": [1, 2]}})", "test");
  ASSERT_NE(json.find("a"), nullptr);
  EXPECT_EQ(json.find("a")->find("b")->items().at(1).as_integer(), 2);
  EXPECT_EQ(json.find("c"), nullptr);
  const Json one(1);
  EXPECT_EQ(one.find("a"), nullptr);
}

TEST(Json, a_value_of_another_kind_is_an_internal_error) {
  EXPECT_THROW(Json("x").as_integer(), InternalError);
  EXPECT_THROW(Json(1).as_bool(), InternalError);
  EXPECT_THROW(Json(1).push(2), InternalError);
  EXPECT_THROW(Json(std::uint64_t{1} << 63), InternalError);
}

TEST(Json, errors_name_file_line_and_column) {
  EXPECT_NE(error_of("{\n  \"a\": 1,\n  b: 2}").find("model.json:3:3: not valid JSON"),
            std::string::npos);
  EXPECT_NE(error_of("").find("model.json:1:1: not valid JSON"), std::string::npos);
}

TEST(Json, what_is_not_strict_json_is_refused) {
  for (const char* text : {"{", "[1,]", "{\"a\":1,}", "01", "nan", "'a'", "1 2", "// c\n1",
                           "\"\\x\"", "1e999", "\"\xff\"", "18446744073709551615", "{\"a\"}"})
    EXPECT_NE(error_of(text), "no error") << text;
}

TEST(Json, duplicate_keys_are_refused) {
  EXPECT_NE(error_of(R"({"a": 1, "a": 2})").find("duplicate key \"a\""), std::string::npos);
  EXPECT_NE(error_of(R"({"a\nb": 1, "a\nb": 2})").find("duplicate key \"a\\nb\""),
            std::string::npos)
      << "in one line";
  EXPECT_EQ(error_of(R"({"a": {"b": 1}, "b": 2})"), "no error");
}

TEST(Json, nesting_is_limited) {
  EXPECT_EQ(error_of(std::string(64, '[') + std::string(64, ']')), "no error");
  EXPECT_NE(error_of(std::string(65, '[') + std::string(65, ']')).find("64 levels"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(1'000'000, '[')).find("64 levels"), std::string::npos);
}

}  // namespace
}  // namespace fourfold
