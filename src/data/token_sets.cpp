#include "data/token_sets.h"

#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "data/llmc_shards.h"
#include "data/megatron_set.h"
#include "data/sidecar.h"
#include "data/synthetic.h"
#include "data/text_source.h"

namespace fourfold::data {
namespace {

/// All documents behind each other; where each ends.
struct Text {
  std::string text;
  std::vector<std::size_t> document_ends;
};

Text read_documents(const std::string& path) {
  Text all;
  TextSource source({path});
  while (const auto piece = source.next()) {
    all.text += piece->text;
    if (piece->ends_document) all.document_ends.push_back(all.text.size());
  }
  return all;
}

TokenSets make_text(const DataSpec& spec) {
  const Text all = read_documents(spec.path);
  TokenSets sets;
  sets.tokenizer = make_tokenizer(spec, all.text, spec.path);
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> sizes;
  std::size_t begin = 0;
  for (const std::size_t end : all.document_ends) {
    const auto text = std::string_view(all.text).substr(begin, end - begin);
    const std::vector<std::int32_t> ids = sets.tokenizer->encode(text, spec.path);
    sizes.push_back(static_cast<std::int64_t>(ids.size()));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    begin = end;
  }
  sets.streams.push_back(std::make_unique<MemoryTokens>(spec.path, std::move(tokens), sizes));
  return sets;
}

TokenSets make_synthetic(const DataSpec& spec) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (spec.vocab_size < 1 || spec.vocab_size > most)
    throw UserError(ExitCode::bad_data, format("data.vocab_size: {}, expected 1 to {}; set how "
                                               "many tokens the synthetic data shall have",
                                               spec.vocab_size, most));
  TokenSets sets;
  sets.tokenizer = number_tokenizer(spec.vocab_size);
  std::vector<std::int32_t> tokens = synthetic_tokens(spec.vocab_size);
  const std::int64_t size = synthetic_length;
  sets.streams.push_back(
      std::make_unique<MemoryTokens>("synthetic data", std::move(tokens), std::span(&size, 1)));
  return sets;
}

std::unique_ptr<const TokenStream> open_stream(Format format, const std::string& path) {
  if (format == Format::llmc) return std::make_unique<LlmcShards>(path);
  return std::make_unique<MegatronSet>(path);
}

std::unique_ptr<const Tokenizer> tokenizer_of(const Sidecar& sidecar, const std::string& file) {
  try {
    return tokenizer_from_text(sidecar.tokenizer, file);
  } catch (const UserError& error) {
    throw UserError(ExitCode::bad_data, error.what());  // here it is a part of the data
  }
}

/// The tokenizer so far must be the one that is found now.
void agree(std::unique_ptr<const Tokenizer>& tokenizer, const std::string& fingerprint,
           const std::string& where) {
  if (!tokenizer || tokenizer->fingerprint() == fingerprint) return;
  throw UserError(ExitCode::bad_data,
                  format("{}: its tokens belong to the tokenizer {}, expected {}; tokenize all "
                         "sets with one tokenizer, and name no other in data.tokenizer",
                         where, fingerprint, tokenizer->fingerprint()));
}

std::unique_ptr<const Tokenizer> find_tokenizer(const DataSpec& spec,
                                                const std::vector<std::string>& paths) {
  std::unique_ptr<const Tokenizer> tokenizer;
  // The alphabet of `char` comes from a text, which there is none of here.
  if (spec.tokenizer != TokenizerKind::character)
    tokenizer = load_tokenizer(spec.tokenizer, spec.tokenizer_path);
  if (spec.format == Format::megatron) {
    for (const std::string& path : paths) {
      const std::string prefix = megatron_prefix(path);
      const auto sidecar = read_sidecar(prefix);
      if (!sidecar) continue;
      agree(tokenizer, sidecar->fingerprint, prefix + ".json");
      if (!tokenizer) tokenizer = tokenizer_of(*sidecar, prefix + ".json");
    }
  }
  if (tokenizer) return tokenizer;
  if (spec.vocab_size > 0) return number_tokenizer(spec.vocab_size);
  throw UserError(ExitCode::bad_config,
                  format("{}: which tokenizer its tokens belong to is not known; set "
                         "data.tokenizer, or at least model.vocab_size",
                         paths.front()));
}

}  // namespace

TokenSets make_in_memory(const DataSpec& spec) {
  TokenSets sets = spec.format == Format::text ? make_text(spec) : make_synthetic(spec);
  sets.weights = {1};
  return sets;
}

TokenSets open_token_sets(const DataSpec& spec) {
  std::vector<BlendPart> parts = spec.blend;
  if (parts.empty()) parts.push_back({spec.path, 1});
  TokenSets sets;
  std::vector<std::string> paths;
  for (const BlendPart& part : parts) {
    sets.streams.push_back(open_stream(spec.format, part.path));
    sets.weights.push_back(part.weight);
    paths.push_back(part.path);
  }
  sets.tokenizer = find_tokenizer(spec, paths);
  return sets;
}

std::vector<std::string> missing_files(const DataSpec& spec) {
  std::vector<std::string> paths;
  for (const BlendPart& part : spec.blend) paths.push_back(part.path);
  if (!spec.path.empty()) paths.push_back(spec.path);
  if (spec.format == Format::synthetic) paths.clear();
  if (spec.format == Format::megatron)
    for (std::string& path : paths) path = megatron_prefix(path) + ".idx";
  std::erase_if(paths, [](const std::string& path) { return file_exists(path); });
  return paths;
}

}  // namespace fourfold::data
