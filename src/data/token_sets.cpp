#include "data/token_sets.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "data/compare_sets.h"
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
  std::vector<std::string> files;
  std::vector<std::size_t> document_ends;
  std::string forms;
  std::vector<std::string> notes;
};

Text read_documents(const std::string& path) {
  Text all;
  TakenFiles files = list_text_files({path});
  all.files = files.taken;
  TextSource source(std::move(files), "text");
  while (const auto piece = source.next()) {
    all.text += piece->text;
    if (piece->ends_document) all.document_ends.push_back(all.text.size());
  }
  all.forms = source.forms();
  all.notes = source.notes();
  return all;
}

void add_notes(std::vector<std::string>& notes, std::vector<std::string> more) {
  std::ranges::move(more, std::back_inserter(notes));
}

std::unique_ptr<const TokenStream> encode_documents(const Text& all, const std::string& path,
                                                    const tokenizer::Tokenizer& tokenizer) {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> sizes;
  std::size_t begin = 0;
  for (const std::size_t end : all.document_ends) {
    const auto text = std::string_view(all.text).substr(begin, end - begin);
    std::vector<std::int32_t> ids = tokenizer.encode(text, path);
    std::ranges::copy(tokenizer.closing_tokens(), std::back_inserter(ids));
    sizes.push_back(static_cast<std::int64_t>(ids.size()));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    begin = end;
  }
  return std::make_unique<MemoryTokens>(path, std::move(tokens), sizes);
}

/// The tokenizer that the spec asks for; `text` is what is to be encoded, `source` names it.
std::unique_ptr<tokenizer::Tokenizer> make_tokenizer(const DataSpec& spec, std::string_view text,
                                                     std::string_view source) {
  if (spec.tokenizer == tokenizer::TokenizerKind::character)
    return tokenizer::character_tokenizer(text, source);
  return tokenizer::load_tokenizer(spec.tokenizer, spec.tokenizer_path);
}

/// By the configuration; the alphabet of `char` is that of both texts.
std::unique_ptr<const tokenizer::Tokenizer> tokenizer_of_texts(const DataSpec& spec,
                                                               const Text& train,
                                                               const Text& validation) {
  // Each alone is looked at first, so that what is wrong in one is told with its name.
  auto tokenizer = make_tokenizer(spec, train.text, spec.path);
  if (spec.validation.empty() || spec.tokenizer != tokenizer::TokenizerKind::character)
    return tokenizer;
  make_tokenizer(spec, validation.text, spec.validation);
  return make_tokenizer(spec, train.text + validation.text, spec.path);
}

/// How the sets of one format are opened.
struct SetForm {
  std::unique_ptr<const TokenStream> (*open)(const std::string& path, LlmcShards::Part part,
                                             std::vector<std::string>& notes);
  /// The files that hold the tokens of a stream.
  std::vector<std::string> (*files)(const TokenStream& stream);
  /// What validates where nothing else is to; empty: the end of what trains.
  std::string (*validation)(const DataSpec& spec);
  /// The name, without ".json", of the file beside a set that holds its tokenizer; null: there is
  /// none.
  std::string (*sidecar_prefix)(const std::string& path);
};

constexpr SetForm megatron_form = {
    .open = [](const std::string& path, LlmcShards::Part, std::vector<std::string>&)
        -> std::unique_ptr<const TokenStream> { return std::make_unique<MegatronSet>(path); },
    .files = [](const TokenStream& stream) -> std::vector<std::string> {
      return {megatron_prefix(stream.name()) + ".bin"};
    },
    .validation = [](const DataSpec&) { return std::string(); },
    .sidecar_prefix = megatron_prefix};

constexpr SetForm llmc_form = {
    .open = [](const std::string& path, LlmcShards::Part part,
               std::vector<std::string>& notes) -> std::unique_ptr<const TokenStream> {
      auto shards = std::make_unique<LlmcShards>(path, part);
      if (shards->passed_over().count > 0)
        notes.push_back(format("{}: {}", path, shards->passed_over().text("name", "passed over")));
      return shards;
    },
    .files =
        [](const TokenStream& stream) { return dynamic_cast<const LlmcShards&>(stream).files(); },
    .validation =
        [](const DataSpec& spec) {
          const bool is_open = spec.blend.empty() && LlmcShards::has_both_parts(spec.path);
          return is_open ? spec.path : std::string();
        },
    .sidecar_prefix = nullptr};

/// What sets have in common, which people may not know.
std::vector<std::string> compare(const TokenSets& sets, const SetForm& form) {
  std::vector<std::string> notes;
  SetFiles training{sets.streams.size() > 1 ? "data.blend" : "data.path", {}};
  for (const auto& stream : sets.streams) {
    const std::vector<std::string> own = form.files(*stream);
    add_notes(notes, notes_on_common_files(training, {training.key, own},
                                           "it is read as two sets; name it once, with the sum of "
                                           "the weights"));
    training.files.insert(training.files.end(), own.begin(), own.end());
  }
  if (sets.validation)
    add_notes(notes,
              notes_on_common_files(training, {"data.validation", form.files(*sets.validation)},
                                    then_validates));
  return notes;
}

