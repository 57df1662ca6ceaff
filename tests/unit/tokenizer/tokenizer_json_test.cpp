#include "tokenizer/tokenizer_json.h"

#include <gtest/gtest.h>

#include "base/format.h"
#include "base/json.h"
#include "tokenizer/piece_merges.h"
#include "unit/data/expect_error.h"
#include "unit/tokenizer/tokenizer_files.h"

namespace fourfold::tokenizer::tokenizer_json_test {
namespace {

using Ids = std::vector<std::int32_t>;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

ReadTokenizer read(const std::string& text) {
  return read_tokenizer_json(text, "tokenizer.json");
}

TEST(TokenizerJson, what_is_written_is_read_with_the_same_ids) {
  for (const char* name : {"lossless", "unigram", "rules", "collapsing"}) {
    const auto tokenizer = load_sentencepiece(name);
    const WrittenTokenizer written = write_tokenizer_json(tokenizer->to_text());
    ASSERT_EQ(written.reason, "") << name;
    const ReadTokenizer again = read(written.text);
    ASSERT_NE(again.tokenizer, nullptr) << again.reason;
    EXPECT_EQ(again.tokenizer->end_of_document(), tokenizer->end_of_document());
    EXPECT_EQ(write_tokenizer_json(again.tokenizer->to_text()).text, written.text) << name;
    for (const EncodedText& one : encoded_texts(name))
      EXPECT_EQ(again.tokenizer->encode(one.text, "t"), one.ids) << name << ": " << one.text;
  }
  const auto gpt2 = load_small_gpt2(), bytes = byte_tokenizer(),
             characters = character_tokenizer("a\u00E9\n\u4E2D", "t");
  for (const Tokenizer* tokenizer : {gpt2.get(), bytes.get(), characters.get()}) {
    const ReadTokenizer again = read(write_tokenizer_json(tokenizer->to_text()).text);
    ASSERT_NE(again.tokenizer, nullptr) << again.reason;
    EXPECT_EQ(again.tokenizer->to_text(), tokenizer->to_text());
    EXPECT_EQ(again.tokenizer->name(), tokenizer->name());
  }
}

TEST(TokenizerJson,
     a_tokenizer_that_would_give_other_ids_there_is_not_written_and_the_reason_is_said) {
  for (const auto& [name, words] :
       {std::pair{"prefix", "user-defined or unused"}, std::pair{"suffix", "stand behind words"},
        std::pair{"word", "of words or characters"}}) {
    const WrittenTokenizer written = write_tokenizer_json(load_sentencepiece(name)->to_text());
    EXPECT_EQ(written.text, "");
    EXPECT_NE(written.reason.find(words), std::string::npos) << written.reason;
  }
  EXPECT_NE(write_tokenizer_json(number_tokenizer(5)->to_text()).reason.find("numbers"),
            std::string::npos);
}

TEST(TokenizerJson, a_tokenizer_that_there_is_not_here_is_refused_with_its_reason) {
  const std::string gpt2 = write_tokenizer_json(load_small_gpt2()->to_text()).text,
                    pieces = write_tokenizer_json(load_sentencepiece("lossless")->to_text()).text,
                    unigram = write_tokenizer_json(load_sentencepiece("unigram")->to_text()).text;
  struct Case {
    std::string text, expected;
  };
  for (const Case& c : std::vector<Case>{
           {replaced(gpt2, "\"BPE\"", "\"WordPiece\""), "its model is WordPiece"},
           {replaced(gpt2, "\"dropout\":null", "\"dropout\":0.1"), "at random"},
           {replaced(gpt2, "\"normalizer\":null", R"("normalizer":{"type":"Lowercase"})"),
            "normalizer: Lowercase"},
           {replaced(gpt2, "\"type\":\"ByteLevel\"", "\"type\":\"Whitespace\""),
            "pre_tokenizer: Whitespace"},
           {replaced(pieces, R"("type":"Replace")", R"("type":"NFKC")"),
            "normalizer.normalizers[0]: NFKC"},
           {replaced(unigram, "\"pre_tokenizer\":null", R"("pre_tokenizer":{"type":"Metaspace"})"),
            "Metaspace"},
           {replaced(unigram, "\"unk_id\":0", "\"unk_id\":null"), "unk_id"}}) {
    const ReadTokenizer result = read(c.text);
    EXPECT_EQ(result.tokenizer, nullptr) << c.expected;
    EXPECT_NE(result.reason.find(c.expected), std::string::npos)
        << c.expected << ": " << result.reason;
  }
}

TEST(TokenizerJson, files_that_contradict_themselves_are_errors_with_their_place) {
  const std::string gpt2 = write_tokenizer_json(load_small_gpt2()->to_text()).text;
  for (const std::string& text :
       {std::string("[]"), std::string("{}"), std::string("{\"model\":3}"), gpt2.substr(0, 500),
        replaced(gpt2, "\"merges\":[[", "\"merges\":[[3],["),
        replaced(gpt2, "\"added_tokens\":[{\"id\":", "\"added_tokens\":[{\"number\":")})
    expect_words(user_error(ExitCode::bad_data, [&] { read(text); }), {"tokenizer.json"});
}

TEST(TokenizerJson, merges_may_be_single_texts_and_added_tokens_may_stand_beside_the_vocabulary) {
  const auto gpt2 = load_small_gpt2();
  const auto size = gpt2->vocab_size();
  const Json written = parse_json(write_tokenizer_json(gpt2->to_text()).text, "written");
  Json merges = Json::array(), changed = written, model = *written.find("model");
  for (const Json& merge : model.find("merges")->items())
    merges.push(merge.items()[0].as_string() + " " + merge.items()[1].as_string());
  std::string text = changed.set("model", model.set("merges", merges)).dump();
  text = replaced(
      text, "\"added_tokens\":[",
      format("\"added_tokens\":[{{\"id\":{},\"content\":\"<pad me>\",\"special\":true}},", size));
  const ReadTokenizer result = read(text);
  ASSERT_NE(result.tokenizer, nullptr) << result.reason;
  EXPECT_EQ(result.tokenizer->vocab_size(), size + 1);
  EXPECT_EQ(result.tokenizer->decode(Ids{static_cast<std::int32_t>(size)}), "<pad me>");
  Ids expected = gpt2->encode("The fox ", "t");
  expected.push_back(static_cast<std::int32_t>(size));
  EXPECT_EQ(result.tokenizer->encode("The fox <pad me>", "t"), expected);
  EXPECT_TRUE(result.notes.empty());
}

TEST(PieceMerges, are_all_cuts_of_a_piece_in_two_the_best_piece_first) {
  const std::vector<ScoredPiece> pieces = {
      {"a", -9}, {"b", -9}, {"ab", -2}, {"ba", -1}, {"aba", -3}};
  EXPECT_EQ(merges_of_pieces(pieces),
            (std::vector<PieceMerge>{{"b", "a"}, {"a", "b"}, {"a", "ba"}, {"ab", "a"}}));
}

}  // namespace
}  // namespace fourfold::tokenizer::tokenizer_json_test
