// Four lines and a text: the normalizer, pre_tokenizer, added_tokens and post_processor of a
// tokenizer.json, and what is encoded. The ids are of the vocabulary, a document in pieces has
// those of the whole, and bytes come back; else a reason, or UserError with code 3.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "fuzz/target.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/tokenizer_json.h"

namespace {

using namespace fourfold;
using Ids = std::vector<std::int32_t>;

/// Words of bytes, or of characters that fall back to bytes.
Json model(bool is_of_bytes) {
  Json vocabulary = Json::object();
  std::int64_t next = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    constexpr const char* digits = "0123456789ABCDEF";
    const std::string name = std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">";
    vocabulary.set(
        is_of_bytes ? tokenizer::to_byte_letters(std::string(1, static_cast<char>(byte))) : name,
        next++);
  }
  const std::string space = is_of_bytes ? "\u0120" : "\u2581";
  Json merges = Json::array();
  if (!is_of_bytes)
    for (const std::string& one : {space, std::string("t"), std::string("h"), std::string("e")})
      vocabulary.set(one, next++);
  for (const auto& [left, right] : {std::pair(std::string("t"), std::string("h")),
                                    {"th", "e"},
                                    {space, "the"},
                                    {space, space}}) {
    vocabulary.set(left + right, next++);
    merges.push(Json::array({left, right}));
  }
  return Json::object()
      .set("type", "BPE")
      .set("byte_fallback", !is_of_bytes)
      .set("vocab", std::move(vocabulary))
      .set("merges", std::move(merges));
}

/// Nothing when a line is no JSON.
Json part(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  try {
    return line.empty() ? Json() : parse_json(line, "line");
  } catch (const UserError&) {
    return {};
  }
}

void use(const tokenizer::Tokenizer& tokenizer, std::string_view text, bool changes_text) {
  const auto encode = [&](std::string_view piece) { return tokenizer.encode(piece, "text"); };
  const Ids whole = encode(text), before = encode("");
  for (const std::int32_t id : whole)
    require(id >= 0 && id < tokenizer.vocab_size(), "ids are of the vocabulary");
  if (!changes_text && before.empty()) require(tokenizer.decode(whole) == text, "bytes come back");
  for (const std::size_t arrived : {text.size(), text.size() * 2 / 3, text.size() / 3}) {
    const std::size_t cut = tokenizer.last_cut(text.substr(0, arrived));
    require(cut == 0 || cut < arrived, "a cut lies within a text");
    if (cut == 0) continue;
    Ids parts = encode(text.substr(0, cut));
    const Ids rest = tokenizer.encode_rest(text.substr(cut), "text");
    parts.insert(parts.end(), rest.begin(), rest.end());
    require(parts == whole, "a document in pieces has the ids of the whole");
  }
}

bool has(const Json& step, const char* key, const Json& value) {
  const Json* found = step.find(key);
  return found != nullptr && *found == value;
}

/// True if the step cuts and changes nothing: bytes that come in go out.
bool keeps_bytes(const Json& step) {
  if (has(step, "type", "ByteLevel")) return has(step, "add_prefix_space", false);
  if (has(step, "type", "Split")) return has(step, "behavior", "Isolated");
  if (has(step, "type", "Digits")) return true;
  const Json* steps = step.find("pretokenizers");
  return has(step, "type", "Sequence") && steps != nullptr && steps->kind() == Json::Kind::array &&
         std::ranges::all_of(steps->items(), keeps_bytes);
}

/// True if the bytes of a text become tokens as they are.
bool keeps_text(const Json& file, bool is_of_bytes) {
  return is_of_bytes && *file.find("normalizer") == Json() &&
         *file.find("added_tokens") == Json() && keeps_bytes(*file.find("pre_tokenizer"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(bytes), size);
  Json file = Json::object();
  for (const char* key : {"normalizer", "pre_tokenizer", "added_tokens", "post_processor"})
    file.set(key, part(rest));
  const bool is_of_bytes =
      file.find("pre_tokenizer")->dump().find("ByteLevel") != std::string::npos;
  file.set("model", model(is_of_bytes));
  try {
    const auto read = tokenizer::read_tokenizer_json(file.dump(), "tokenizer.json");
    require((read.tokenizer == nullptr) != read.reason.empty(), "there is a tokenizer or a reason");
    if (read.tokenizer) use(*read.tokenizer, rest, !keeps_text(file, is_of_bytes));
  } catch (const UserError& error) {
    const std::string message = error.what();
    require(error.code() == ExitCode::bad_data, "bad files end with their own code");
    require(message.find('\n') == message.npos, "what is bad is told in one line");
  }
  return 0;
}
