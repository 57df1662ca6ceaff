// Tokenizers beside a model of another tool. How tokenizer.json itself is written and read:
// tokenizer_json_test.cpp.
#include <memory>
#include <string>
#include <vector>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "data/tokenizer.h"
#include "data/tokenizer_files.h"
#include "unit/data/token_files.h"

namespace fourfold::data {
namespace {

using ModelTokenizerFiles = DataFolderTest;

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

}  // namespace
}  // namespace fourfold::data
