#include "data/train_sentencepiece.h"

#include <sentencepiece_trainer.h>

#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "data/sentencepiece_model.h"

namespace fourfold::data {
namespace {

/// Hands the lines over one by one.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(LineSample& sample) : sample_(sample) { Next(); }
  bool done() const override { return is_done_; }
  void Next() override {
    is_done_ = sample_.empty();
    if (!is_done_) line_ = sample_.take();
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  LineSample& sample_;
  std::string line_;
  bool is_done_ = false;
};

/// reference: the settings of a language model's tokenizer in the library's own documentation
/// (doc/options.md), with which spaces, line breaks and all characters come back.
std::unordered_map<std::string, std::string> settings(const SentencePieceSpec& spec) {
  return {{"model_type", "bpe"},
          {"vocab_size", format("{}", spec.vocab_size)},
          {"character_coverage", format("{}", spec.coverage)},
          {"num_threads", format("{}", spec.threads)},
          {"max_sentence_length", format("{}", most_sentencepiece_line)},
          {"byte_fallback", "true"},
          {"normalization_rule_name", "identity"},
          {"remove_extra_whitespaces", "false"},
          {"add_dummy_prefix", "false"},
          {"split_digits", "true"},
          {"allow_whitespace_only_pieces", "true"},
          {"hard_vocab_limit", "false"},
          {"unk_id", "0"},
          {"eos_id", "1"},
          {"bos_id", "-1"},
          {"pad_id", "-1"},
          {"minloglevel", "3"}};  // else it writes to standard error
}

}  // namespace

TrainedSentencePiece train_sentencepiece(const SentencePieceSpec& spec, LineSample& lines) {
  if (lines.empty())
    throw UserError(ExitCode::bad_data,
                    "the texts have no lines to learn from; name files with text");
  Lines iterator(lines);
  TrainedSentencePiece trained;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train(settings(spec), &iterator, &trained.model);
  if (!status.ok())
    throw UserError(
        ExitCode::bad_config,
        format("sentencepiece cannot learn {} tokens from these texts, which have too few "
               "words for them or too many characters; raise --vocab-size, lower "
               "--coverage, or give more text",
               spec.vocab_size));
  const auto model =
      read_sentencepiece_model(trained.model, "the model just learnt", ExitCode::internal);
  trained.vocab_size = static_cast<std::int64_t>(model.pieces.size());
  return trained;
}

}  // namespace fourfold::data
