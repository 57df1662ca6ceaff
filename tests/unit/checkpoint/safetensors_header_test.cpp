#include "checkpoint/safetensors_header.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "unit/data/expect_error.h"

namespace fourfold::checkpoint {
namespace {

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(SafetensorsHeader, reads_names_types_shapes_and_places_in_the_order_of_the_bytes) {
  const auto header =
      SafetensorsHeader::parse(R"({"b":{"dtype":"I32","shape":[],"data_offsets":[8,12]},)"
                               R"("a":{"shape":[2,2],"data_offsets":[0,8],"dtype":"BF16"},)"
                               R"("none":{"dtype":"U64","shape":[3,0],"data_offsets":[12,12]},)"
                               R"("__metadata__":{"k":"v"}}    )",
                               12, "x");
  const std::vector<TensorInfo> expected = {{"a", DType::bf16, Shape{2, 2}, 0, 8},
                                            {"b", DType::i32, Shape{}, 8, 12},
                                            {"none", DType::u64, Shape{3, 0}, 12, 12}};
  EXPECT_EQ(header.tensors(), expected);
  EXPECT_EQ(header.metadata(), (Metadata{{"k", "v"}}));
  EXPECT_EQ(header.data_bytes(), 12);
  EXPECT_EQ(header.find("b"), &header.tensors()[1]);
  EXPECT_EQ(header.find("c"), nullptr);
}

TEST(SafetensorsHeader, a_file_without_tensors_is_legal) {
  EXPECT_TRUE(SafetensorsHeader::parse("{}", 0, "x").tensors().empty());
  EXPECT_EQ(SafetensorsHeader::parse(R"({"__metadata__":{}})", 0, "x").data_bytes(), 0);
}

struct Malformed {
  std::string why, text;
  std::int64_t data_bytes;
  std::string word;  // of the message
};

std::vector<Malformed> malformed_headers() {
  const std::string f32 = R"("F32")";
  const std::string good = entry(f32, "[2]", "[0,8]");
  const std::string max = std::to_string(std::numeric_limits<std::int64_t>::max());
  const auto one = [](const std::string& value) { return R"({"a":)" + value + "}"; };
  return {
      {"empty text", "", 0, "{"},
      {"only padding", "        ", 0, "{"},
      {"padding in front", " {}", 0, "{"},
      {"an array", "[]", 0, "{"},
      {"not closed", "{", 0, ""},
      {"text behind", "{} x", 0, ""},
      {"a zero byte behind", std::string("{}\0", 3), 0, ""},
      {"a comment", "{/**/}", 0, ""},
      {"not UTF-8", one(good).replace(2, 1, "\xFF"), 8, ""},
      {"duplicate names", R"({"a":)" + good + R"(,"a":)" + good + "}", 8, "duplicate"},
      {"duplicate keys in a tensor",
       one(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"), 8, "duplicate"},
      {"deep nesting", one(std::string(100000, '[')), 0, ""},
      {"a tensor that is a number", one("3"), 0, "object"},
      {"a tensor that is null", one("null"), 0, "object"},
      {"no dtype", one(R"({"shape":[2],"data_offsets":[0,8]})"), 8, "dtype"},
      {"no shape", one(R"({"dtype":"F32","data_offsets":[0,8]})"), 8, "shape"},
      {"no offsets", one(R"({"dtype":"F32","shape":[2]})"), 8, "data_offsets"},
      {"an unknown key", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"), 8,
       "unknown key"},
      {"an unknown dtype", one(entry(R"("F31")", "[2]", "[0,8]")), 8, "F31"},
      {"a dtype in small letters", one(entry(R"("f32")", "[2]", "[0,8]")), 8, "f32"},
      {"a dtype that is a number", one(entry("32", "[2]", "[0,8]")), 8, "dtype"},
      {"a shape that is a number", one(entry(f32, "2", "[0,8]")), 8, "shape"},
      {"a negative size", one(entry(f32, "[-2]", "[0,8]")), 8, "-2"},
      {"two negative sizes", one(entry(f32, "[-1,-2]", "[0,8]")), 8, "-1"},
      {"a fractional size", one(entry(f32, "[2.0]", "[0,8]")), 8, "2.0"},
      {"a size as a string", one(entry(f32, R"(["2"])", "[0,8]")), 8, "shape"},
      {"a size beyond 64 bits", one(entry(f32, "[18446744073709551616]", "[0,8]")), 8, "shape"},
      {"a size of 64 bits without sign", one(entry(f32, "[18446744073709551615]", "[0,8]")), 8,
       "64 bits"},
      {"a product that overflows", one(entry(f32, "[4294967296,4294967296]", "[0,8]")), 8,
       "64 bits"},
      {"a product that overflows to the right number",
       one(entry(f32, "[4611686018427387906]", "[0,8]")), 8, "64 bits"},
      {"one offset", one(entry(f32, "[2]", "[8]")), 8, "data_offsets"},
      {"three offsets", one(entry(f32, "[2]", "[0,8,8]")), 8, "data_offsets"},
      {"a negative offset", one(entry(f32, "[2]", "[-8,0]")), 8, "-8"},
      {"offsets reversed", one(entry(f32, "[2]", "[8,0]")), 8, "8 to 0"},
      {"offsets too near", one(entry(f32, "[2]", "[0,4]")), 4, "takes 8"},
      {"offsets too far apart", one(entry(f32, "[2]", "[0,12]")), 12, "takes 8"},
      {"offsets at the end of all numbers", one(entry(f32, "[0]", "[" + max + "," + max + "]")), 0,
       "hole"},
      {"data cut short", one(good), 7, "7"},
      {"data appended", one(good), 9, "9"},
      {"data without tensors", "{}", 1, "1"},
      {"a hole in front", one(entry(f32, "[2]", "[4,12]")), 12, "hole"},
      {"a hole between", R"({"a":)" + good + R"(,"b":)" + entry(f32, "[1]", "[12,16]") + "}", 16,
       "hole"},
      {"an overlap", R"({"a":)" + good + R"(,"b":)" + entry(f32, "[2]", "[4,12]") + "}", 12,
       "overlap"},
      {"two tensors in one place", R"({"a":)" + good + R"(,"b":)" + good + "}", 8, "overlap"},
      {"a zero-size tensor inside another",
       R"({"a":)" + good + R"(,"b":)" + entry(f32, "[0]", "[4,4]") + "}", 8, "overlap"},
      {"metadata that is no object", R"({"__metadata__":[]})", 0, "__metadata__"},
      {"metadata with a number", R"({"__metadata__":{"a":1}})", 0, "__metadata__"},
  };
}

TEST(SafetensorsHeader, every_malformed_header_is_an_error_that_names_the_file_and_the_fault) {
  const auto cases = malformed_headers();
  EXPECT_GE(cases.size(), 25U);
  for (const Malformed& malformed : cases) {
    SCOPED_TRACE(malformed.why);
    const auto message = user_error(ExitCode::no_checkpoint, [&] {
      SafetensorsHeader::parse(malformed.text, malformed.data_bytes, "m.safetensors");
    });
    expect_words(message, {"m.safetensors", malformed.word});
  }
}

TEST(SafetensorsHeader, control_characters_in_names_are_shown_escaped) {
  const std::string text = R"({"\u001b[31m":3})";
  const auto message =
      user_error(ExitCode::no_checkpoint, [&] { SafetensorsHeader::parse(text, 0, "x"); });
  EXPECT_EQ(message.find('\x1B'), std::string::npos);
  expect_words(message, {"\\u001b"});
}

TEST(SafetensorsHeader, tensors_are_laid_out_by_element_size_then_by_name) {
  const auto header = SafetensorsHeader::lay_out({{"z", DType::bf16, Shape{1}},
                                                  {"b", DType::f32, Shape{3}},
                                                  {"y", DType::i64, Shape{}},
                                                  {"a", DType::i32, Shape{2}},
                                                  {"c", DType::f64, Shape{1}}},
                                                 {});
  const std::vector<TensorInfo> expected = {{"c", DType::f64, Shape{1}, 0, 8},
                                            {"y", DType::i64, Shape{}, 8, 16},
                                            {"a", DType::i32, Shape{2}, 16, 24},
                                            {"b", DType::f32, Shape{3}, 24, 36},
                                            {"z", DType::bf16, Shape{1}, 36, 38}};
  EXPECT_EQ(header.tensors(), expected);
}

TEST(SafetensorsHeader, what_is_written_reads_back_and_its_length_is_a_multiple_of_eight) {
  std::vector<TensorInfo> tensors;
  for (std::string name = "t\u00E9\"\\"; name.size() < 30; name += "n") {
    tensors.push_back({name, DType::f32, Shape{1, 2, 3}});
    const auto header =
        SafetensorsHeader::lay_out(tensors, {{"format", "pt"}, {"a \" quote", "\n"}});
    const std::string text = header.text();
    EXPECT_EQ(text.size() % 8, 0U);
    const auto again = SafetensorsHeader::parse(text, header.data_bytes(), "x");
    EXPECT_EQ(again.tensors(), header.tensors());
    EXPECT_EQ(again.metadata(), header.metadata());
  }
}

TEST(SafetensorsHeader, tensors_of_one_name_or_the_reserved_one_are_a_bug) {
  EXPECT_THROW(
      SafetensorsHeader::lay_out({{"a", DType::f32, Shape{}}, {"a", DType::f64, Shape{}}}, {}),
      InternalError);
  EXPECT_THROW(SafetensorsHeader::lay_out({{"__metadata__", DType::f32, Shape{}}}, {}),
               InternalError);
}

}  // namespace
}  // namespace fourfold::checkpoint
