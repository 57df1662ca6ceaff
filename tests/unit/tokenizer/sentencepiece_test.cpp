#include "tokenizer/sentencepiece.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/long_run.h"
#include "tokenizer/base64.h"
#include "tokenizer/chunk_cache.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/text_cuts.h"
#include "tokenizer/train_sentencepiece.h"
#include "tokenizer/utf8.h"
#include "unit/data/expect_error.h"
#include "unit/tokenizer/tokenizer_files.h"

namespace fourfold::tokenizer {
namespace {

using Ids = std::vector<std::int32_t>;
const std::vector<std::string> models = {"lossless", "prefix", "collapsing", "unigram",
                                         "rules",    "suffix", "word"};

TEST(SentencePiece, ids_are_those_of_the_python_library) {
  for (const std::string& model : models) {
    const auto tokenizer = load_sentencepiece(model);
    for (const auto& [text, ids] : encoded_texts(model)) {
      EXPECT_EQ(tokenizer->encode(text, "x"), ids) << model << ": " << Json(text).dump();
      EXPECT_EQ(tokenizer->encode(text, "x"), ids) << model << ", cached: " << Json(text).dump();
    }
  }
}

TEST(SentencePiece, decoding_token_by_token_gives_the_same_bytes_as_at_once) {
  for (const std::string& model : models) {
    const auto tokenizer = load_sentencepiece(model);
    for (const auto& [text, ids] : encoded_texts(model)) {
      std::string pieces;
      for (const std::int32_t id : ids) pieces += tokenizer->decode(std::span(&id, 1));
      EXPECT_EQ(pieces, tokenizer->decode(ids));
    }
  }
}

TEST(SentencePiece, texts_come_back_where_the_model_normalises_nothing) {
  const auto lossless = load_sentencepiece("lossless"), prefix = load_sentencepiece("prefix");
  for (const auto& [text, ids] : encoded_texts("lossless")) {
    if (text.find("\u2581") != text.npos) continue;  // the sign by which the format means a space
    EXPECT_EQ(lossless->decode(ids), text);
    if (!text.empty()) {
      EXPECT_EQ(prefix->decode(prefix->encode(text, "x")), " " + text);
    }
  }
}

TEST(SentencePiece, every_code_point_comes_back_but_the_sign_for_spaces) {
  const auto tokenizer = load_sentencepiece("lossless");
  // All of them take minutes under the sanitizers; beyond U+3000 nearly all become bytes.
  const char32_t stride = is_long_run() ? 1 : 13;
  std::string text;
  for (char32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : stride)
    if ((c < 0xD800 || c > 0xDFFF) && c != 0x2581) append_utf8(text, c);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, "x")), text);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\u2581b", "x")), "a b");
}

const std::vector<std::string> odd_parts = {
    " ",  "  ", "the",    "fox",     "\n",          "\u00E9", "\u4F60", "7", "\u2581", "'s", ".",
    "--", "A",  "\u00A0", "e\u0301", "under_score", "\u200B", "learn",  "Z", "\t",     "l"};

/// The model with pieces that forbid every cut in texts of those parts: all pairs of characters,
/// each followed by one that is in no text.
std::string without_cuts(std::string model) {
  std::set<std::string> characters;
  for (std::string_view rest : odd_parts)
    for (; !rest.empty(); rest.remove_prefix(first_code_point(rest)->num_bytes))
      characters.insert(std::string(rest.substr(0, first_code_point(rest)->num_bytes)));
  for (const std::string& left : characters)
    for (const std::string& right : characters) {
      if (left == " " || right == " ") continue;  // U+2581 stands for both
      const std::string text = left + right + '\x02';
      const std::string piece = '\x0A' + std::string(1, static_cast<char>(text.size())) + text;
      model += '\x0A' + std::string(1, static_cast<char>(piece.size())) + piece;
    }
  return model;
}

