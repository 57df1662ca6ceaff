// Tokenizers beside a model of another tool. How tokenizer.json itself is written and read:
// tokenizer_json_test.cpp.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/json.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_files.h"
#include "unit/data/token_files.h"
#include "unit/tokenizer/tokenizer_files.h"

namespace fourfold::tokenizer {
namespace {

using ModelTokenizerFiles = data::DataFolderTest;

TEST_F(ModelTokenizerFiles, a_tokenizer_that_was_written_is_found_again) {
  const std::string text = load_tokenizer(TokenizerKind::byte, "")->to_text();
  AtomicFolder folder(path("model"));
  write_tokenizer_files(text, folder);
  folder.commit();
  const FoundTokenizer found = find_tokenizer(path("model"), 300);
  EXPECT_EQ(found.key, "byte");
  EXPECT_EQ(found.tokenizer->to_text(), text);
  EXPECT_TRUE(found.files.empty());
}

TEST_F(ModelTokenizerFiles, without_files_the_tokens_are_numbers) {
  std::filesystem::create_directories(path("model"));
  const FoundTokenizer found = find_tokenizer(path("model"), 7);
  EXPECT_EQ(found.key, "");
  EXPECT_EQ(found.tokenizer->vocab_size(), 7);
}

TEST_F(ModelTokenizerFiles, a_tokenizer_larger_than_the_model_is_an_error) {
  AtomicFolder folder(path("model"));
  write_tokenizer_files(load_tokenizer(TokenizerKind::byte, "")->to_text(), folder);
  folder.commit();
  try {
    find_tokenizer(path("model"), 255);
    FAIL() << "found";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::no_checkpoint);
    EXPECT_NE(std::string(error.what()).find("256 tokens and its model 255"), std::string::npos)
        << error.what();
  }
}

/// vocab.json and merges.txt of the 256 bytes, one merge, and `end`.
void write_words(const std::string& folder, const std::string& end) {
  std::filesystem::create_directories(folder);
  Json ids = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    ids.set(to_byte_letters(std::string(1, static_cast<char>(byte))), byte);
  ids.set("th", 256).set(end, 257);
  data::write_bytes(folder + "/vocab.json", ids.dump());
  data::write_bytes(folder + "/merges.txt", "#version: 0.2\nt h\n");
}

std::string all_notes(const FoundTokenizer& found) {
  std::string text;
  for (const std::string& note : found.notes) text += note + "\n";
  return text;
}

TEST_F(ModelTokenizerFiles, tokens_of_other_files_are_known_and_told) {
  for (const auto& [name, content] : std::vector<std::pair<std::string, std::string>>{
           {"added_tokens.json", R"({"<|user|>": 258, "<|assistant|>": 259})"},
           {"tokenizer_config.json",
            R"({"added_tokens_decoder": {"258": {"content": "<|user|>"},
                "259": {"content": "<|assistant|>", "special": true}}})"},
           {"tokenizer.json",
            R"({"added_tokens": [{"id": 258, "content": "<|user|>"},
                {"id": 259, "content": "<|assistant|>"}]})"}}) {
    const std::string folder = path("by-" + name);
    write_words(folder, "<|endoftext|>");
    data::write_bytes(folder + "/" + name, content);
    const FoundTokenizer found = find_tokenizer(folder, 260);
    EXPECT_EQ(found.key, "gpt2") << name;
    EXPECT_EQ(found.tokenizer->vocab_size(), 260) << name;
    const std::vector<std::int32_t> ids = {258, 256, 259};
    EXPECT_EQ(found.tokenizer->decode(ids), "<|user|>th<|assistant|>") << name;
    EXPECT_EQ(found.tokenizer->end_of_document(), 257) << name;
    EXPECT_NE(all_notes(found).find(
                  "spells one of these tokens does not give it here: <|user|>, <|assistant|>"),
              std::string::npos)
        << name << all_notes(found);
  }
}

