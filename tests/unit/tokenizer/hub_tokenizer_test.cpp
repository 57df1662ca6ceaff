// Tokenizers of the hub against the ids of the library tokenizers. Files that there is no tokenizer
// for: hub_file_test.cpp.
#include "tokenizer/hub_tokenizer.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/tokenizer_json.h"
#include "unit/data/expect_error.h"
#include "unit/tokenizer/hub_files.h"
#include "unit/tokenizer/tokenizer_files.h"

namespace fourfold::tokenizer::hub_tokenizer_test {
namespace {

using Ids = std::vector<std::int32_t>;

Ids after(const Ids& ids, std::size_t count) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end()};
}

TEST(HubTokenizer, gives_the_ids_of_the_library_and_the_text_comes_back) {
  for (const std::string kind : hub_kinds) {
    SCOPED_TRACE(kind);
    const auto tokenizer = load_hub_file(kind);
    if (!tokenizer) continue;
    EXPECT_EQ(tokenizer->name(), "hub");
    const std::size_t before = tokenizer->encode("", "t").size();
    for (const HubText& one : hub_texts(kind)) {
      const Ids ids = tokenizer->encode(one.text, "t");
      EXPECT_EQ(ids, one.ids) << one.text;
      if (!one.comes_back) continue;
      // The space that some put before a text comes back with it.
      const std::string back = tokenizer->decode(after(ids, before));
      EXPECT_TRUE(back == one.text || back == " " + one.text) << one.text << "\n" << back;
    }
  }
}

TEST(HubTokenizer, reads_back_from_its_description_and_is_written_as_it_was_read) {
  for (const std::string kind : hub_kinds) {
    SCOPED_TRACE(kind);
    const auto roles = [](const std::vector<std::string>& texts) {
      EXPECT_GT(texts.size(), 300U);
      return HubRoles{{2, 0}, 1};
    };
    const ReadTokenizer read = read_tokenizer_json(hub_file_text(kind), "t", roles);
    if (!read.tokenizer) continue;  // load_hub_file says why
    EXPECT_EQ(read.tokenizer->ends_of_text(), (Ids{2, 0}));
    EXPECT_EQ(read.tokenizer->end_of_document(), 2);
    EXPECT_EQ(read.tokenizer->begin_of_text(), 1);
    const std::string text = read.tokenizer->to_text();
    const auto again = tokenizer_from_text(text, "tokenizer.json");
    EXPECT_EQ(again->to_text(), text);
    EXPECT_EQ(again->ends_of_text(), (Ids{2, 0}));
    EXPECT_EQ(again->begin_of_text(), 1);
    const WrittenTokenizer written = write_tokenizer_json(text);
    EXPECT_EQ(parse_json(written.text, "written"), parse_json(hub_file_text(kind), "read"));
    ASSERT_EQ(written.roles.size(), 2U);
    EXPECT_EQ(written.roles[0].first, "eos_token");
  }
}

TEST(HubTokenizer, a_description_that_is_none_is_refused) {
  const std::string file = parse_json(hub_file_text("gpt2"), "t").dump();
  for (const std::string& words :
       {std::string(R"("ends":[])"), R"("ends":5,"file":)" + file, R"("ends":[-1],"file":)" + file,
        R"("ends":[100000],"file":)" + file, R"("ends":[],"begin":"x","file":)" + file,
        R"("ends":[],"begin":100000,"file":)" + file,
        std::string(R"("ends":[],"file":{"model":{"type":"WordPiece"}})")})
    expect_words(
        user_error(
            ExitCode::no_checkpoint,
            [&] { tokenizer_from_text(R"({"tokenizer":"hub",)" + words + "}", "tokenizer.json"); }),
        {"tokenizer.json"});
}

/// Texts of pieces at which tokenizers cut, or do not.
std::string odd_text(std::mt19937& source) {
  static const char* const pieces[] = {" ",      "  ",     "\n",      "\n\n",         "a",
                                       "the",    " quick", "'s",      "12",           "345 ",
                                       "!",      "\u00e9", "e\u0301", "\u4f60\u597d", "\u2581",
                                       "<mask>", "<s>",    "learner", "\u00a0",       "<|im_end|>",
                                       ".\n",    " fox",   "\t",      "\U0001f600",   "don't"};
  std::string text;
  const std::size_t count = 1 + source() % 30;
  for (std::size_t i = 0; i < count; ++i) text += pieces[source() % std::size(pieces)];
  return text;
}

