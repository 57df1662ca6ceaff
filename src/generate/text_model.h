// The model as generation sees it: a list of tokens in, the logits of the next token out. Owns what
// the key/value cache holds; does not sample.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "run/executor.h"

namespace fourfold::generate {

class TextModel {
 public:
  /// Requires the programs "prefill" and "decode" in the executor's bundle. `capacity`: how many
  /// tokens the key/value cache can hold; 0: as many as "prefill" takes. A stage of a pipeline that
  /// is fed nothing has to be told.
  explicit TextModel(run::Executor& executor, std::int64_t capacity = 0);

  /// How many tokens the key/value cache can hold.
  std::int64_t capacity() const { return capacity_; }
  /// How many it holds.
  std::int64_t num_cached() const { return num_cached_; }

  /// Replaces the cache by these tokens, 1 to capacity() of them; returns the logits after the
  /// last.
  std::vector<double> prefill(std::span<const std::int32_t> tokens);
  /// Appends a token to the cache, which must not be full; returns the logits after it.
  std::vector<double> decode(std::int32_t token);

 private:
  std::vector<double> run(op::ProgramKind program, std::span<const std::int32_t> tokens,
                          std::int64_t position, std::int64_t index);

  run::Executor& executor_;
  std::int64_t capacity_ = 0;
  std::int64_t num_cached_ = 0;
};

}  // namespace fourfold::generate