TEST_F(ModelTokenizerFiles, the_end_of_a_text_is_the_one_that_any_file_names) {
  for (const auto& [name, content] : std::vector<std::pair<std::string, std::string>>{
           {"config.json", R"({"eos_token_id": 257})"},
           {"generation_config.json", R"({"eos_token_id": [257]})"},
           {"tokenizer_config.json", R"({"eos_token": {"content": "</s>"}})"},
           {"special_tokens_map.json", R"({"eos_token": "</s>"})"}}) {
    const std::string folder = path("end-" + name);
    write_words(folder, "</s>");
    data::write_bytes(folder + "/" + name, content);
    const FoundTokenizer found = find_tokenizer(folder, 258);
    EXPECT_EQ(found.tokenizer->end_of_document(), 257) << name;
    EXPECT_EQ(all_notes(found), "") << name;
    // It comes back from what a run keeps, and from the files for data.tokenizer_path.
    EXPECT_EQ(tokenizer_from_text(found.tokenizer->to_text(), "x")->end_of_document(), 257);
    const std::string copy = path("copy-" + name);
    std::filesystem::create_directories(copy);
    for (const FoundTokenizer::File& file : found.files)
      data::write_bytes(copy + "/" + file.name, file.content);
    EXPECT_EQ(load_tokenizer(TokenizerKind::gpt2, copy)->fingerprint(),
              found.tokenizer->fingerprint());
  }
  write_words(path("none"), "</s>");
  EXPECT_EQ(find_tokenizer(path("none"), 258).tokenizer->end_of_document(), std::nullopt);
  // One that was added ends texts too, in place of the usual one.
  write_words(path("added"), "<|endoftext|>");
  data::write_bytes(path("added/added_tokens.json"), R"({"<|end|>": 258})");
  data::write_bytes(path("added/special_tokens_map.json"), R"({"eos_token": "<|end|>"})");
  EXPECT_EQ(find_tokenizer(path("added"), 259).tokenizer->end_of_document(), 258);
}

TEST_F(ModelTokenizerFiles, the_beginning_of_a_text_is_the_one_that_any_file_names) {
  for (const auto& [name, content] : std::vector<std::pair<std::string, std::string>>{
           {"config.json", R"({"bos_token_id": 256, "eos_token_id": 257})"},
           {"generation_config.json", R"({"bos_token_id": 256, "eos_token_id": 257})"},
           {"tokenizer_config.json", R"({"bos_token": "th", "eos_token": "</s>"})"},
           {"special_tokens_map.json",
            R"({"bos_token": {"content": "th"}, "eos_token": "</s>"})"}}) {
    const std::string folder = path("begin-" + name);
    write_words(folder, "</s>");
    data::write_bytes(folder + "/" + name, content);
    const FoundTokenizer found = find_tokenizer(folder, 258);
    EXPECT_EQ(found.tokenizer->begin_of_text(), 256) << name;
    EXPECT_EQ(found.tokenizer->end_of_document(), 257) << name;
    EXPECT_EQ(all_notes(found), "") << name;
    // It comes back from what a run keeps, from the files for data.tokenizer_path, and from those
    // that are exported.
    EXPECT_EQ(tokenizer_from_text(found.tokenizer->to_text(), "x")->begin_of_text(), 256);
    const std::string copy = path("copied-" + name), exported = path("exported-" + name);
    std::filesystem::create_directories(copy);
    for (const FoundTokenizer::File& file : found.files)
      data::write_bytes(copy + "/" + file.name, file.content);
    EXPECT_EQ(load_tokenizer(TokenizerKind::gpt2, copy)->begin_of_text(), 256);
    AtomicFolder written(exported);
    write_tokenizer_files(found.tokenizer->to_text(), written);
    written.commit();
    EXPECT_EQ(find_tokenizer(exported, 258).tokenizer->begin_of_text(), 256);
    const Json config =
        parse_json(data::read_bytes(exported + "/tokenizer_config.json"), "tokenizer_config.json");
    EXPECT_EQ(config.find("bos_token")->as_string(), "th");
    EXPECT_EQ(config.find("eos_token")->as_string(), "</s>");
  }
  write_words(path("same"), "</s>");
  data::write_bytes(path("same/config.json"), R"({"bos_token_id": 257, "eos_token_id": 257})");
  const auto same = find_tokenizer(path("same"), 258).tokenizer;
  EXPECT_EQ(same->begin_of_text(), 257);
  EXPECT_EQ(same->to_text().find("begin_of_text"), std::string::npos) << "nothing to keep";
}