TEST(HubTokenizer, a_document_in_pieces_has_the_ids_of_the_whole) {
  std::mt19937 source(7);
  for (const std::string kind : hub_kinds) {
    SCOPED_TRACE(kind);
    const auto tokenizer = load_hub_file(kind);
    if (!tokenizer) continue;
    std::size_t cuts = 0;
    for (int round = 0; round < 300; ++round) {
      const std::string text = odd_text(source);
      const Ids whole = tokenizer->encode(text, "t");
      // Only what has arrived is known where the cut is chosen.
      const std::size_t arrived = 1 + source() % text.size();
      const std::size_t cut = tokenizer->last_cut(std::string_view(text).substr(0, arrived));
      ASSERT_LT(cut, arrived);
      if (cut == 0) continue;
      ++cuts;
      Ids parts = tokenizer->encode(text.substr(0, cut), "t");
      const Ids rest = tokenizer->encode_rest(text.substr(cut), "t");
      parts.insert(parts.end(), rest.begin(), rest.end());
      EXPECT_EQ(parts, whole) << json_quoted(text) << " at " << cut;
    }
    EXPECT_GT(cuts, 50U) << "texts can be cut";
  }
}

TEST(HubTokenizer, a_document_is_not_cut_within_the_white_space_that_a_token_takes) {
  Json file = parse_json(hub_file_text("mistral"), "t"), list = *file.find("added_tokens");
  list.push(Json::object()
                .set("id", std::ssize(file.find("model")->find("vocab")->members()))
                .set("content", "<mask>")
                .set("lstrip", true)
                .set("special", true));
  const ReadTokenizer read =
      read_tokenizer_json(file.set("added_tokens", list).dump(), "tokenizer.json");
  ASSERT_NE(read.tokenizer, nullptr) << read.reason;
  EXPECT_EQ(read.tokenizer->last_cut("the fox\n\n  "), 3U);
  EXPECT_EQ(load_hub_file("mistral")->last_cut("the fox\n\n  "), 9U);
}

TEST(HubTokenizer, every_byte_comes_back_and_bytes_that_are_no_text_have_tokens) {
  for (const std::string kind : hub_kinds) {
    SCOPED_TRACE(kind);
    const auto tokenizer = load_hub_file(kind);
    if (!tokenizer) continue;
    const std::size_t before = tokenizer->encode("", "t").size();
    for (const std::string& text : {std::string("a\xFF\x80!b \xE2\x82 c"), std::string("\xC0"),
                                    std::string("x\0y\xF5 z", 6), std::string("\xE2\x82")}) {
      const std::string back = tokenizer->decode(after(tokenizer->encode(text, "t"), before));
      EXPECT_TRUE(back == text || back == " " + text) << json_quoted(back);
    }
  }
}

TEST(HubTokenizer, an_expression_that_takes_too_long_is_an_error_with_its_place) {
  if (!has_expressions()) GTEST_SKIP() << "without PCRE2";
  const Json changed = with_expression(R"((?:a|aa|aaa)+(?:a|aa)+\z)");
  const ReadTokenizer read = read_tokenizer_json(changed.dump(), "tokenizer.json");
  ASSERT_NE(read.tokenizer, nullptr) << read.reason;
  const std::string text = std::string(200, 'a') + "b";
  expect_words(user_error(ExitCode::bad_data, [&] { read.tokenizer->encode(text, "the text"); }),
               {"the text", "1,000,000 steps"});
}

TEST(HubTokenizer, text_that_a_vocabulary_cannot_spell_is_an_error) {
  const Json file = parse_json(hub_file_text("gpt2"), "t");
  Json tokens = Json::object();
  for (const Json::Member& token : file.find("model")->find("vocab")->members())
    tokens.set(token.key == "Z" ? "<hole>" : token.key, token.value);
  const ReadTokenizer read =
      read_tokenizer_json(with(file, {"model", "vocab"}, tokens).dump(), "tokenizer.json");
  ASSERT_NE(read.tokenizer, nullptr) << read.reason;
  EXPECT_EQ(read.tokenizer->decode(read.tokenizer->encode("the fox", "t")), "the fox");
  expect_words(user_error(ExitCode::bad_data, [&] { read.tokenizer->encode("A Z", "notes.txt"); }),
               {"notes.txt", "Z", "has no token"});
}

TEST(HubTokenizer, tokens_after_a_text_are_known_apart) {
  Json file = parse_json(hub_file_text("smollm"), "t");
  const Json text = Json::object().set("Sequence", Json::object().set("id", "A")),
             end = Json::object().set("SpecialToken", Json::object().set("id", "<|im_end|>"));
  file.set("post_processor",
           Json::object()
               .set("type", "TemplateProcessing")
               .set("single", Json::array({text, end}))
               .set("special_tokens",
                    Json::object().set("<|im_end|>", Json::object().set("ids", Json::array({2})))));
  const ReadTokenizer read = read_tokenizer_json(file.dump(), "tokenizer.json");
  ASSERT_NE(read.tokenizer, nullptr) << read.reason;
  EXPECT_EQ(read.tokenizer->closing_tokens(), Ids{2});
  EXPECT_EQ(read.tokenizer->encode("", "t"), Ids{});
}

}  // namespace
}  // namespace fourfold::tokenizer::hub_tokenizer_test
