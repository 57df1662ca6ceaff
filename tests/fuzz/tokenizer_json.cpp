// Bytes as tokenizer.json: a tokenizer that encodes, a reason why there is none here, or UserError
// with code 3.
#include <string>
#include <string_view>

#include "base/error.h"
#include "fuzz/target.h"
#include "tokenizer/tokenizer_json.h"

namespace {

void use(const fourfold::tokenizer::Tokenizer& tokenizer) {
  using fourfold::require;
  const auto again = fourfold::tokenizer::tokenizer_from_text(tokenizer.to_text(), "again");
  require(again->fingerprint() == tokenizer.fingerprint(), "a tokenizer reads back from its text");
  try {
    for (const std::int32_t id : tokenizer.encode("Hello  world, it's 12\n", "text"))
      require(id >= 0 && id < tokenizer.vocab_size(), "ids are of the vocabulary");
  } catch (const fourfold::UserError&) {
    // A character that it does not have.
  }
  const auto written = fourfold::tokenizer::write_tokenizer_json(tokenizer.to_text());
  if (written.text.empty()) return;
  const auto read = fourfold::tokenizer::read_tokenizer_json(written.text, "written");
  require(read.tokenizer != nullptr, "what is written is read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  const std::string_view all(reinterpret_cast<const char*>(bytes), size);
  try {
    const auto read = tokenizer::read_tokenizer_json(all, "tokenizer.json");
    require((read.tokenizer == nullptr) != read.reason.empty(), "there is a tokenizer or a reason");
    if (read.tokenizer) use(*read.tokenizer);
  } catch (const UserError& error) {
    const std::string message = error.what();
    require(error.code() == ExitCode::bad_data, "bad files end with their own code");
    require(message.starts_with("tokenizer.json"), "bad files are told with their place");
    require(message.find('\n') == message.npos, "bad files are told in one line");
  }
  return 0;
}