/// The notes of a folder with a tokenizer of 258 tokens and these files beside it.
struct Beside {
  std::vector<std::pair<const char*, const char*>> files;
  const char* note;
};

TEST_F(ModelTokenizerFiles, files_that_contradict_each_other_are_told) {
  const std::vector<Beside> cases = {
      {{{"generation_config.json", R"({"eos_token_id": [257, 3]})"}},
       "generation_config.json has 2 tokens that end a text (eos_token_id); the first alone"},
      {{{"generation_config.json", R"({"eos_token_id": 257})"},
        {"config.json", R"({"eos_token_id": 5})"}},
       "ends with token 257 by generation_config.json and with token 5 by config.json"},
      {{{"config.json", R"({"eos_token_id": 257})"},
        {"tokenizer_config.json", R"({"eos_token": "th"})"}},
       "ends with token 257 by config.json and with token 256 by tokenizer_config.json"},
      {{{"special_tokens_map.json", R"({"eos_token": {"content": "<|none|>"}})"}},
       R"(ends with "<|none|>" by special_tokens_map.json, which is no token)"},
      {{{"added_tokens.json", R"({"<a>": 258})"},
        {"tokenizer_config.json", R"({"added_tokens_decoder": {"258": {"content": "<b>"}}})"}},
       R"(token 258 is "<b>" by tokenizer_config.json and "<a>" by added_tokens.json)"},
      {{{"added_tokens.json", R"({"<a>": 258})"},
        {"tokenizer.json", R"({"added_tokens": [{"id": 259, "content": "<a>"}]})"}},
       R"("<a>" is token 259 by tokenizer.json and 258 by added_tokens.json)"},
      {{{"added_tokens.json", R"({"<a>": 256})"}},
       R"(token 256 is "<a>" by added_tokens.json and "th" by the vocabulary, which is taken)"},
      {{{"added_tokens.json", R"({"</s>": 258})"}},
       R"("</s>" is token 258 by added_tokens.json and 257 by the vocabulary, which is taken)"},
      {{{"added_tokens.json", R"({"<a>": 259})"}}, "do not follow the vocabulary of 258 tokens"},
      {{{"added_tokens.json", R"({"<a>": 258, "<b>": 259, "<c>": 260})"}},
       "or are beyond the model: <c> (260 of added_tokens.json)"},
      {{{"tokenizer.json", R"({"model": {"vocab": {"th": 257, "!": 33}}})"}},
       R"(token 257 is "th" by tokenizer.json and "</s>" by vocab.json, which is taken; one)"},
      {{{"special_tokens_map.json", "{\"eos_token\": "}}, "special_tokens_map.json is left out: "},
      {{{"tokenizer_config.json", R"({"add_bos_token": true, "add_eos_token": false})"}},
       "add_bos_token of tokenizer_config.json puts a token before a text there, which is not "
       "done"},
      {{{"tokenizer_config.json", R"({"add_prefix_space": true})"}}, "puts a space before a text"},
      {{{"generation_config.json", R"({"temperature": 0.7, "top_k": 50, "max_new_tokens": 9})"}},
       "`generate` does not read: pass --temperature 0.7 --top-k 50 --tokens 9"},
      {{{"generation_config.json", R"({"do_sample": false, "temperature": 0.7})"}},
       "pass --temperature 0"},
      {{{"generation_config.json", R"({"repetition_penalty": 1.2, "num_beams": 1})"}},
       "has settings that there are not here: repetition_penalty"},
      {{{"tokenizer_config.json", R"({"add_eos_token": true})"}},
       "puts a token after a text there"},
      {{{"tokenizer_config.json", R"({"do_lower_case": true})"}}, "turns letters into small ones"},
      {{{"generation_config.json", R"({"top_p": 0.9})"}},
       "`generate` does not read: pass --top-p 0.9"},
      {{{"generation_config.json", R"({"suppress_tokens": [3]})"}},
       "has settings that there are not here: suppress_tokens"},
      {{{"tokenizer.json", R"({"model": {"vocab": [["!", 0.0], ["th", -1.5]]}})"}},
       R"(token 0 is "!" by tokenizer.json and )"},
      {{{"generation_config.json", R"({"bos_token_id": 256})"},
        {"config.json", R"({"bos_token_id": 5})"}},
       "begins with token 256 by generation_config.json and with token 5 by config.json"},
      {{{"config.json", R"({"bos_token_id": [256, 3]})"}},
       "config.json has 2 tokens that begin a text (bos_token_id); the first alone"},
      {{{"special_tokens_map.json", R"({"bos_token": "<s>"})"}},
       R"(begins with "<s>" by special_tokens_map.json, which is no token)"},
      {{{"config.json", R"({"bos_token_id": 3000, "eos_token_id": 257})"}},
       "a text begins with token 3000 there (config.json), and with token 257 here where the"},
      {{{"special_tokens_map.json",
         R"({"additional_special_tokens": ["th", {"content": "</s>"}]})"}},
       "spells one of these tokens does not give it here: th"},
      {{{"tokenizer_config.json", R"({"additional_special_tokens": ["<|user|>"]})"}},
       R"("<|user|>" is a special token by tokenizer_config.json, and no token of the vocabulary)"},
      // A text would give this token, so that it ends none.
      {{{"config.json", R"({"eos_token_id": 256})"}},
       "ends with token 256 there (config.json), and with none here: `generate` goes on"},
      {{{"config.json", R"({"eos_token_id": 3000})"}},
       "ends with token 3000 there (config.json), and with none here"}};
  for (std::size_t number = 0; number < cases.size(); ++number) {
    const std::string folder = path("model" + std::to_string(number));
    write_words(folder, "</s>");
    for (const auto& [name, content] : cases[number].files)
      data::write_bytes(folder + "/" + name, content);
    const FoundTokenizer found = find_tokenizer(folder, 260);
    EXPECT_NE(all_notes(found).find(cases[number].note), std::string::npos)
        << cases[number].note << "\n"
        << all_notes(found);
  }
}

