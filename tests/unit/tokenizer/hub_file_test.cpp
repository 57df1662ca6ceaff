#include "tokenizer/hub_file.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "unit/data/expect_error.h"
#include "unit/tokenizer/hub_files.h"

namespace fourfold::tokenizer::hub_file_test {
namespace {

using Keys = std::vector<std::string>;

Json file_of(const std::string& kind) {
  return parse_json(hub_file_text(kind), kind);
}

Json typed(const char* type) {
  return Json::object().set("type", type);
}

Json added(std::int64_t id, const std::string& content) {
  return Json::object().set("id", id).set("content", content).set("special", true);
}

/// One change of a file, and what is said of it.
struct Change {
  Json file;
  std::string expected;
};

TEST(HubFile, what_is_not_known_here_is_a_reason_with_its_part) {
  const Json gpt2 = file_of("gpt2"), llama2 = file_of("llama2"), llama3 = file_of("llama3");
  const Json *vocabulary = gpt2.find("model")->find("vocab"), *list = gpt2.find("added_tokens");
  const auto next = std::ssize(vocabulary->members());
  Json far = *list;
  far.push(added(next + 3, "<far>"));
  Json word = *list;
  word.push(added(next, "<word>").set("single_word", true));
  const Json replace = typed("Replace").set("pattern", Json::object().set("Regex", "a+"));
  const Json removed = typed("Split").set("pattern", Json::object().set("String", "-"));
  const Json late =
      typed("Sequence").set("pretokenizers", Json::array({typed("ByteLevel"), typed("Digits")}));
  const Json twice =
      typed("Sequence")
          .set("processors",
               Json::array({*llama2.find("post_processor"), *llama2.find("post_processor")}));
  const Json no_text = with(llama2, {"post_processor", "single"}, Json::array());
  Json no_byte = llama2;
  {
    Json tokens = Json::object();
    for (const Json::Member& token : llama2.find("model")->find("vocab")->members())
      tokens.set(token.key == "<0x41>" ? "<other>" : token.key, token.value);
    no_byte = with(llama2, {"model", "vocab"}, tokens);
  }
  const Json no_bytes = with(llama2, {"model", "byte_fallback"}, false);
  const std::vector<Change> changes = {
      {with(gpt2, {"model", "type"}, "WordPiece"), "model: it is WordPiece"},
      {with(gpt2, {"model", "type"}, Json()), "model: it is of no type"},
      {with(gpt2, {"model", "dropout"}, 0.1), "model.dropout: merges are left out at random"},
      {with(gpt2, {"model", "continuing_subword_prefix"}, "##"), "model.continuing_subword_prefix"},
      {with(gpt2, {"model", "end_of_word_suffix"}, "</w>"), "model.end_of_word_suffix"},
      {with(gpt2, {"added_tokens"}, far), "its ids have gaps"},
      {with(gpt2, {"added_tokens"}, word), "\"<word>\" is found as a whole word alone"},
      {with(gpt2, {"normalizer"}, typed("Lowercase")), "normalizer: Lowercase is not known here"},
      {with(gpt2, {"normalizer"}, Json::object()), "normalizer: no type is not known here"},
      {with(gpt2, {"normalizer"},
            typed("Sequence").set("normalizers", Json::array({typed("StripAccents")}))),
       "normalizer.normalizers[0]: StripAccents is not known here"},
      {with(gpt2, {"normalizer"}, replace), "normalizer: it replaces what an expression finds"},
      {with(gpt2, {"normalizer"}, typed("Replace")), "normalizer: its pattern is empty"},
      {with(gpt2, {"pre_tokenizer"}, typed("Whitespace")),
       "pre_tokenizer: Whitespace is not known here"},
      {with(gpt2, {"pre_tokenizer"}, late),
       "pre_tokenizer.pretokenizers[1]: it comes after ByteLevel"},
      {with(gpt2, {"pre_tokenizer"}, with(removed, {"behavior"}, "Sometimes")),
       "pre_tokenizer: the behavior Sometimes is not known here"},
      {with_expression("[a[bc]]"), "a class stands within a class (byte 2)"},
      {with(gpt2, {"pre_tokenizer"}, typed("Metaspace").set("replacement", "_")),
       "pre_tokenizer: spaces become another sign than U+2581"},
      {with(gpt2, {"pre_tokenizer"},
            typed("Metaspace").set("replacement", "\u2581").set("prepend_scheme", "last")),
       "pre_tokenizer: the prepend_scheme last is not known here"},
      {with(gpt2, {"post_processor"}, typed("BertProcessing")),
       "post_processor: BertProcessing is not known here"},
      {with(gpt2, {"post_processor"}, twice), "post_processor.processors[1]: a second template"},
      {no_text, "post_processor: it has no text"},
      {with(llama2, {"post_processor", "single"}, Json::array({Json::object()})),
       "post_processor: its text comes twice, or is none"},
      {with(llama2, {"model", "ignore_merges"}, true), "model.ignore_merges: there are no words"},
      {no_byte, "model.byte_fallback: there is no token <0x41>"},
      {with(no_bytes, {"model", "unk_token"}, Json()), "model.unk_token: a character without"}};
  EXPECT_GE(changes.size(), 20U);
  for (const Change& change : changes) {
    const auto read = read_hub_file(change.file, "tokenizer.json");
    const auto* reason = std::get_if<std::string>(&read);
    ASSERT_NE(reason, nullptr) << change.expected;
    EXPECT_NE(reason->find(change.expected), std::string::npos)
        << change.expected << ": " << *reason;
  }
}

TEST(HubFile, an_expression_that_pcre2_refuses_is_a_reason) {
  const auto read = read_hub_file(with_expression("a(b"), "tokenizer.json");
  const auto* reason = std::get_if<std::string>(&read);
  ASSERT_NE(reason, nullptr);
  EXPECT_NE(reason->find(has_expressions() ? "PCRE2 refuses it at byte 3" : "has no PCRE2"),
            std::string::npos)
      << *reason;
}

TEST(HubFile, what_contradicts_itself_is_an_error_with_its_part) {
  const Json gpt2 = file_of("gpt2"), llama2 = file_of("llama2");
  const auto next = std::ssize(gpt2.find("model")->find("vocab")->members());
  const auto with_merge = [&](Json merge) {
    Json merges = *gpt2.find("model")->find("merges");
    return with(gpt2, {"model", "merges"}, merges.push(std::move(merge)));
  };
  const auto with_token = [&](Json token) {
    Json list = *gpt2.find("added_tokens");
    return with(gpt2, {"added_tokens"}, list.push(std::move(token)));
  };
  const Json& first_merge = gpt2.find("model")->find("merges")->items().front();
  const Keys template_ids = {"post_processor", "special_tokens", "<s>", "ids"};
  const std::vector<Change> changes = {
      {with(gpt2, {"model"}, 3), "model: there is none"},
      {with(gpt2, {"model", "vocab"}, Json::array()), "model.vocab: is no object"},
      {with(gpt2, {"model", "vocab", "th"}, "x"), "the id of \"th\" is no whole number"},
      {with(gpt2, {"model", "vocab", "!"}, -1), "\"!\" has the id -1"},
      {with(gpt2, {"model", "vocab", "!"}, std::int64_t{1} << 40), "expected 0 to 16777215"},
      {with(gpt2, {"model", "vocab", "!"}, 2), "have the id 2"},
      {with_token(added(5, "<clash>")), "\"<clash>\" have the id 5"},
      {with_token(added(next, "!")), "\"!\" has the ids 1 and "},
      {with_token(gpt2.find("added_tokens")->items()[0]), "\"<|endoftext|>\" comes twice"},
      {with_token(added(next, "")), "a token has no id or content"},
      {with(gpt2, {"added_tokens"}, 5), "added_tokens: is no list"},
      {with(gpt2, {"model", "merges"}, 5), "model.merges: is no list"},
      {with_merge("ab"), "model.merges: \"ab\" has no two parts"},
      {with_merge("a b c"), "has no two parts"},
      {with_merge(Json::array({"a"})), "has no two parts"},
      {with_merge(Json::array({"never", "a"})), "\"never\" of the merge \"never\" \"a\""},
      {with_merge(Json::array({"!", "?"})), "\"!?\" of the merge \"!\" \"?\" is no token"},
      {with_merge(first_merge), "comes twice"},
      {with(gpt2, {"model", "unk_token"}, "<none>"), "model.unk_token: \"<none>\" is no token"},
      {with(llama2, template_ids, Json::array({100000})), "100000 of \"<s>\" is no token"},
      {with(llama2, {"post_processor", "special_tokens"}, Json::object()), "\"<s>\" has no ids"}};
  for (const Change& change : changes) {
    const std::string message =
        user_error(ExitCode::bad_data, [&] { read_hub_file(change.file, "tokenizer.json"); });
    EXPECT_TRUE(message.starts_with("tokenizer.json: ")) << message;
    EXPECT_NE(message.find(change.expected), std::string::npos)
        << change.expected << ": " << message;
  }
}

TEST(HubFile, settings_without_a_like_here_are_noted) {
  const Json gpt2 = file_of("gpt2");
  for (const Change& change :
       {Change{with(gpt2, {"truncation"}, Json::object().set("max_length", 5)), "(truncation)"},
        Change{with(gpt2, {"decoder"}, typed("WordPiece")), "decoder: WordPiece"}}) {
    const auto read = read_hub_file(change.file, "tokenizer.json");
    const auto* file = std::get_if<HubFile>(&read);
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(file->notes.size(), 1U);
    EXPECT_NE(file->notes[0].find(change.expected), std::string::npos) << file->notes[0];
  }
}

}  // namespace
}  // namespace fourfold::tokenizer::hub_file_test
