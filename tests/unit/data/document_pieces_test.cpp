// A document that is encoded in pieces has the ids of the whole, wherever the pieces are cut.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "data/megatron_set.h"
#include "data/tokenize.h"
#include "tokenizer/gpt2_chunks.h"
#include "unit/data/expect_error.h"
#include "unit/data/token_files.h"
#include "unit/tokenizer/tokenizer_files.h"

namespace fourfold::data {
namespace {

using Ids = std::vector<std::int32_t>;

const std::vector<std::string> parts = {
    " ",      "  ",           "the",    "fox", "\n", "\n\n", "\u00E9", "\u4F60", "7",
    "42",     "\u2581",       "'s",     "'",   "re", "ve",   ".",      "--",     "A",
    "\u00A0", "e\u0301",      "\u3000", "l",   "Z",  "\t",   "\r\n",   "learn",  "s",
    " ' ",    "under_score ", "\u200B"};

struct Named {
  std::string name;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  bool has_cuts = true;  // in texts of those parts
};
std::vector<Named> all_tokenizers() {
  std::vector<Named> list;
  for (const char* name : {"lossless", "prefix", "collapsing", "unigram", "rules"})
    list.push_back({name, tokenizer::load_sentencepiece(name)});
  for (const char* name : {"suffix", "word"})
    list.push_back({name, tokenizer::load_sentencepiece(name), false});
  list.push_back({"gpt2", tokenizer::load_small_gpt2()});
  list.push_back({"byte", tokenizer::byte_tokenizer()});
  std::string all;
  for (const std::string& part : parts) all += part;
  list.push_back({"char", tokenizer::character_tokenizer(all, "x")});
  return list;
}

std::string random_text(std::mt19937& random, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += parts[random() % parts.size()];
  return text;
}

/// Encoded in pieces, each cut where the tokenizer says once it has seen `seen` bytes of it.
Ids encode_in_pieces(const tokenizer::Tokenizer& tokenizer, std::string_view text, std::size_t seen,
                     int& num_cuts) {
  Ids ids;
  for (bool is_first = true;; is_first = false) {
    const std::size_t cut = text.size() <= seen ? 0 : tokenizer.last_cut(text.substr(0, seen));
    EXPECT_LT(cut, std::max<std::size_t>(text.size(), 1));
    const std::string_view piece = cut == 0 ? text : text.substr(0, cut);
    const Ids own = is_first ? tokenizer.encode(piece, "x") : tokenizer.encode_rest(piece, "x");
    ids.insert(ids.end(), own.begin(), own.end());
    if (cut == 0) return ids;
    ++num_cuts;
    text.remove_prefix(cut);
  }
}

TEST(DocumentPieces, have_the_ids_of_the_whole_wherever_the_text_is_cut) {
  for (const Named& named : all_tokenizers()) {
    std::mt19937 random(11);
    int num_cuts = 0;
    for (int round = 0; round < 1500; ++round) {
      const std::string text = random_text(random, random() % 90);
      const std::size_t seen = 1 + random() % 60;
      EXPECT_EQ(encode_in_pieces(*named.tokenizer, text, seen, num_cuts),
                named.tokenizer->encode(text, "x"))
          << named.name << " after " << seen << ": " << Json(text).dump();
      if (HasFailure()) return;
    }
    // Blocks of a unigram model are longer.
    EXPECT_EQ(num_cuts > 500, named.has_cuts && named.name != "unigram") << named.name;
  }
}

TEST(DocumentPieces, of_a_unigram_model_are_its_blocks) {
  const auto tokenizer = tokenizer::load_sentencepiece("unigram");
  std::mt19937 random(12);
  const std::string text = random_text(random, 200'000);
  int num_cuts = 0;
  EXPECT_EQ(encode_in_pieces(*tokenizer, text, 50'000, num_cuts), tokenizer->encode(text, "x"));
  EXPECT_GE(num_cuts, 3);
}

TEST(Gpt2Chunks, a_cut_never_lies_where_what_follows_decides) {
  for (const char* text :
       {"", "a", "a '", "'s", "x'", "x're", " ", "\n", "\n\n", "   a", "!'l", "''"})
    EXPECT_EQ(tokenizer::last_gpt2_cut(text), std::string(text) == "a '"    ? 1U
                                              : std::string(text) == "x'"   ? 1U
                                              : std::string(text) == "x're" ? 1U
                                                                            : 0U)
        << text;
  EXPECT_EQ(tokenizer::last_gpt2_cut("one two"), 3U);
  EXPECT_EQ(tokenizer::last_gpt2_cut("one two  "), 7U);
  EXPECT_EQ(tokenizer::last_gpt2_cut("a1b"), 2U);
  EXPECT_EQ(tokenizer::last_gpt2_cut("\u4F60 \xE4\xBD"), 3U) << "the last character is not whole";
  EXPECT_EQ(tokenizer::last_gpt2_cut("ab\xFF"), 0U) << "what is no text is not looked at";
}

class LongDocument : public DataFolderTest {
 protected:
  Ids tokenized(const tokenizer::Tokenizer& tokenizer) {
    TokenizeOptions options;
    options.inputs = {path("long.txt")};
    options.prefix = path("set");
    options.overwrite = true;
    options.jobs = 2;
    const TokenizeResult result =
        tokenize(real_files(), options, tokenizer, [](const TokenizeProgress&) {});
    EXPECT_EQ(result.documents, 1);
    Ids ids(static_cast<std::size_t>(result.tokens));
    EXPECT_FALSE(MegatronSet(path("set")).read(0, tokenizer.vocab_size(), ids).has_value());
    return ids;
  }
};

TEST_F(LongDocument, of_more_than_a_megabyte_has_the_ids_of_the_whole) {
  std::mt19937 random(13);
  std::string text;
  // Lines that begin with white space: after a line break GPT-2 and the models with a prefix see a
  // cut.
  while (text.size() < 1'200'000) text += random_text(random, 60) + "\n   ";
  write_bytes(path("long.txt"), text);
  for (const char* name : {"prefix", "unigram"}) {
    const auto tokenizer = tokenizer::load_sentencepiece(name);
    EXPECT_TRUE(tokenized(*tokenizer) == tokenizer->encode(text, "x")) << name;
  }
  const auto tokenizer = tokenizer::load_small_gpt2();
  EXPECT_TRUE(tokenized(*tokenizer) == tokenizer->encode(text, "x")) << "gpt2";
}

TEST_F(LongDocument, without_a_place_to_cut_is_read_on) {
  const std::string text(3'000'000, 'l');
  write_bytes(path("long.txt"), text);
  const auto tokenizer = tokenizer::load_small_gpt2();
  EXPECT_TRUE(tokenized(*tokenizer) == tokenizer->encode(text, "x"));
}

}  // namespace
}  // namespace fourfold::data