TEST_F(ModelTokenizerFiles, tokens_beside_a_sentencepiece_model_are_told) {
  const std::string folder = path("model");
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(tokenizer_file("unigram.model"), folder + "/tokenizer.model");
  const FoundTokenizer plain = find_tokenizer(folder, 1000);
  EXPECT_EQ(plain.key, "sentencepiece");
  EXPECT_EQ(all_notes(plain), "");
  const auto end = plain.tokenizer->end_of_document();
  ASSERT_TRUE(end.has_value());
  data::write_bytes(folder + "/added_tokens.json", R"({"<|user|>": 900})");
  data::write_bytes(folder + "/generation_config.json", R"({"eos_token_id": 900})");
  const FoundTokenizer found = find_tokenizer(folder, 1000);
  EXPECT_EQ(found.tokenizer->to_text(), plain.tokenizer->to_text());
  for (const std::string& words :
       {std::string("does not give it here: <|user|>"),
        "ends with token 900 there (generation_config.json), and with token " +
            std::to_string(*end) + " here"})
    EXPECT_NE(all_notes(found).find(words), std::string::npos) << all_notes(found);
}

TEST_F(ModelTokenizerFiles, an_end_of_documents_that_is_no_id_is_refused) {
  for (const char* end : {"258", "-1", "\"</s>\"", "1.5"}) {
    write_words(path("words"), "</s>");
    std::string text = load_tokenizer(TokenizerKind::gpt2, path("words"))->to_text();
    text.insert(text.size() - 1, std::string(",\"end_of_document\":") + end);
    try {
      tokenizer_from_text(text, "tokenizer.json");
      ADD_FAILURE() << end;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("expected the id of a token, 0 to 257; copy"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace fourfold::tokenizer