/// The tokenizer so far must be the one that is found now.
void agree(std::unique_ptr<const tokenizer::Tokenizer>& tokenizer, const std::string& fingerprint,
           const std::string& where) {
  if (!tokenizer || tokenizer->fingerprint() == fingerprint) return;
  throw UserError(ExitCode::bad_data,
                  format("{}: its tokens belong to the tokenizer {}, expected {}; tokenize all "
                         "sets with one tokenizer, and name no other in data.tokenizer",
                         where, fingerprint, tokenizer->fingerprint()));
}

std::unique_ptr<const tokenizer::Tokenizer> find_tokenizer(const DataSpec& spec,
                                                           const SetForm& form,
                                                           const std::vector<std::string>& paths) {
  std::unique_ptr<const tokenizer::Tokenizer> tokenizer;
  // The alphabet of `char` comes from a text, which there is none of here.
  if (spec.tokenizer != tokenizer::TokenizerKind::character)
    tokenizer = tokenizer::load_tokenizer(spec.tokenizer, spec.tokenizer_path);
  if (form.sidecar_prefix != nullptr) {
    for (const std::string& path : paths) {
      const std::string prefix = form.sidecar_prefix(path);
      const auto sidecar = read_sidecar(prefix);
      if (!sidecar) continue;
      agree(tokenizer, sidecar->fingerprint, prefix + ".json");
      if (!tokenizer) tokenizer = tokenizer_of(*sidecar, prefix + ".json");
    }
  }
  if (tokenizer) return tokenizer;
  if (spec.vocab_size > 0) return tokenizer::number_tokenizer(spec.vocab_size);
  throw UserError(ExitCode::bad_config,
                  format("{}: which tokenizer its tokens belong to is not known; set "
                         "data.tokenizer, or at least model.vocab_size",
                         paths.front()));
}

TokenSets open_token_sets(const DataSpec& spec, const SetForm& form) {
  std::vector<BlendPart> parts = spec.blend;
  if (parts.empty()) parts.push_back({spec.path, 1});
  TokenSets sets;
  sets.weights.clear();
  std::vector<std::string> paths;
  for (const BlendPart& part : parts) {
    sets.streams.push_back(form.open(part.path, LlmcShards::Part::training, sets.notes));
    sets.weights.push_back(part.weight);
    paths.push_back(part.path);
  }
  const std::string validation = spec.validation.empty() ? form.validation(spec) : spec.validation;
  if (!validation.empty()) {
    // Those that train are no news where the folder is that of the training.
    std::vector<std::string> own;
    std::vector<std::string>& told = validation == spec.path ? own : sets.notes;
    sets.validation = form.open(validation, LlmcShards::Part::validation, told);
    paths.push_back(validation);
  }
  add_notes(sets.notes, compare(sets, form));
  sets.tokenizer = find_tokenizer(spec, form, paths);
  return sets;
}

}  // namespace

TokenSets make_texts(const DataSpec& spec) {
  const Text train = read_documents(spec.path);
  Text validation;
  if (!spec.validation.empty()) validation = read_documents(spec.validation);
  TokenSets sets;
  sets.read_as = train.forms;
  if (validation.forms != train.forms && !validation.forms.empty())
    sets.read_as += "; to validate " + validation.forms;
  sets.notes = train.notes;
  add_notes(sets.notes, validation.notes);
  add_notes(sets.notes,
            notes_on_common_files({"data.path", train.files}, {"data.validation", validation.files},
                                  then_validates));
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
  sets.tokenizer = tokenizer::number_tokenizer(spec.vocab_size);
  std::vector<std::int32_t> tokens = synthetic_tokens(spec.vocab_size);
  const std::int64_t size = synthetic_length;
  sets.streams.push_back(
      std::make_unique<MemoryTokens>("synthetic data", std::move(tokens), std::span(&size, 1)));
  return sets;
}

TokenSets open_megatron_sets(const DataSpec& spec) {
  return open_token_sets(spec, megatron_form);
}

TokenSets open_llmc_shards(const DataSpec& spec) {
  return open_token_sets(spec, llmc_form);
}

std::vector<MissingFile> missing_files(const DataSpec& spec) {
  std::vector<MissingFile> files;
  const FormatRow& row = row_of(spec.format);
  if (row.is_made_up) return files;
  for (const BlendPart& part : spec.blend) files.push_back({"data.blend", part.path});
  if (!spec.path.empty()) files.push_back({"data.path", spec.path});
  if (!spec.validation.empty()) files.push_back({"data.validation", spec.validation});
  if (row.file_of != nullptr)
    for (MissingFile& file : files) file.path = row.file_of(file.path);
  std::erase_if(files, [](const MissingFile& file) { return file_exists(file.path); });
  return files;
}

}  // namespace fourfold::data
