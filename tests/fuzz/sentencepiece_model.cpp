// Bytes as a sentencepiece model: a tokenizer that encodes and decodes texts, or UserError with
// code 3. The library itself checks little: what reaches it must not harm it.
#include <string>

#include "base/error.h"
#include "fuzz/target.h"
#include "tokenizer/sentencepiece.h"

namespace {

void use(const fourfold::tokenizer::Tokenizer& tokenizer) {
  using fourfold::require;
  for (const std::string text :
       {"", "  Hello  world, it's 12\n\u00E9\u4F60\U0001F600\t", "a\u2581 b\u00A0\u200B  ",
        "hello hello the the quick brown fox learning learned   "}) {
    try {
      for (const std::int32_t id : tokenizer.encode(text, "text"))
        require(id >= 0 && id < tokenizer.vocab_size(), "ids are those of the vocabulary");
    } catch (const fourfold::UserError& error) {
      require(error.code() == fourfold::ExitCode::bad_data, "a text is refused with its own code");
    }
  }
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = tokenizer.decode(std::span(&id, 1));
    require(piece.size() <= 4096, "a token is short");
  }
  const auto again = fourfold::tokenizer::tokenizer_from_text(tokenizer.to_text(), "again");
  require(again->fingerprint() == tokenizer.fingerprint(), "a tokenizer reads back from its text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  const std::string model(reinterpret_cast<const char*>(bytes), size);
  try {
    use(*tokenizer::sentencepiece_tokenizer(model, "fuzz.model"));
  } catch (const UserError& error) {
    const std::string message = error.what();
    require(error.code() == ExitCode::bad_data, "a bad model ends with its own code");
    require(message.starts_with("fuzz.model: ") && message.find('\n') == message.npos,
            "a bad model is told in one line");
  }
  return 0;
}
