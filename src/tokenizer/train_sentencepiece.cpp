#include "tokenizer/train_sentencepiece.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "tokenizer/sentencepiece_model.h"

namespace fourfold::tokenizer {
namespace {

/// U+2585, by which the library stands for unknown text within itself. A line with it would not be
/// learnt from, and nobody would be told (trainer_interface.cc, LoadSentences).
constexpr std::string_view reserved = "\xE2\x96\x85";

/// Hands the lines over one by one; those with the reserved character in pieces, without it.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(LineSample& sample) : sample_(sample) { Next(); }
  bool done() const override { return is_done_; }
  void Next() override {
    while (pieces_.empty() && !sample_.empty()) take_line();
    is_done_ = pieces_.empty();
    if (is_done_) return;
    line_ = std::move(pieces_.back());
    pieces_.pop_back();
  }
  std::int64_t reserved_lines() const { return reserved_lines_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void take_line() {
    const std::string line = sample_.take();
    if (line.find(reserved) != line.npos) ++reserved_lines_;
    for (std::size_t at = 0; at <= line.size();) {
      const std::size_t end = std::min(line.find(reserved, at), line.size());
      if (end > at) pieces_.push_back(line.substr(at, end - at));
      at = end + reserved.size();
    }
    std::ranges::reverse(pieces_);
  }

  LineSample& sample_;
  std::vector<std::string> pieces_;  // of a line, the next one last
  std::int64_t reserved_lines_ = 0;
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
  trained.reserved_lines = iterator.reserved_lines();
  trained.vocab_size = static_cast<std::int64_t>(model.pieces.size());
  return trained;
}

}  // namespace fourfold::tokenizer
