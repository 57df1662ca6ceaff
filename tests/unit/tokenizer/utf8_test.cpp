#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace fourfold::tokenizer {
namespace {

TEST(Utf8, every_code_point_survives_encoding_and_decoding) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code_point);
    const auto found = first_code_point(text + "x");
    ASSERT_TRUE(found) << static_cast<unsigned>(code_point);
    ASSERT_EQ(found->value, code_point);
    ASSERT_EQ(found->num_bytes, text.size());
  }
}

TEST(Utf8, the_number_of_well_formed_sequences_of_up_to_three_bytes_is_that_of_the_standard) {
  // Code points below U+10000 without the surrogates, found among all strings of three bytes.
  std::size_t found[4] = {};
  for (unsigned word = 0; word < (1U << 24); ++word) {
    const char bytes[] = {static_cast<char>(word >> 16), static_cast<char>(word >> 8),
                          static_cast<char>(word)};
    const auto one = first_code_point({bytes, 3});
    if (one && (word & ((1U << (24 - 8 * one->num_bytes)) - 1)) == 0) ++found[one->num_bytes];
  }
  EXPECT_EQ(found[1], 0x80U);
  EXPECT_EQ(found[2], 0x800U - 0x80U);
  EXPECT_EQ(found[3], 0x10000U - 0x800U - 0x800U);
}

TEST(Utf8, malformed_sequences_are_refused) {
  const std::vector<std::string> malformed = {"",
                                              "\x80",
                                              "\xBF",
                                              "\xC0\x80",
                                              "\xC1\xBF",
                                              "\xC3",
                                              "\xC3(",
                                              "\xE0\x80\x80",
                                              "\xE0\x9F\xBF",
                                              "\xED\xA0\x80",
                                              "\xED\xBF\xBF",
                                              "\xE2\x82",
                                              "\xE2(\xA1",
                                              "\xF0\x8F\xBF\xBF",
                                              "\xF4\x90\x80\x80",
                                              "\xF5\x80\x80\x80",
                                              "\xFE",
                                              "\xFF",
                                              "\xF0\x9F\x98"};
  for (const std::string& text : malformed)
    EXPECT_FALSE(first_code_point(text)) << testing::PrintToString(text);
}

TEST(Utf8, a_surrogate_cannot_be_appended) {
  std::string text;
  EXPECT_THROW(append_utf8(text, 0xD800), InternalError);
  EXPECT_THROW(append_utf8(text, 0x110000), InternalError);
}

TEST(Utf8, a_character_is_described_with_its_number_and_control_characters_are_escaped) {
  EXPECT_EQ(describe_character(U'\u00E9'), "\"\u00E9\" (U+00E9)");
  EXPECT_EQ(describe_character(U'\x1B'), "\"\\u001b\" (U+001B)");
}

TEST(Utf8, the_well_formed_prefix_ends_at_the_first_bad_byte) {
  const std::string good = "abcdefgh ijklmnop \u00E9\u4F60\U0001F600 and so on";
  EXPECT_EQ(well_formed_prefix(good), good.size());
  EXPECT_EQ(well_formed_prefix(""), 0U);
  for (std::size_t at = 0; at <= good.size(); ++at) {
    if (at < good.size() && (static_cast<unsigned char>(good[at]) & 0xC0U) == 0x80) continue;
    std::string text = good;
    text.insert(at, "\xFF");
    EXPECT_EQ(well_formed_prefix(text), at);
  }
  EXPECT_EQ(well_formed_prefix("abc\xE4\xBD"), 3U);
}

TEST(Utf8Stream, characters_come_out_whole_however_their_bytes_arrive) {
  const std::string text = "a\u00E9\u20AC\U0001F600z";
  for (std::size_t chunk = 1; chunk <= text.size(); ++chunk) {
    Utf8Stream stream;
    std::string result;
    for (std::size_t at = 0; at < text.size(); at += chunk) {
      const std::string piece = stream.push(text.substr(at, chunk));
      for (std::string_view rest = piece; !rest.empty();) {
        const auto found = first_code_point(rest);
        ASSERT_TRUE(found) << "with chunks of " << chunk;
        rest.remove_prefix(found->num_bytes);
      }
      result += piece;
    }
    EXPECT_EQ(result, text);
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST(Utf8Stream, bytes_that_cannot_become_a_character_are_replaced) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xFF"), "\uFFFD");
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("x"), "\uFFFDx");
  EXPECT_EQ(stream.push("\xF0\x9F"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace fourfold::tokenizer
