// How likely a model finds each token of a text, by the program that evaluates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "run/executor.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::train {

/// A text as windows of T tokens: every token but the first is the label of the one before.
class Windows {
 public:
  Windows(std::vector<std::int32_t> ids, std::int64_t length)
      : ids_(std::move(ids)), length_(length) {}

  const std::vector<std::int32_t>& ids() const { return ids_; }
  std::int64_t length() const { return length_; }
  std::int64_t labels() const { return static_cast<std::int64_t>(ids_.size()) - 1; }
  std::int64_t count() const { return (labels() + length_ - 1) / length_; }

  /// The token of a place, counted over all windows, or its label; beyond the text 0 and
  /// data::no_label.
  std::int32_t at(std::int64_t place, bool is_label) const;

 private:
  std::vector<std::int32_t> ids_;
  std::int64_t length_;
};

struct TokenScores {
  std::vector<double> log_probabilities;  // of each token but the first, given those before
  std::vector<float> logits;              // after each token but the last; where asked for
  std::int64_t vocab_size = 0;

  double mean_loss() const;
};

/// Runs the executor's program "evaluate" over all windows, as many at once as it takes. `progress`
/// is told how many windows are done.
TokenScores score_tokens(const Windows& windows, run::Executor& executor, bool keeps_logits,
                         const std::function<void(std::int64_t)>& progress);

/// Counts the bytes of the text that the scored tokens stand for: the first token is not predicted,
/// and its bytes do not count. A tokenizer may put a space before a text, or drop those that it
/// begins with.
std::size_t scored_bytes(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                         std::string_view text);

/// Loss, perplexity, and for each token its id and log probability.
Json to_json(const Windows& windows, const TokenScores& scores);
/// Writes a safetensors file with ids (tokens) and logits (tokens - 1, vocabulary). Errors:
/// UserError(storage).
void write_logits(const std::string& path, const Windows& windows, const TokenScores& scores);

}  // namespace fourfold::train