TEST(SentencePiece, cutting_a_text_changes_no_id) {
  std::mt19937 random(5);
  for (const std::string& name : models) {
    const std::string model = read_file(tokenizer_file(name + ".model"));
    const std::string whole_model = without_cuts(model);
    const TextCuts cuts(read_sentencepiece_model(model, name, ExitCode::bad_data));
    const TextCuts no_cuts(read_sentencepiece_model(whole_model, name, ExitCode::bad_data));
    const auto tokenizer = sentencepiece_tokenizer(model, name);
    const auto whole = sentencepiece_tokenizer(whole_model, name);
    std::size_t num_cut = 0;
    for (int round = 0; round < 1000; ++round) {
      std::string text;
      const std::size_t count = random() % 20;
      for (std::size_t i = 0; i < count; ++i) text += odd_parts[random() % odd_parts.size()];
      EXPECT_EQ(tokenizer->encode(text, "x"), whole->encode(text, "x"))
          << name << ": " << Json(text).dump();
      EXPECT_EQ(no_cuts.next(text, 1, no_cuts.limit(text)), text.size());
      if (cuts.next(text, 1, cuts.limit(text)) < text.size()) ++num_cut;
    }
    // Spaces after words, and words that are looked up whole, leave no place.
    const bool has_cuts = name != "suffix" && name != "word";
    EXPECT_EQ(num_cut > 200, has_cuts) << name << ": " << num_cut;
  }
}

TEST(SentencePiece, text_that_is_not_utf8_is_an_error_with_its_place) {
  const auto tokenizer = load_sentencepiece("lossless");
  for (const std::size_t at : {0U, 5U, 11U}) {
    std::string text = "hello world";
    text.insert(at, "\xC3\x28");
    const auto message =
        user_error(ExitCode::bad_data, [&] { tokenizer->encode(text, "corpus.txt"); });
    expect_words(message, {"corpus.txt", "byte " + std::to_string(at), "0xc3", "gpt2"});
  }
}

TEST(SentencePiece, end_of_document_is_that_of_the_model) {
  EXPECT_EQ(load_sentencepiece("lossless")->end_of_document(), 1);
  EXPECT_EQ(load_sentencepiece("prefix")->end_of_document(), 2);
  EXPECT_EQ(load_sentencepiece("lossless")->decode(Ids{1}), "");
}

TEST(SentencePiece, its_description_makes_the_same_tokenizer_again) {
  const auto tokenizer = load_sentencepiece("prefix");
  const auto again = tokenizer_from_text(tokenizer->to_text(), "tokenizer.json");
  EXPECT_EQ(again->to_text(), tokenizer->to_text());
  EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
  EXPECT_NE(again->fingerprint(), load_sentencepiece("lossless")->fingerprint());
  for (const std::string text :
       {R"({"tokenizer":"sentencepiece"})", R"({"tokenizer":"sentencepiece","model":"?"})",
        R"({"tokenizer":"sentencepiece","model":"AAAA"})",
        R"({"tokenizer":"gpt2","vocabulary":["a"],"merges":[]})",
        R"({"tokenizer":"gpt2","vocabulary":["a",3],"merges":[]})", R"({"tokenizer":"gpt2"})"}) {
    expect_words(user_error(ExitCode::no_checkpoint, [&] { tokenizer_from_text(text, "t.json"); }),
                 {"t.json"});
  }
}

LineSample lines_of(const std::string& text) {
  LineSample lines(1 << 20, most_sentencepiece_line);
  lines.add(text, "x");
  lines.finish();
  return lines;
}

TEST(TrainSentencePiece, the_model_gives_every_text_back_and_the_same_lines_give_the_same_bytes) {
  std::string text;
  for (const auto& row : encoded_texts("lossless")) text += row.text + "\n";
  const SentencePieceSpec spec{.vocab_size = 400, .coverage = 0.99, .threads = 1};
  LineSample lines = lines_of(text), again = lines_of(text);
  const TrainedSentencePiece trained = train_sentencepiece(spec, lines);
  EXPECT_EQ(train_sentencepiece(spec, again).model, trained.model);
  const auto tokenizer = sentencepiece_tokenizer(trained.model, "trained");
  EXPECT_EQ(tokenizer->vocab_size(), trained.vocab_size);
  EXPECT_LE(trained.vocab_size, 400);
  EXPECT_EQ(tokenizer->end_of_document(), 1);
  for (const auto& row : encoded_texts("lossless")) {
    const auto ids = tokenizer->encode(row.text, "x");
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 0), 0) << "no text gets the unknown piece";
    if (row.text.find("\u2581") == row.text.npos) {
      EXPECT_EQ(tokenizer->decode(ids), row.text);
    }
  }
}

