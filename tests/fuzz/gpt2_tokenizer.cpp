// Bytes as vocab.json, a zero byte, and merges.txt: a tokenizer that gives texts back, or UserError
// with code 3.
#include <string>
#include <string_view>

#include "base/error.h"
#include "fuzz/target.h"
#include "tokenizer/byte_pair_vocabulary.h"
#include "tokenizer/gpt2.h"

namespace {

void use(const fourfold::tokenizer::Tokenizer& tokenizer, std::string_view bytes) {
  using fourfold::require;
  for (const std::string_view text : {std::string_view("Hello  world, it's 12\n\xE4\xBD"), bytes})
    require(tokenizer.decode(tokenizer.encode(text, "text")) == text, "every text comes back");
  const auto again = fourfold::tokenizer::tokenizer_from_text(tokenizer.to_text(), "again");
  require(again->fingerprint() == tokenizer.fingerprint(), "a tokenizer reads back from its text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  const std::string_view all(reinterpret_cast<const char*>(bytes), size);
  const std::size_t end = std::min(all.find('\0'), size);
  try {
    const std::string_view merges = all.substr(std::min(end + 1, size));
    use(*tokenizer::gpt2_tokenizer(tokenizer::read_byte_pair_vocabulary(
            {all.substr(0, end), "vocab.json"}, {merges, "merges.txt"}, ExitCode::bad_data)),
        all);
  } catch (const UserError& error) {
    const std::string message = error.what();
    require(error.code() == ExitCode::bad_data, "bad files end with their own code");
    require(message.starts_with("vocab.json") || message.starts_with("merges.txt"),
            "bad files are told with their place");
    require(message.find('\n') == message.npos, "bad files are told in one line");
  }
  return 0;
}
