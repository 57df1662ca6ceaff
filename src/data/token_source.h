// The tokens of a run and which of them each sample holds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/blend.h"
#include "data/data_spec.h"
#include "data/source.h"
#include "data/token_stream.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::data {

/// One or several streams of tokens, the first part of each for training, the rest for validation;
/// or all of them for training, and one of its own for validation. A token of one part never stands
/// in a window of the other. A sample is a window of T tokens, T being the size of
/// the span to fill; label i is the token after token i.
///
/// Which window a training sample is, is a pure function of (seed, step, sample):
/// - A text or the synthetic stream, which lie in memory: a window at a uniformly random place; two
///   samples may overlap.
/// - Sets on the disk: the samples of the run are numbered g = step * samples_per_step + sample;
///   the blend says which set sample g comes from and how many came from it before. A set with N
///   training tokens has n = floor((N - 1) / T) windows an epoch, side by side, shifted together by
///   a random part of what is left over, in a random order without a table (permutation.h): each
///   window of an epoch is seen exactly once.
///
/// Errors of the functions that fill: UserError(bad_data) for a token that is not in the
/// vocabulary, with file, place, sample and position, the same for tokens and labels; and for a
/// file that can no longer be read.
class TokenSource final : public Source {
 public:
  /// Reads a text whole, checks the index of a set. Errors: UserError(bad_data) for a file that is
  /// missing, empty, damaged, not in the tokenizer's alphabet, or too short for one sequence of
  /// spec.seq_length and its labels in either part, or for spec.samples_per_step samples that
  /// differ; for data of one document where the spec makes something of their borders.
  explicit TokenSource(const DataSpec& spec);

  std::string name() const override;
  std::string validation_name() const override;
  std::int64_t num_train() const override;
  std::int64_t num_validation() const override;
  std::int64_t num_labels() const override { return vocab_size(); }
  std::string fingerprint() const override;
  std::string read_as() const override { return read_as_; }
  std::vector<std::string> warnings() const override { return warnings_; }
  const tokenizer::Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  std::string beginning() const override;
  std::int64_t vocab_size() const { return tokenizer_->vocab_size(); }

  /// Samples of spec.seq_length tokens.
  void fill_train(std::size_t input, std::int64_t step, std::int64_t sample,
                  std::span<std::byte> into) const override;
  std::int64_t validation_samples() const override { return validation_windows(seq_length_); }
  void fill_validation(std::size_t input, std::int64_t sample,
                       std::span<std::byte> into) const override;

  /// Tokens [first, first + T] of a set's stream.
  struct Window {
    std::size_t set = 0;
    std::int64_t first = 0;
    bool operator==(const Window&) const = default;
  };
  /// Sample `sample` of step `step`, both from 0. Requires more than T training tokens.
  Window train_window(std::int64_t step, std::int64_t sample, std::int64_t length) const;
  void fill_train_tokens(std::int64_t step, std::int64_t sample,
                         std::span<std::int32_t> tokens) const;
  void fill_train_labels(std::int64_t step, std::int64_t sample,
                         std::span<std::int32_t> labels) const;
  /// For each position of that window, where its document begins in it: 0 for the document that the
  /// window begins in. So positions i and j belong to one document where they are equal.
  void fill_train_document_starts(std::int64_t step, std::int64_t sample,
                                  std::span<std::int32_t> starts) const;

  /// How many windows of T tokens hold every token of the validation parts but the first of each
  /// once as a label. The last of a set may be ragged. Of a text they stand in order, of sets on
  /// the disk in a fixed random one, so that the first of them are drawn from all.
  std::int64_t validation_windows(std::int64_t length) const;
  /// Beyond the end of its set a window's tokens are 0 and its labels `no_label`; so windows that
  /// do not exist have no labels at all.
  void fill_validation_tokens(std::int64_t window, std::span<std::int32_t> tokens) const;
  void fill_validation_labels(std::int64_t window, std::span<std::int32_t> labels) const;
  void fill_validation_document_starts(std::int64_t window, std::span<std::int32_t> starts) const;

 private:
  /// A stream and where its validation part begins.
  struct Set {
    std::unique_ptr<const TokenStream> stream;
    std::int64_t num_train;
    Random order, shifts;  // of windows, and of their common places
    std::int64_t num_validation() const { return stream->num_tokens() - num_train; }
  };

  /// How many sets train: the first ones.
  std::size_t num_train_sets() const { return sets_.size() - (validates_apart_ ? 1 : 0); }
  void check_sizes(const DataSpec& spec) const;
  void check_blend(std::size_t set, const DataSpec& spec) const;
  void check_documents(const DataSpec& spec) const;
  std::int64_t epoch_window_start(std::size_t set, std::int64_t number, std::int64_t length) const;
  /// The part of a window that exists, at most T + 1 tokens; nothing where there is no such window.
  struct Present {
    Window window;
    std::int64_t size = 0;
  };
  /// Step and sample; or a validation window, where there is no step.
  struct Sample {
    std::int64_t step = -1, number = 0;
    std::string text() const;
  };
  Present validation_window(std::int64_t window, std::int64_t length) const;
  /// Tokens from number `skip` of the window on, then padding. `sample` says whose, for errors.
  void fill(const Present& present, std::int64_t skip, std::int32_t padding,
            std::span<std::int32_t> ids, const Sample& sample) const;
  void fill_document_starts(const Present& present, std::span<std::int32_t> starts) const;

  std::unique_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::vector<Set> sets_;  // at the end the one that validates alone, where there is one
  bool validates_apart_ = false;
  std::string read_as_;
  std::vector<std::string> warnings_;
  Blend blend_;
  bool in_epochs_ = false;  // sets on the disk
  std::uint64_t seed_ = 0;
  std::int64_t samples_per_step_ = 0, seq_length_ = 0;
};

}  // namespace fourfold::data
