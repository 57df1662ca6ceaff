#include "data/dataset.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/random.h"
#include "base/units.h"
#include "data/synthetic.h"

namespace fourfold::data {
namespace {

struct Source {
  std::string name;  // in messages
  std::unique_ptr<const Tokenizer> tokenizer;
  std::vector<std::int32_t> tokens;
};

Source read_text(const DataSpec& spec) {
  const std::string text = read_file(spec.path);
  auto tokenizer = make_tokenizer(spec.tokenizer, text, spec.path);
  auto tokens = tokenizer->encode(text, spec.path);
  return {spec.path, std::move(tokenizer), std::move(tokens)};
}

Source make_synthetic(const DataSpec& spec) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (spec.vocab_size < 1 || spec.vocab_size > most)
    throw UserError(ExitCode::bad_data, format("data.vocab_size: {}, expected 1 to {}; set how "
                                               "many tokens the synthetic data shall have",
                                               spec.vocab_size, most));
  return {"synthetic data", number_tokenizer(spec.vocab_size), synthetic_tokens(spec.vocab_size)};
}

Source load(const DataSpec& spec) {
  switch (spec.format) {
    case Format::text:
      return read_text(spec);
    case Format::synthetic:
      return make_synthetic(spec);
  }
  fail_internal("every data format can be loaded");
}

/// Tokens of the training part: the fraction of the whole, rounded down.
std::size_t count_train(std::size_t num_tokens, double fraction) {
  return static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(num_tokens));
}

void check_length(std::string_view part, std::size_t num_tokens, std::size_t num_all,
                  const DataSpec& spec, std::string_view source) {
  if (static_cast<std::int64_t>(num_tokens) > spec.seq_length) return;
  throw UserError(ExitCode::bad_data,
                  format("{}: the {} part has {} of {} tokens (data.split: {}), expected at least "
                         "{} for one sequence and its last "
                         "label; use more text, a smaller seq_length, or another data.split",
                         source, part, format_grouped(static_cast<std::int64_t>(num_tokens)),
                         format_grouped(static_cast<std::int64_t>(num_all)), spec.split,
                         format_grouped(spec.seq_length + 1)));
}

/// Copies what there is of [first, first + size) and pads the rest.
void copy_padded(std::span<const std::int32_t> from, std::int64_t first, std::int32_t padding,
                 std::span<std::int32_t> to) {
  const auto begin = std::min(static_cast<std::size_t>(first), from.size());
  const auto present = from.subspan(begin, std::min(to.size(), from.size() - begin));
  const auto rest = std::copy(present.begin(), present.end(), to.begin());
  std::fill(rest, to.end(), padding);
}

std::int64_t length_of(std::span<const std::int32_t> window) {
  return static_cast<std::int64_t>(window.size());
}

}  // namespace

void check_token_ids(std::span<const std::int32_t> ids, std::int64_t vocab_size,
                     std::string_view source) {
  const auto bad = std::find_if(ids.begin(), ids.end(),
                                [&](std::int32_t id) { return id < 0 || id >= vocab_size; });
  if (bad == ids.end()) return;
  throw UserError(ExitCode::bad_data, format("{}: token {} is {}, expected 0 to {}; the data do "
                                             "not belong to this vocabulary: make them again",
                                             source, bad - ids.begin(), *bad, vocab_size - 1));
}

Dataset::Dataset(const DataSpec& spec) : seed_(spec.seed) {
  Source source = load(spec);
  check_token_ids(source.tokens, source.tokenizer->vocab_size(), source.name);
  const std::size_t num_all = source.tokens.size();
  num_train_ = count_train(num_all, spec.split);
  check_length("training", num_train_, num_all, spec, source.name);
  check_length("validation", num_all - num_train_, num_all, spec, source.name);
  tokenizer_ = std::move(source.tokenizer);
  tokens_ = std::move(source.tokens);
}

std::int64_t Dataset::train_window_start(std::int64_t step, std::int64_t sample,
                                         std::int64_t length) const {
  require(step >= 0 && std::in_range<std::uint32_t>(step), "a step counts from 0 and fits 32 bits");
  require(sample >= 0, "a sample counts from 0");
  const auto num_tokens = static_cast<std::int64_t>(num_train_);
  require(length >= 1 && length < num_tokens,
          "the training part holds a window and its last label");
  const Random random(seed_, random_stream("data.order"));
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(num_tokens - length),
                                                static_cast<std::uint64_t>(sample),
                                                static_cast<std::uint32_t>(step)));
}

void Dataset::fill_train_tokens(std::int64_t step, std::int64_t sample,
                                std::span<std::int32_t> tokens) const {
  copy_padded(train_tokens(), train_window_start(step, sample, length_of(tokens)), 0, tokens);
}

void Dataset::fill_train_labels(std::int64_t step, std::int64_t sample,
                                std::span<std::int32_t> labels) const {
  copy_padded(train_tokens(), train_window_start(step, sample, length_of(labels)) + 1, no_label,
              labels);
}

std::int64_t Dataset::validation_windows(std::int64_t length) const {
  require(length >= 1, "a window holds tokens");
  const std::int64_t num_labels = length_of(validation_tokens()) - 1;
  return (num_labels + length - 1) / length;
}

void Dataset::fill_validation_tokens(std::int64_t window, std::span<std::int32_t> tokens) const {
  require(window >= 0, "a window counts from 0");
  copy_padded(validation_tokens(), window * length_of(tokens), 0, tokens);
}

void Dataset::fill_validation_labels(std::int64_t window, std::span<std::int32_t> labels) const {
  require(window >= 0, "a window counts from 0");
  copy_padded(validation_tokens(), window * length_of(labels) + 1, no_label, labels);
}

}  // namespace fourfold::data
