#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "unit/data/expect_error.h"

namespace fourfold::tokenizer {
namespace {

using Ids = std::vector<std::int32_t>;
const std::string mixed = "na\u00EFve \u20AC5 \U0001F600\n\ttab";

std::string decode(const Tokenizer& tokenizer, const Ids& ids) {
  return tokenizer.decode(ids);
}

TEST(CharacterTokenizer, the_vocabulary_is_the_sorted_set_of_the_texts_code_points) {
  const auto tokenizer = character_tokenizer("banana\u00E9a", "x");
  EXPECT_EQ(tokenizer->vocab_size(), 4);
  EXPECT_EQ(decode(*tokenizer, {0, 1, 2, 3}), "abn\u00E9");
  EXPECT_EQ(tokenizer->encode("na\u00E9b", "x"), (Ids{2, 0, 3, 1}));
}

TEST(CharacterTokenizer, multi_byte_text_round_trips_with_one_id_per_character) {
  const auto tokenizer = character_tokenizer(mixed, "x");
  const Ids ids = tokenizer->encode(mixed, "x");
  EXPECT_EQ(ids.size(), 15U);
  EXPECT_EQ(decode(*tokenizer, ids), mixed);
}

TEST(CharacterTokenizer, invalid_utf8_is_an_error_with_file_byte_offset_and_advice) {
  const std::string valid = "ab\u20AC";
  for (std::size_t at : {0U, 2U, 5U}) {
    std::string text = valid;
    text.insert(at, "\xFF");
    const auto message =
        user_error(ExitCode::bad_data, [&] { character_tokenizer(text, "corpus.txt"); });
    expect_words(message,
                 {"corpus.txt", "byte " + std::to_string(at), "0xff", "data.tokenizer: byte"});
  }
  const auto message =
      user_error(ExitCode::bad_data, [] { character_tokenizer("ab\xE2\x82", "cut.txt"); });
  expect_words(message, {"cut.txt", "byte 2", "0xe2"});
}

TEST(CharacterTokenizer, an_empty_text_is_an_error) {
  expect_words(user_error(ExitCode::bad_data, [] { character_tokenizer("", "empty.txt"); }),
               {"empty.txt", "empty"});
}

TEST(CharacterTokenizer, an_unknown_character_is_named_escaped_with_its_position) {
  const auto tokenizer = character_tokenizer("ab\u00E9", "x");
  const auto message =
      user_error(ExitCode::bad_data, [&] { tokenizer->encode("\u00E9a\x1B", "the prompt"); });
  expect_words(message, {"the prompt", "\\u001b", "U+001B", "byte 3", "3 characters",
                         "data.tokenizer: byte"});
}

TEST(ByteTokenizer, all_bytes_round_trip_as_their_own_ids) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  const auto tokenizer = byte_tokenizer();
  const Ids ids = tokenizer->encode(text, "x");
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(ids.front(), 0);
  EXPECT_EQ(ids.back(), 255);
  EXPECT_EQ(decode(*tokenizer, ids), text);
}

TEST(NumberTokenizer, numbers_round_trip_and_blanks_may_vary) {
  const auto tokenizer = number_tokenizer(50);
  EXPECT_EQ(tokenizer->encode(" 3\n49\t0 ", "x"), (Ids{3, 49, 0}));
  EXPECT_EQ(decode(*tokenizer, {3, 49, 0}), "3 49 0 ");
  EXPECT_EQ(tokenizer->encode("\n", "x"), Ids{});
}

TEST(NumberTokenizer, words_that_are_no_id_are_errors_with_their_place) {
  const auto tokenizer = number_tokenizer(50);
  for (const std::string& word :
       std::vector<std::string>{"50", "-1", "x", "3x", "99999999999", "1.5"}) {
    const auto message =
        user_error(ExitCode::bad_data, [&] { tokenizer->encode("1 2 " + word, "the prompt"); });
    expect_words(message, {"the prompt", "\"" + word + "\"", "byte 4", "0 to 49"});
  }
}

TEST(Tokenizer, decoding_token_by_token_gives_the_same_bytes_as_at_once) {
  for (const auto& tokenizer : {character_tokenizer(mixed, "x"), byte_tokenizer()}) {
    std::string pieces;
    for (const std::int32_t id : tokenizer->encode(mixed, "x")) pieces += decode(*tokenizer, {id});
    EXPECT_EQ(pieces, mixed);
  }
}

TEST(Tokenizer, an_id_out_of_range_is_a_bug) {
  for (const auto& tokenizer :
       {character_tokenizer("ab", "x"), byte_tokenizer(), number_tokenizer(2)}) {
    EXPECT_THROW(decode(*tokenizer, {-1}), InternalError);
    EXPECT_THROW(decode(*tokenizer, {static_cast<std::int32_t>(tokenizer->vocab_size())}),
                 InternalError);
  }
}

TEST(Tokenizer, its_description_makes_the_same_tokenizer_again) {
  const std::string odd = mixed + "\"\\" + std::string(1, '\0') + "\x7F";
  const auto character = character_tokenizer(odd, "x");
  const auto again = tokenizer_from_text(character->to_text(), "tokenizer.json");
  EXPECT_EQ(again->to_text(), character->to_text());
  EXPECT_EQ(again->encode(odd, "x"), character->encode(odd, "x"));
  EXPECT_EQ(tokenizer_from_text(byte_tokenizer()->to_text() + "\n", "f")->vocab_size(), 256);
  EXPECT_EQ(tokenizer_from_text(number_tokenizer(77)->to_text(), "f")->vocab_size(), 77);
}

TEST(Tokenizer, a_description_that_is_not_one_is_an_error_naming_the_file) {
  for (const std::string& text : std::vector<std::string>{
           "", "{}", "[]", "\"byte\"", "{\"tokenizer\":7}", "{\"tokenizer\":\"bpe\"}",
           "{\"tokenizer\":\"character\"}", "{\"tokenizer\":\"character\",\"vocabulary\":\"\"}",
           "{\"tokenizer\":\"character\",\"vocabulary\":\"ba\"}",
           "{\"tokenizer\":\"character\",\"vocabulary\":\"aab\"}",
           "{\"tokenizer\":\"character\",\"vocabulary\":3}", "{\"tokenizer\":\"number\"}",
           "{\"tokenizer\":\"number\",\"vocab_size\":0}",
           "{\"tokenizer\":\"number\",\"vocab_size\":9999999999}", "{\"tokenizer\":\"byte\"} x"}) {
    const auto message =
        user_error(ExitCode::no_checkpoint, [&] { tokenizer_from_text(text, "tokenizer.json"); });
    expect_words(message, {"tokenizer.json"});
  }
}

TEST(Tokenizer, bytes_are_loaded_without_a_file_and_characters_are_not_loaded) {
  EXPECT_EQ(load_tokenizer(TokenizerKind::byte, "")->vocab_size(), 256);
  const auto message = user_error(ExitCode::bad_config,
                                  [] { load_tokenizer(TokenizerKind::character, "text.txt"); });
  expect_words(message, {"char", "byte", "hub"});
}

}  // namespace
}  // namespace fourfold::tokenizer
