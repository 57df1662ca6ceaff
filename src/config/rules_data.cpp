// Relations between the keys of data, and with the model that reads it.
#include "config/family.h"
#include "config/rules_words.h"
#include "config/schema.h"
#include "model/model.h"
#include "tokenizer/tokenizer_kind.h"

namespace fourfold::config {
namespace {

/// What data.format is.
const data::FormatRow& format_of(const Config& c) {
  return data::row_of(c.data.format);
}

/// How many labels the model is set to have; 0: as many as the data.
std::int64_t num_labels(const Config& c) {
  return model::data_facts(c.model()).num_labels;
}

Verdict synthetic_has_vocabulary(const Config& c) {
  if (!format_of(c).is_made_up || num_labels(c) > 0) return std::nullopt;
  const std::string& key = family_schema(c.kind).labels_key;
  return Finding{
      format("data.format = {} has no tokenizer, so {} must say how many tokens there are",
             format_of(c).name, key),
      format("set {}, for example 256 (50257 as GPT-2)", key)};
}

Verdict samples_fit_model(const Config& c) {
  return at_most("data.seq_length", c.data.seq_length, family_schema(c.kind).length_key,
                 model::longest_text(c.model()));
}

Verdict synthetic_has_no_sample(const Config& c) {
  if (!format_of(c).is_made_up || c.sample.tokens == 0) return std::nullopt;
  return Finding{format("data.format = {} has no text to sample, but sample.tokens = {}",
                        format_of(c).name, c.sample.tokens),
                 "set sample.tokens = 0, or leave it out"};
}

Verdict documents_are_in_data(const Config& c) {
  if (!format_of(c).is_made_up) return std::nullopt;
  if (!c.data.mask_documents && !c.data.restart_positions) return std::nullopt;
  return Finding{
      format("data.{} = true, but data.format = {} has no documents",
             c.data.mask_documents ? "mask_documents" : "restart_positions", format_of(c).name),
      "leave it out, or train on JSON lines, a folder of texts or sets of tokens"};
}

/// True if the format has what the family of the model is fed.
bool feeds(const data::FormatRow& row, const model::Family& family) {
  return family.reads == model::Reads::text ? row.open_tokens != nullptr
                                            : row.open_pictures != nullptr;
}

Verdict data_have_path(const Config& c) {
  const data::FormatRow& format_row = format_of(c);
  if (format_row.is_made_up || !feeds(format_row, c.family())) return std::nullopt;
  const bool is_blend = !c.data.blend.empty(), has_path = !c.data.path.empty();
  if (!format_row.is_of_sets) {
    if (has_path) return std::nullopt;
    return Finding{format("data.format = {} needs data.path", format_row.name),
                   format("set data.path to {}, or data.format = synthetic", format_row.path_hint)};
  }
  if (is_blend != has_path) return std::nullopt;
  return Finding{is_blend ? "data.path and data.blend are both set"
                          : "data.path and data.blend are both empty, and this data.format "
                            "needs one of them",
                 "set data.path for one set, data.blend for several"};
}

Verdict data_are_of_the_kind(const Config& c) {
  if (feeds(format_of(c), c.family())) return std::nullopt;
  const bool is_text = c.family().reads == model::Reads::text;
  return is_text ? Finding{format("model.kind = {} reads text, but data.format = {}",
                                  kind_word(c.kind), format_of(c).name),
                           format("set model.kind = {}, or another data.format",
                                  kind_words(kinds_that_read(model::Reads::pictures)))}
                 : Finding{format("model.kind = {} looks at pictures, but data.format is of text",
                                  kind_word(c.kind)),
                           "set data.format = pictures, or synthetic"};
}

Verdict synthetic_has_pictures(const Config& c) {
  if (!format_of(c).is_made_up) return std::nullopt;
  const model::DataFacts facts = model::data_facts(c.model());
  if (facts.picture.size() == 3 && facts.num_labels > 0) return std::nullopt;
  const FamilySchema& family = family_schema(c.kind);
  const bool has_picture = !facts.picture.empty();
  return Finding{format("data.format = {} is of no size of its own, but {} is open",
                        format_of(c).name, has_picture ? family.labels_key : family.picture_key),
                 has_picture ? format("set {}, for example 10", family.labels_key)
                             : format("set {}, for example [32, 32, 3]", family.picture_key)};
}

Verdict synthetic_validates_itself(const Config& c) {
  if (!format_of(c).is_made_up || c.data.validation.empty()) return std::nullopt;
  return Finding{
      format("data.format = {} reads no files, but data.validation names one", format_of(c).name),
      "leave data.validation out; the end of the made-up tokens validates"};
}

Verdict blend_is_of_sets(const Config& c) {
  if (format_of(c).is_of_sets || c.data.blend.empty()) return std::nullopt;
  return Finding{
      format("data.blend is a list of sets of tokens, but data.format = {}", format_of(c).name),
      "set data.format = megatron, or leave data.blend out; `fourfold data tokenize` "
      "makes such sets"};
}

Verdict tokenizer_has_path(const Config& c) {
  const auto kind = c.data.tokenizer;
  const bool is_model = kind == tokenizer::TokenizerKind::sentencepiece,
             is_gpt2 = kind == tokenizer::TokenizerKind::gpt2,
             is_hub = kind == tokenizer::TokenizerKind::hub;
  const bool is_file = is_model || is_gpt2 || is_hub;
  if (is_file == !c.data.tokenizer_path.empty()) return std::nullopt;
  if (!is_file)
    return Finding{
        "data.tokenizer_path is set, but data.tokenizer needs no file",
        "set data.tokenizer = sentencepiece, gpt2 or hub, or leave data.tokenizer_path out"};
  const char* const name = is_model ? "sentencepiece" : is_gpt2 ? "gpt2" : "hub";
  return Finding{format("data.tokenizer = {} needs data.tokenizer_path", name),
                 is_model  ? "set it to a .model file; `fourfold data train-tokenizer` makes one"
                 : is_gpt2 ? "set it to a folder with vocab.json and merges.txt"
                           : "set it to a folder with tokenizer.json"};
}

Verdict bytes_fit_vocabulary(const Config& c) {
  const bool is_byte = format_of(c).has_words && c.data.tokenizer == tokenizer::TokenizerKind::byte;
  constexpr std::int64_t bytes = 256;
  const std::int64_t tokens = num_labels(c);
  if (!is_byte || tokens == 0 || tokens >= bytes) return std::nullopt;
  const std::string& key = family_schema(c.kind).labels_key;
  return Finding{format("data.tokenizer = byte has 256 tokens, but {} = {}", key, tokens),
                 format("leave {} out, or set it to at least 256", key)};
}

/// The rules between data and the keys of one family that is fed text.
void add_rules_of_text(std::vector<Rule>& rules, const FamilySchema& family) {
  rules.push_back({{family.labels_key, "data.format"}, synthetic_has_vocabulary});
  rules.push_back({{"data.seq_length", family.length_key}, samples_fit_model});
  rules.push_back({{"data.tokenizer", family.labels_key, "data.format"}, bytes_fit_vocabulary});
}

void add_rules_of_pictures(std::vector<Rule>& rules, const FamilySchema& family) {
  rules.push_back({{"data.format", "data.path", family.picture_key}, data_have_path});
  rules.push_back({{"data.format", family.picture_key, family.labels_key}, synthetic_has_pictures});
}

}  // namespace

Rule rule_of_picture(const std::string& picture_key) {
  return {{picture_key}, [picture_key](const Config& c) -> Verdict {
            const std::vector<std::int64_t> picture = model::data_facts(c.model()).picture;
            if (picture.empty()) return std::nullopt;
            if (picture.size() != 3)
              return Finding{format("{} has {} numbers, expected height, width and channels",
                                    picture_key, picture.size()),
                             "for example [32, 32, 3]"};
            if (const auto fault = data::fault_of({picture[0], picture[1], picture[2]}))
              return Finding{format("{} {}", picture_key, *fault), "for example [32, 32, 3]"};
            return std::nullopt;
          }};
}

std::vector<Rule> data_rules() {
  std::vector<Rule> rules = {
      {{"sample.tokens", "data.format"}, synthetic_has_no_sample},
      {{"data.mask_documents", "data.restart_positions", "data.format"}, documents_are_in_data},
      {{"data.path", "data.blend", "data.format"}, data_have_path},
      {{"data.validation", "data.format"}, synthetic_validates_itself},
      {{"data.blend", "data.format"}, blend_is_of_sets},
      {{"data.format", "model.kind"}, data_are_of_the_kind},
      {{"data.tokenizer", "data.tokenizer_path"}, tokenizer_has_path},
  };
  for (const model::Kind kind : model::kinds) {
    const bool is_text = model::family(kind).reads == model::Reads::text;
    const auto before = static_cast<std::ptrdiff_t>(rules.size());
    (is_text ? add_rules_of_text : add_rules_of_pictures)(rules, family_schema(kind));
    for (auto rule = rules.begin() + before; rule != rules.end(); ++rule) rule->kinds = {kind};
  }
  return rules;
}

}  // namespace fourfold::config