TEST(TrainSentencePiece, fewer_tokens_than_asked_for_are_told) {
  LineSample lines = lines_of("ab ab ab\n");
  const auto trained =
      train_sentencepiece({.vocab_size = 1000, .coverage = 1, .threads = 1}, lines);
  EXPECT_LT(trained.vocab_size, 270);
  EXPECT_EQ(sentencepiece_tokenizer(trained.model, "x")->vocab_size(), trained.vocab_size);
}

/// The library leaves out every line with the character that it reserves, without a word.
TEST(TrainSentencePiece, learns_from_lines_with_the_reserved_character_and_counts_them) {
  const std::string reserved = "\xE2\x96\x85";
  const auto learn = [](const std::string& line) {
    LineSample lines(1 << 20, most_sentencepiece_line);
    for (int i = 0; i < 300; ++i) {
      lines.add("the cat sat on a mat\n", "a");
      lines.add(line + "\n", "a");
    }
    lines.finish();
    return train_sentencepiece({.vocab_size = 400, .coverage = 1, .threads = 1}, lines);
  };
  const TrainedSentencePiece plain = learn("zebrazebra zebra  zebra");
  EXPECT_EQ(plain.reserved_lines, 0);
  for (const std::string& line :
       {"zebrazebra zebra " + reserved + " zebra", reserved + "zebrazebra zebra" + reserved,
        reserved + reserved + "zebra zebrazebra"}) {
    const TrainedSentencePiece trained = learn(line);
    EXPECT_EQ(trained.reserved_lines, 300) << line;
    EXPECT_NE(trained.model.find("zebra"), std::string::npos) << line;
    EXPECT_EQ(trained.model.find(reserved), std::string::npos) << line;
  }
  EXPECT_EQ(learn(reserved).reserved_lines, 300);
}

TEST(TrainSentencePiece, no_lines_and_too_small_vocabularies_are_errors) {
  LineSample none = lines_of("\n\n");
  expect_words(user_error(ExitCode::bad_data, [&] { train_sentencepiece({}, none); }),
               {"no lines"});
  LineSample many = lines_of("abcdefghijklmnopqrstuvwxyz");
  const SentencePieceSpec spec{.vocab_size = 260, .coverage = 1, .threads = 1};
  const auto message = user_error(ExitCode::bad_config, [&] { train_sentencepiece(spec, many); });
  expect_words(message, {"260", "--vocab-size", "--coverage"});
}

TEST(Base64, bytes_of_every_length_come_back) {
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");  // RFC 4648, section 10
  EXPECT_EQ(to_base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(to_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(to_base64(""), "");
  std::string bytes;
  for (int size = 0; size < 300; ++size) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    bytes.push_back(static_cast<char>(size * 7));
  }
  for (const std::string text : {"Zm9", "====", "Z===", "Zm9v=m9v", "Zm9vYh==", "Zm9\n"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

TEST(ChunkCache, holds_short_pieces_and_only_what_it_was_given) {
  ChunkCache cache;
  const Ids ids = {5, 6, 7};
  cache.keep("word", ids);
  ASSERT_TRUE(cache.find("word").has_value());
  EXPECT_EQ(Ids(cache.find("word")->begin(), cache.find("word")->end()), ids);
  EXPECT_FALSE(cache.find("wor").has_value());
  EXPECT_FALSE(cache.find("").has_value());
  cache.keep("", ids);
  EXPECT_FALSE(cache.find("").has_value());
  const std::string longest(ChunkCache::most_bytes, 'x');
  cache.keep(longest, ids);
  cache.keep(longest + "x", ids);
  EXPECT_TRUE(cache.find(longest).has_value());
  EXPECT_FALSE(cache.find(longest + "x").has_value());
  cache.keep("many", Ids(ChunkCache::most_ids + 1, 1));
  EXPECT_FALSE(cache.find("many").has_value());
  for (int i = 0; i < 200'000; ++i) cache.keep(std::to_string(i), Ids{i});
  for (int i = 0; i < 200'000; ++i)
    if (const auto found = cache.find(std::to_string(i))) {
      ASSERT_EQ(found->front(), i);
    }
}

}  // namespace
}  // namespace fourfold::tokenizer
