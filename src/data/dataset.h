// The tokens of a run and which of them each sample holds. Not a loader with state: there is
// nothing to save or resume.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "data/data_spec.h"
#include "data/tokenizer.h"

namespace fourfold::data {

/// The label of a position that has none: its loss does not count.
inline constexpr std::int32_t no_label = -1;

/// One sequence of tokens, the first part for training, the rest for validation; a token of one
/// part never stands in a window of the other. A window's length T is the size of the span to fill;
/// label i is the token after token i.
class Dataset {
 public:
  /// Reads the whole file, or makes the stream. Errors: UserError(bad_data) for a file that is
  /// missing, empty, not in the tokenizer's alphabet, or too short for one sequence of
  /// spec.seq_length and its labels in either part.
  explicit Dataset(const DataSpec& spec);

  std::int64_t vocab_size() const { return tokenizer_->vocab_size(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::span<const std::int32_t> train_tokens() const {
    return std::span(tokens_).first(num_train_);
  }
  std::span<const std::int32_t> validation_tokens() const {
    return std::span(tokens_).subspan(num_train_);
  }

  /// Sample `sample` of step `step` (both from 0): a window at a uniformly random place of the
  /// training part, a pure function of (seed, step, sample). Two samples may overlap. Requires more
  /// than T training tokens.
  void fill_train_tokens(std::int64_t step, std::int64_t sample,
                         std::span<std::int32_t> tokens) const;
  void fill_train_labels(std::int64_t step, std::int64_t sample,
                         std::span<std::int32_t> labels) const;
  /// Where that window begins in the training part.
  std::int64_t train_window_start(std::int64_t step, std::int64_t sample,
                                  std::int64_t length) const;

  /// How many windows of T tokens hold every token of the validation part but the first once as a
  /// label. The last may be ragged.
  std::int64_t validation_windows(std::int64_t length) const;
  /// Window w holds tokens [w T, (w + 1) T) of the validation part. Beyond its end tokens are 0 and
  /// labels `no_label`; so windows that do not exist have no labels at all.
  void fill_validation_tokens(std::int64_t window, std::span<std::int32_t> tokens) const;
  void fill_validation_labels(std::int64_t window, std::span<std::int32_t> labels) const;

 private:
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::vector<std::int32_t> tokens_;
  std::size_t num_train_ = 0;
  std::uint64_t seed_ = 0;
};

/// Throws UserError(bad_data) naming `source`, the place and the id, when an id is not in [0,
/// vocab_size).
void check_token_ids(std::span<const std::int32_t> ids, std::int64_t vocab_size,
                     std::string_view source);

}  // namespace fourfold::data
