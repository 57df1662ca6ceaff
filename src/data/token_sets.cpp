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

/// All documents one after another; where each ends.
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

std::unique_ptr<const TokenStream> encode_documents(const Text& all, const std::string& path,
                                                    const Tokenizer& tokenizer) {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> sizes;
  std::size_t begin = 0;
  for (const std::size_t end : all.document_ends) {
    const auto text = std::string_view(all.text).substr(begin, end - begin);
    const std::vector<std::int32_t> ids = tokenizer.encode(text, path);
    sizes.push_back(static_cast<std::int64_t>(ids.size()));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    begin = end;
  }
  return std::make_unique<MemoryTokens>(path, std::move(tokens), sizes);
}

/// By the configuration; the alphabet of `char` is that of both texts.
std::unique_ptr<const Tokenizer> tokenizer_of_texts(const DataSpec& spec, const Text& train,
                                                    const Text& validation) {
  // Each alone is looked at first, so that what is wrong in one is told with its name.
  auto tokenizer = make_tokenizer(spec, train.text, spec.path);
  if (spec.validation.empty() || spec.tokenizer != TokenizerKind::character) return tokenizer;
  make_tokenizer(spec, validation.text, spec.validation);
  return make_tokenizer(spec, train.text + validation.text, spec.path);
}

TokenSets make_text(const DataSpec& spec) {
  const Text train = read_documents(spec.path);
  Text validation;
  if (!spec.validation.empty()) validation = read_documents(spec.validation);
  TokenSets sets;
  sets.tokenizer = tokenizer_of_texts(spec, train, validation);
  sets.streams.push_back(encode_documents(train, spec.path, *sets.tokenizer));
  if (!spec.validation.empty())
    sets.validation = encode_documents(validation, spec.validation, *sets.tokenizer);
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
  if (!spec.validation.empty()) {
    sets.validation = open_stream(spec.format, spec.validation);
    paths.push_back(spec.validation);
  }
  sets.tokenizer = find_tokenizer(spec, paths);
  return sets;
}

std::vector<MissingFile> missing_files(const DataSpec& spec) {
  std::vector<MissingFile> files;
  if (spec.format == Format::synthetic) return files;
  for (const BlendPart& part : spec.blend) files.push_back({"data.blend", part.path});
  if (!spec.path.empty()) files.push_back({"data.path", spec.path});
  if (!spec.validation.empty()) files.push_back({"data.validation", spec.validation});
  if (spec.format == Format::megatron)
    for (MissingFile& file : files) file.path = megatron_prefix(file.path) + ".idx";
  std::erase_if(files, [](const MissingFile& file) { return file_exists(file.path); });
  return files;
}

}  // namespace fourfold::data
