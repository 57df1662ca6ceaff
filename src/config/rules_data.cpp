// Relations between the keys of data, and with the model that reads it.
#include "config/rules_words.h"
#include "config/schema.h"

namespace fourfold::config {
namespace {

Verdict synthetic_has_vocabulary(const Config& c) {
  if (c.data.format != data::Format::synthetic || c.gpt.vocab_size > 0) return std::nullopt;
  return Finding{
      "data.format = synthetic has no tokenizer, so model.vocab_size must say how many tokens "
      "there are",
      "set model.vocab_size, for example 256 (50257 as GPT-2)"};
}

Verdict synthetic_has_no_sample(const Config& c) {
  if (c.data.format != data::Format::synthetic || c.sample.tokens == 0) return std::nullopt;
  return Finding{format("data.format = synthetic has no text to sample, but sample.tokens = {}",
                        c.sample.tokens),
                 "set sample.tokens = 0, or leave it out"};
}

Verdict documents_are_in_data(const Config& c) {
  if (c.data.format != data::Format::synthetic) return std::nullopt;
  if (!c.data.mask_documents && !c.data.restart_positions) return std::nullopt;
  return Finding{format("data.{} = true, but data.format = synthetic has no documents",
                        c.data.mask_documents ? "mask_documents" : "restart_positions"),
                 "leave it out, or train on JSON lines, a folder of texts or sets of tokens"};
}

Verdict data_have_path(const Config& c) {
  const bool is_blend = !c.data.blend.empty();
  switch (c.data.format) {
    case data::Format::synthetic:
    case data::Format::pictures:
      return std::nullopt;
    case data::Format::text:
      if (!c.data.path.empty()) return std::nullopt;
      return Finding{"data.format = text needs data.path",
                     "set data.path to a text file, or data.format = synthetic"};
    case data::Format::megatron:
    case data::Format::llmc:
      if (is_blend != !c.data.path.empty()) return std::nullopt;
      return Finding{is_blend ? "data.path and data.blend are both set"
                              : "data.path and data.blend are both empty, and this data.format "
                                "needs one of them",
                     "set data.path for one set, data.blend for several"};
  }
  return std::nullopt;
}

Verdict data_are_of_the_kind(const Config& c) {
  const bool is_text = c.kind == model::Kind::gpt;
  const bool fits = c.data.format == data::Format::synthetic ||
                    is_text == (c.data.format != data::Format::pictures);
  if (fits) return std::nullopt;
  return is_text ? Finding{"model.kind = gpt reads text, but data.format = pictures",
                           "set model.kind = vgg or unet, or another data.format"}
                 : Finding{format("model.kind = {} looks at pictures, but data.format is of text",
                                  kind_word(c.kind)),
                           "set data.format = pictures, or synthetic"};
}

Verdict pictures_have_path(const Config& c) {
  if (c.data.format != data::Format::pictures || !c.data.path.empty()) return std::nullopt;
  return Finding{"data.format = pictures needs data.path",
                 "set data.path to a file or a folder of pictures, or data.format = synthetic"};
}

Verdict synthetic_has_pictures(const Config& c) {
  if (c.data.format != data::Format::synthetic) return std::nullopt;
  if (c.picture().size() == 3 && c.num_classes() > 0) return std::nullopt;
  const std::string kind = kind_word(c.kind);
  return Finding{format("data.format = synthetic is of no size of its own, but {}.{} is open", kind,
                        c.picture().empty() ? "picture" : "num_classes"),
                 c.picture().empty() ? format("set {}.picture, for example [32, 32, 3]", kind)
                                     : format("set {}.num_classes, for example 10", kind)};
}

Verdict synthetic_validates_itself(const Config& c) {
  if (c.data.format != data::Format::synthetic || c.data.validation.empty()) return std::nullopt;
  return Finding{"data.format = synthetic reads no files, but data.validation names one",
                 "leave data.validation out; the end of the made-up tokens validates"};
}

Verdict blend_is_of_sets(const Config& c) {
  const bool has_sets =
      c.data.format == data::Format::megatron || c.data.format == data::Format::llmc;
  if (has_sets || c.data.blend.empty()) return std::nullopt;
  return Finding{format("data.blend is a list of sets of tokens, but data.format = {}",
                        c.data.format == data::Format::text ? "text" : "synthetic"),
                 "set data.format = megatron, or leave data.blend out; `fourfold data tokenize` "
                 "makes such sets"};
}

Verdict tokenizer_has_path(const Config& c) {
  const bool is_file = c.data.tokenizer == data::TokenizerKind::sentencepiece ||
                       c.data.tokenizer == data::TokenizerKind::gpt2;
  if (is_file == !c.data.tokenizer_path.empty()) return std::nullopt;
  if (!is_file)
    return Finding{"data.tokenizer_path is set, but data.tokenizer needs no file",
                   "set data.tokenizer = sentencepiece or gpt2, or leave data.tokenizer_path out"};
  const bool is_model = c.data.tokenizer == data::TokenizerKind::sentencepiece;
  return Finding{
      format("data.tokenizer = {} needs data.tokenizer_path", is_model ? "sentencepiece" : "gpt2"),
      is_model ? "set it to a .model file; `fourfold data train-tokenizer` makes one"
               : "set it to a folder with vocab.json and merges.txt"};
}

Verdict bytes_fit_vocabulary(const Config& c) {
  const bool is_byte =
      c.data.format == data::Format::text && c.data.tokenizer == data::TokenizerKind::byte;
  constexpr std::int64_t bytes = 256;
  if (!is_byte || c.gpt.vocab_size == 0 || c.gpt.vocab_size >= bytes) return std::nullopt;
  return Finding{
      format("data.tokenizer = byte has 256 tokens, but model.vocab_size = {}", c.gpt.vocab_size),
      "leave model.vocab_size out, or set it to at least 256"};
}

}  // namespace

std::vector<Rule> data_rules() {
  return {
      {{"model.vocab_size", "data.format"}, synthetic_has_vocabulary},
      {{"sample.tokens", "data.format"}, synthetic_has_no_sample},
      {{"data.mask_documents", "data.restart_positions", "data.format"}, documents_are_in_data},
      {{"data.path", "data.blend", "data.format"}, data_have_path},
      {{"data.validation", "data.format"}, synthetic_validates_itself},
      {{"data.blend", "data.format"}, blend_is_of_sets},
      {{"data.format", "model.kind"}, data_are_of_the_kind},
      {{"data.format", "data.path", "vgg.picture"}, pictures_have_path},
      {{"data.format", "vgg.picture", "vgg.num_classes"}, synthetic_has_pictures},
      {{"data.format", "data.path", "unet.picture"}, pictures_have_path},
      {{"data.format", "unet.picture", "unet.num_classes"}, synthetic_has_pictures},
      {{"data.tokenizer", "data.tokenizer_path"}, tokenizer_has_path},
      {{"data.tokenizer", "model.vocab_size", "data.format"}, bytes_fit_vocabulary},
  };
}

}  // namespace fourfold::config
