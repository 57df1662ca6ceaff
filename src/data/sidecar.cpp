#include "data/sidecar.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json.h"

namespace fourfold::data {
namespace {

constexpr std::int64_t format_number = 1;

/// The members of the JSON object, each once, of the right type.
class Members {
 public:
  Members(const Json& object, const std::string& file) : object_(object), file_(file) {}

  const Json& get(std::string_view key, Json::Kind kind, std::string_view expected) const {
    const Json* value = object_.find(key);
    if (value != nullptr && value->kind() == kind) return *value;
    throw UserError(ExitCode::bad_data,
                    format("{}: expected {} as '{}', as `fourfold data tokenize` writes it; copy "
                           "the set again or remove this file",
                           file_, expected, key));
  }
  std::string text(std::string_view key) const {
    return get(key, Json::Kind::string, "text").as_string();
  }
  std::int64_t count(std::string_view key) const {
    const Json& value = get(key, Json::Kind::integer, "a whole number");
    return value.as_integer();
  }

 private:
  const Json& object_;
  const std::string& file_;
};

}  // namespace

std::string to_text(const Sidecar& sidecar) {
  const std::array<std::pair<const char*, Json>, 10> members = {{
      {"format", format_number},
      {"dtype", sidecar.dtype},
      {"documents", sidecar.documents},
      {"tokens", sidecar.tokens},
      {"vocab_size", sidecar.vocab_size},
      {"ends_documents", sidecar.ends_documents},
      {"bin_hash", sidecar.bin_hash},
      {"idx_hash", sidecar.idx_hash},
      {"tokenizer_fingerprint", sidecar.fingerprint},
      {"tokenizer", parse_json(sidecar.tokenizer, "the tokenizer")},
  }};
  std::string text = "{\n";
  for (const auto& [key, value] : members)
    text += format("  \"{}\": {}{}\n", key, value.dump(), key == members.back().first ? "" : ",");
  return text + "}\n";
}

Sidecar parse_sidecar(const std::string& text, const std::string& file) {
  const Json object = parse_json(text, file);
  const Members members(object, file);
  if (members.count("format") != format_number)
    throw UserError(ExitCode::bad_data, format("{}: is of format {}, expected {}; use the Fourfold "
                                               "that wrote it, or make the set again",
                                               file, members.count("format"), format_number));
  Sidecar sidecar;
  sidecar.dtype = members.text("dtype");
  sidecar.documents = members.count("documents");
  sidecar.tokens = members.count("tokens");
  sidecar.vocab_size = members.count("vocab_size");
  sidecar.ends_documents =
      members.get("ends_documents", Json::Kind::boolean, "true or false").as_bool();
  sidecar.bin_hash = members.text("bin_hash");
  sidecar.idx_hash = members.text("idx_hash");
  sidecar.fingerprint = members.text("tokenizer_fingerprint");
  sidecar.tokenizer = members.get("tokenizer", Json::Kind::object, "an object").dump();
  return sidecar;
}

std::unique_ptr<tokenizer::Tokenizer> tokenizer_of(const Sidecar& sidecar,
                                                   const std::string& file) {
  try {
    return tokenizer::tokenizer_from_text(sidecar.tokenizer, file);
  } catch (const UserError& error) {
    throw UserError(ExitCode::bad_data, error.what());  // here it is a part of the data
  }
}

std::optional<Sidecar> read_sidecar(const std::string& prefix) {
  const std::string path = prefix + ".json";
  if (!file_exists(path)) return std::nullopt;
  return parse_sidecar(read_file(path), path);
}

std::string whole_hash_text(std::int64_t size_bytes, const ReadBytes& read) {
  constexpr std::int64_t chunk_bytes = std::int64_t{4} << 20;
  ChunkHashes chunks(chunk_bytes);
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(size_bytes, chunk_bytes)));
  for (std::int64_t at = 0; at < size_bytes; at += chunk_bytes) {
    const auto part =
        std::span(buffer).first(static_cast<std::size_t>(std::min(chunk_bytes, size_bytes - at)));
    read(at, part);
    chunks.add(part);
  }
  const std::vector<std::uint64_t> hashes = chunks.finish();
  return format("{:016x}", hash64(std::as_bytes(std::span(hashes))));
}

}  // namespace fourfold::data
