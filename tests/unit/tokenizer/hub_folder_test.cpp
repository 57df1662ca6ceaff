// The files of a folder of the hub, read together; what is written of them, and found again.
#include "tokenizer/hub_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_folder.h"
#include "tokenizer/tokenizer_files.h"
#include "unit/data/expect_error.h"
#include "unit/data/token_files.h"
#include "unit/tokenizer/hub_files.h"

namespace fourfold::tokenizer {
namespace {

using Ids = std::vector<std::int32_t>;

class HubFolderTest : public data::DataFolderTest {
 protected:
  /// A folder with the file of a kind and others.
  std::string folder(const std::string& kind,
                     const std::vector<std::pair<std::string, std::string>>& others = {}) {
    const std::string name = path("folder" + std::to_string(number_++));
    std::filesystem::create_directories(name);
    data::write_bytes(name + "/tokenizer.json", hub_file_text(kind));
    for (const auto& [file, content] : others) data::write_bytes(name + "/" + file, content);
    return name;
  }
  static std::string joined(const std::vector<std::string>& notes) {
    std::string text;
    for (const std::string& note : notes) text += note + "\n";
    return text;
  }

 private:
  int number_ = 0;
};

TEST_F(HubFolderTest, all_ends_of_a_text_come_from_its_files) {
  const std::string name = folder(
      "smollm", {{"generation_config.json", R"({"eos_token_id": [2, 0], "bos_token_id": 1})"},
                 {"config.json", R"({"eos_token_id": 2})"},
                 {"tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})"}});
  const HubFolder read = read_hub_folder(name);
  ASSERT_NE(read.tokenizer, nullptr) << read.reason;
  EXPECT_EQ(read.tokenizer->ends_of_text(), (Ids{2, 0}));
  EXPECT_EQ(read.tokenizer->end_of_document(), 2);
  EXPECT_EQ(read.tokenizer->begin_of_text(), 1);
  EXPECT_EQ(joined(read.notes), "");
}

TEST_F(HubFolderTest, files_that_say_otherwise_are_told) {
  const std::vector<std::pair<std::vector<std::pair<std::string, std::string>>, std::string>>
      cases = {
          {{{"config.json", R"({"eos_token_id": 5000})"}},
           "a text ends with token 5000 by config.json, which is none of tokenizer.json"},
          {{{"config.json", R"({"bos_token_id": 5000})"}},
           "a text begins with token 5000 by config.json, which is none of tokenizer.json"},
          {{{"generation_config.json", R"({"eos_token_id": 2})"},
            {"config.json", R"({"eos_token_id": 0})"}},
           "ends with token 2 by generation_config.json and with token 0 by config.json"},
          {{{"tokenizer_config.json", R"({"add_bos_token": true})"}},
           "tokenizer_config.json says add_bos_token: true, and tokenizer.json, which is taken, "
           "puts "
           "none before a text"},
          {{{"tokenizer_config.json", R"({"add_eos_token": true})"}}, "puts none after a text"},
          {{{"added_tokens.json", R"({"<|tool|>": 5000})"}},
           "left out are tokens that tokenizer.json does not have: <|tool|> (5000 of "
           "added_tokens.json)"},
          {{{"added_tokens.json", R"({"<|im_end|>": 1})"}},
           R"(token 1 is "<|im_start|>" by tokenizer.json and "<|im_end|>" by added_tokens.json)"},
          {{{"vocab.json", R"({"<|endoftext|>": 0, "other": 1})"}},
           "tokenizer.json is read, and not vocab.json: token 1 is \"<|im_start|>\" there and "
           "\"other\" by vocab.json"},
          {{{"vocab.json", "{"}},
           "tokenizer.json is read, and not vocab.json: that cannot be read: "},
          {{{"special_tokens_map.json", R"({"eos_token": "</s>"})"}},
           R"(ends with "</s>" by special_tokens_map.json, which is no token)"}};
  for (const auto& [files, note] : cases) {
    const HubFolder read = read_hub_folder(folder("smollm", files));
    ASSERT_NE(read.tokenizer, nullptr) << read.reason;
    EXPECT_NE(joined(read.notes).find(note), std::string::npos) << note << "\n"
                                                                << joined(read.notes);
  }
}

TEST_F(HubFolderTest, two_files_that_agree_are_told_with_the_one_that_is_read) {
  const Json gpt2 = parse_json(hub_file_text("gpt2"), "t");
  const Json& vocabulary = *gpt2.find("model")->find("vocab");
  const HubFolder bytes = read_hub_folder(folder("gpt2", {{"vocab.json", vocabulary.dump()}}));
  EXPECT_EQ(joined(bytes.notes),
            "tokenizer.json is read, and not vocab.json: the 340 tokens are the same\n");
  // A model of sentencepiece, and the same as tokenizer.json of another tool.
  const std::string name = path("pieces");
  std::filesystem::create_directories(name);
  std::filesystem::copy_file(tokenizer_file("lossless.model"), name + "/tokenizer.model");
  Json file = parse_json(write_tokenizer_json(load_sentencepiece("lossless")->to_text()).text, "t");
  const Json text = Json::object().set("Sequence", Json::object().set("id", "A"));
  file.set("post_processor",
           Json::object().set("type", "TemplateProcessing").set("single", Json::array({text})));
  data::write_bytes(name + "/tokenizer.json", file.dump());
  const HubFolder pieces = read_hub_folder(name);
  ASSERT_NE(pieces.tokenizer, nullptr) << pieces.reason;
  EXPECT_NE(joined(pieces.notes).find("tokenizer.json is read, and not tokenizer.model: the "),
            std::string::npos)
      << joined(pieces.notes);
  EXPECT_NE(joined(pieces.notes).find("tokens are the same, and 7 texts have the same ids"),
            std::string::npos)
      << joined(pieces.notes);
}

TEST_F(HubFolderTest, a_model_of_sentencepiece_with_other_tokens_is_told) {
  const std::string name = folder("llama2");
  std::filesystem::copy_file(tokenizer_file("lossless.model"), name + "/tokenizer.model");
  const HubFolder read = read_hub_folder(name);
  EXPECT_NE(joined(read.notes).find("tokenizer.json is read, and not tokenizer.model: token "),
            std::string::npos)
      << joined(read.notes);
}

TEST_F(HubFolderTest, a_tokenizer_is_loaded_from_a_folder_its_file_and_what_import_writes) {
  const std::string name = folder("smollm", {{"config.json", R"({"eos_token_id": 2})"}});
  const FoundTokenizer found = find_tokenizer(name, 1000);
  EXPECT_EQ(found.key, "hub");
  ASSERT_EQ(found.files.size(), 1U);
  data::write_bytes(path(found.files[0].name), found.files[0].content);
  for (const std::string& place : {name, name + "/tokenizer.json", path(found.files[0].name)}) {
    const auto loaded = load_tokenizer(TokenizerKind::hub, place);
    EXPECT_EQ(loaded->to_text(), found.tokenizer->to_text()) << place;
    EXPECT_EQ(loaded->ends_of_text(), Ids{2});
  }
  expect_words(user_error(ExitCode::no_checkpoint, [&] { find_tokenizer(name, 300); }),
               {"its tokenizer has", "and its model 300"});
}

TEST_F(HubFolderTest, a_folder_without_a_tokenizer_of_this_kind_is_an_error) {
  const std::string name = folder("smollm");
  data::write_bytes(name + "/tokenizer.json", R"({"model":{"type":"WordPiece"}})");
  expect_words(user_error(ExitCode::bad_data, [&] { load_tokenizer(TokenizerKind::hub, name); }),
               {"tokenizer.json: there is no tokenizer of its kind here: its model is WordPiece"});
  expect_words(
      user_error(ExitCode::bad_data, [&] { load_tokenizer(TokenizerKind::hub, path("none")); }),
      {"none"});
  data::write_bytes(path("x.json"), "{}");
  expect_words(
      user_error(ExitCode::bad_data, [&] { load_tokenizer(TokenizerKind::hub, path("x.json")); }),
      {"x.json: expected a folder with a tokenizer.json"});
}

TEST_F(HubFolderTest, words_of_gpt2_are_not_read_where_tokenizer_json_is_refused) {
  const Json file = parse_json(hub_file_text("gpt2"), "t");
  const std::string vocabulary = file.find("model")->find("vocab")->dump();
  const std::string name =
      folder("gpt2", {{"vocab.json", vocabulary}, {"merges.txt", "#version: 0.2\n"}});
  data::write_bytes(name + "/tokenizer.json",
                    with(file, {"normalizer"}, Json::object().set("type", "Lowercase")).dump());
  const FoundTokenizer refused = find_tokenizer(name, 1000);
  EXPECT_EQ(refused.key, "");
  EXPECT_NE(joined(refused.notes)
                .find("is not imported, because there is none of its kind here: "
                      "tokenizer.json: normalizer: Lowercase"),
            std::string::npos)
      << joined(refused.notes);
  // A model of sentencepiece says all that it does.
  std::filesystem::copy_file(tokenizer_file("lossless.model"), name + "/tokenizer.model");
  std::filesystem::remove(name + "/vocab.json");
  const FoundTokenizer pieces = find_tokenizer(name, 1000);
  EXPECT_EQ(pieces.key, "sentencepiece");
  EXPECT_NE(joined(pieces.notes)
                .find("tokenizer.model is read, and not tokenizer.json, which has "
                      "what is not known here: normalizer: Lowercase"),
            std::string::npos)
      << joined(pieces.notes);
}

TEST_F(HubFolderTest, what_is_exported_is_found_again_with_all_its_ends) {
  const std::string name =
      folder("smollm", {{"generation_config.json", R"({"eos_token_id": [2, 0]})"}});
  const FoundTokenizer found = find_tokenizer(name, 1000);
  AtomicFolder written(path("exported"));
  write_tokenizer_files(found.tokenizer->to_text(), written);
  written.commit();
  EXPECT_EQ(find_tokenizer(path("exported"), 1000).tokenizer->to_text(),
            found.tokenizer->to_text());
  const Json config =
      parse_json(data::read_bytes(path("exported/tokenizer_config.json")), "tokenizer_config.json");
  EXPECT_EQ(config.find("eos_token")->as_string(), "<|im_end|>");
  EXPECT_EQ(config.find("add_prefix_space"), nullptr);
  std::filesystem::remove(path("exported/fourfold_tokenizer.json"));
  const FoundTokenizer again = find_tokenizer(path("exported"), 1000);
  EXPECT_EQ(again.key, "hub");
  EXPECT_EQ(again.tokenizer->encode("the fox<|im_end|>", "t"),
            found.tokenizer->encode("the fox<|im_end|>", "t"));
}

}  // namespace
}  // namespace fourfold::tokenizer
