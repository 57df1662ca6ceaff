#include "data/token_source.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/units.h"
#include "data/permutation.h"
#include "data/token_sets.h"

namespace fourfold::data {
namespace {

std::int64_t length_of(std::span<const std::int32_t> window) {
  return static_cast<std::int64_t>(window.size());
}

/// How many windows of T tokens and a last label stand side by side in so many tokens.
std::int64_t whole_windows(std::int64_t num_tokens, std::int64_t length) {
  return (num_tokens - 1) / length;
}

/// How many it takes for each token but the first to be a label.
std::int64_t covering_windows(std::int64_t num_tokens, std::int64_t length) {
  return num_tokens == 0 ? 0 : (num_tokens - 1 + length - 1) / length;
}

/// Tokens of the training part: the fraction of all, moved back to where a document begins. The
/// document is cut where moving would leave little of what data.split says: if it is the first one,
/// or if more would move than the smaller part has, or than a tenth of all.
std::int64_t count_train(const TokenStream& stream, double fraction) {
  const auto cut = static_cast<std::int64_t>(std::clamp(fraction, 0.0, 1.0) *
                                             static_cast<double>(stream.num_tokens()));
  if (cut <= 0 || cut >= stream.num_tokens()) return cut;
  std::int64_t begin = 0;
  stream.document_begins(cut, std::span(&begin, 1));
  const std::int64_t all = stream.num_tokens();
  const bool moves_little = cut - begin <= std::min({cut, all - cut, all / 10});
  return begin > 0 && moves_little ? begin : cut;
}

void check_length(std::string_view part, std::int64_t num_tokens, std::int64_t num_all,
                  const DataSpec& spec, std::string_view source) {
  if (num_tokens > spec.seq_length) return;
  throw UserError(ExitCode::bad_data,
                  format("{}: the {} part has {} of {} tokens (data.split: {}), expected at least "
                         "{} for one sequence and its last "
                         "label; use more text, a smaller seq_length, or another data.split",
                         source, part, format_grouped(num_tokens), format_grouped(num_all),
                         spec.split, format_grouped(spec.seq_length + 1)));
}

/// For a stream that is used as a whole, `what` for.
void check_whole_length(std::string_view what, const TokenStream& stream, const DataSpec& spec) {
  if (stream.num_tokens() > spec.seq_length) return;
  throw UserError(ExitCode::bad_data,
                  format("{}: has {} {}, expected at least {} for one sequence and its last "
                         "label; use more text, or a smaller data.seq_length",
                         stream.name(), counted(stream.num_tokens(), "token"), what,
                         format_grouped(spec.seq_length + 1)));
}

/// In the order in which fill_train and fill_validation tell them apart.
std::vector<Input> inputs_of(std::int64_t length) {
  return {{"tokens", DType::i32, {length}},
          {"labels", DType::i32, {length}},
          {"document_starts", DType::i32, {length}}};
}

/// Inputs are aligned for their elements.
std::span<std::int32_t> as_ids(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::int32_t*>(bytes.data()), bytes.size() / sizeof(std::int32_t)};
}

}  // namespace

TokenSource::TokenSource(const DataSpec& spec)
    : Source({}, inputs_of(spec.seq_length)),
      blend_(std::vector<double>{1}),
      in_epochs_(row_of(spec.format).is_of_sets),
      seed_(spec.seed),
      samples_per_step_(spec.samples_per_step),
      seq_length_(spec.seq_length) {
  const FormatRow& row = row_of(spec.format);
  require(row.open_tokens != nullptr, "a model of text is fed a format that has some");
  TokenSets sources = row.open_tokens(spec);
  tokenizer_ = std::move(sources.tokenizer);
  blend_ = Blend(sources.weights);
  validates_apart_ = sources.validation != nullptr;
  read_as_ = std::move(sources.read_as);
  warnings_ = std::move(sources.notes);
  const auto add = [&](std::unique_ptr<const TokenStream> stream, std::int64_t num_train) {
    const auto random = [&](const char* what) {
      return Random(seed_, random_stream(format("data.{}.{}", what, sets_.size())));
    };
    sets_.push_back({std::move(stream), num_train, random("epoch"), random("shift")});
  };
  for (auto& stream : sources.streams) {
    const std::int64_t num_train =
        validates_apart_ ? stream->num_tokens() : count_train(*stream, spec.split);
    add(std::move(stream), num_train);
  }
  if (validates_apart_) add(std::move(sources.validation), 0);
  check_sizes(spec);
  check_documents(spec);
}

void TokenSource::check_sizes(const DataSpec& spec) const {
  for (std::size_t i = 0; i < num_train_sets(); ++i) {
    const Set& set = sets_[i];
    const std::string& name = set.stream->name();
    const std::int64_t all = set.stream->num_tokens();
    if (validates_apart_) {
      check_whole_length("for training", *set.stream, spec);
    } else {
      check_length("training", set.num_train, all, spec, name);
      check_length("validation", set.num_validation(), all, spec, name);
    }
    check_blend(i, spec);
  }
  if (validates_apart_) check_whole_length("for validation", *sets_.back().stream, spec);
}

void TokenSource::check_blend(std::size_t i, const DataSpec& spec) const {
  const Set& set = sets_[i];
  const std::string& name = set.stream->name();
  if (blend_.share(i) == 0)
    throw UserError(ExitCode::bad_config,
                    format("data.blend: the weight of {} is below 1/{} of all; leave the set out "
                           "or raise its weight",
                           name, 2 * Blend::period));
  const std::int64_t samples =
      in_epochs_ ? whole_windows(set.num_train, spec.seq_length) : set.num_train - spec.seq_length;
  const std::int64_t in_step =
      (blend_.share(i) * samples_per_step_ + Blend::period - 1) / Blend::period;
  if (samples >= in_step) return;
  throw UserError(ExitCode::bad_data,
                  format("{}: the training part holds {} samples of {} tokens, expected the {} "
                         "that a step takes from it; use more data, a smaller "
                         "train.global_batch_size or data.seq_length",
                         name, format_grouped(samples), format_grouped(spec.seq_length),
                         format_grouped(in_step)));
}

void TokenSource::check_documents(const DataSpec& spec) const {
  if (!spec.mask_documents && !spec.restart_positions) return;
  if (!row_of(spec.format).counts_documents) return;
  std::int64_t documents = 0;
  for (std::size_t i = 0; i < num_train_sets(); ++i) documents += sets_[i].stream->num_documents();
  if (documents > 1) return;
  throw UserError(ExitCode::bad_data,
                  format("{}: is one document, expected several where data.{} = true; leave the "
                         "key out, or use JSON lines, a folder of texts or sets of tokens",
                         name(), spec.mask_documents ? "mask_documents" : "restart_positions"));
}

std::string TokenSource::name() const {
  const std::string& first = sets_.front().stream->name();
  return num_train_sets() == 1 ? first : format("{} and {} more", first, num_train_sets() - 1);
}

std::string TokenSource::validation_name() const {
  return validates_apart_ ? sets_.back().stream->name() : std::string();
}

std::int64_t TokenSource::num_train() const {
  std::int64_t sum = 0;
  for (const Set& set : sets_) sum += set.num_train;
  return sum;
}

std::int64_t TokenSource::num_validation() const {
  std::int64_t sum = 0;
  for (const Set& set : sets_) sum += set.num_validation();
  return sum;
}

std::string TokenSource::fingerprint() const {
  std::vector<std::uint64_t> hashes;
  std::int64_t num_tokens = 0;
  for (std::size_t i = 0; i < num_train_sets(); ++i) {
    hashes.push_back(sets_[i].stream->fingerprint());
    num_tokens += sets_[i].stream->num_tokens();
  }
  const auto in_words = [](std::int64_t count, std::uint64_t hash) {
    return format("{} tokens {:016x}", format_grouped(count), hash);
  };
  const std::uint64_t hash =
      hashes.size() == 1 ? hashes.front() : hash64(std::as_bytes(std::span(hashes)));
  if (!validates_apart_) return in_words(num_tokens, hash);
  const TokenStream& validation = *sets_.back().stream;
  return in_words(num_tokens, hash) + "; " +
         in_words(validation.num_tokens(), validation.fingerprint());
}

std::string TokenSource::beginning() const {
  std::int32_t id = 0;
  const bool is_bad = sets_.front().stream->read(0, vocab_size(), std::span(&id, 1)).has_value();
  return is_bad ? std::string() : tokenizer_->decode(std::span(&id, 1));
}

TokenSource::Window TokenSource::train_window(std::int64_t step, std::int64_t sample,
                                              std::int64_t length) const {
  require(step >= 0 && std::in_range<std::uint32_t>(step), "a step counts from 0 and fits 32 bits");
  require(sample >= 0, "a sample counts from 0");
  if (in_epochs_) {
    require(sample < samples_per_step_, "a sample is one of its step's");
    const auto [set, number] = blend_.pick(step * samples_per_step_ + sample);
    return {set, epoch_window_start(set, number, length)};
  }
  const std::int64_t num_tokens = sets_[0].num_train;
  require(length >= 1 && length < num_tokens,
          "the training part holds a window and its last label");
  const Random random(seed_, random_stream("data.order"));
  return {0, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(num_tokens - length),
                                                    static_cast<std::uint64_t>(sample),
                                                    static_cast<std::uint32_t>(step)))};
}

std::int64_t TokenSource::epoch_window_start(std::size_t set, std::int64_t number,
                                             std::int64_t length) const {
  const std::int64_t num_tokens = sets_[set].num_train;
  const std::int64_t windows = whole_windows(num_tokens, length);
  require(length >= 1 && windows >= 1, "the training part holds a window and its last label");
  const auto epoch = static_cast<std::uint32_t>(number / windows);
  const Permutation permutation(static_cast<std::uint64_t>(windows), sets_[set].order, epoch);
  const auto place = permutation(static_cast<std::uint64_t>(number % windows));
  const std::int64_t left_over = num_tokens - 1 - windows * length;
  const auto shift = sets_[set].shifts.below(static_cast<std::uint64_t>(left_over) + 1, 0, epoch);
  return static_cast<std::int64_t>(place) * length + static_cast<std::int64_t>(shift);
}

std::string TokenSource::Sample::text() const {
  return step < 0 ? format("validation window {}", number)
                  : format("sample {} of step {}", number, step);
}

void TokenSource::fill(const Present& present, std::int64_t skip, std::int32_t padding,
                       std::span<std::int32_t> ids, const Sample& sample) const {
  const std::int64_t there = std::clamp(present.size - skip, std::int64_t{0}, length_of(ids));
  const auto part = ids.first(static_cast<std::size_t>(there));
  std::fill(ids.begin() + there, ids.end(), padding);
  if (part.empty()) return;
  const TokenStream& stream = *sets_[present.window.set].stream;
  const auto bad = stream.read(present.window.first + skip, vocab_size(), part);
  if (!bad) return;
  throw UserError(ExitCode::bad_data,
                  format("{}: is {}, expected 0 to {} ({}, position {}); the data do not belong to "
                         "this vocabulary: make them again",
                         stream.place(bad->position), bad->value, vocab_size() - 1, sample.text(),
                         bad->position - present.window.first));
}

void TokenSource::fill_train(std::size_t input, std::int64_t step, std::int64_t sample,
                             std::span<std::byte> into) const {
  if (input == 0) return fill_train_tokens(step, sample, as_ids(into));
  if (input == 1) return fill_train_labels(step, sample, as_ids(into));
  fill_train_document_starts(step, sample, as_ids(into));
}

void TokenSource::fill_validation(std::size_t input, std::int64_t sample,
                                  std::span<std::byte> into) const {
  if (input == 0) return fill_validation_tokens(sample, as_ids(into));
  if (input == 1) return fill_validation_labels(sample, as_ids(into));
  fill_validation_document_starts(sample, as_ids(into));
}

void TokenSource::fill_train_tokens(std::int64_t step, std::int64_t sample,
                                    std::span<std::int32_t> tokens) const {
  const std::int64_t length = length_of(tokens);
  fill({train_window(step, sample, length), length + 1}, 0, 0, tokens, {step, sample});
}

void TokenSource::fill_train_labels(std::int64_t step, std::int64_t sample,
                                    std::span<std::int32_t> labels) const {
  const std::int64_t length = length_of(labels);
  fill({train_window(step, sample, length), length + 1}, 1, no_label, labels, {step, sample});
}

void TokenSource::fill_train_document_starts(std::int64_t step, std::int64_t sample,
                                             std::span<std::int32_t> starts) const {
  const std::int64_t length = length_of(starts);
  fill_document_starts({train_window(step, sample, length), length + 1}, starts);
}

std::int64_t TokenSource::validation_windows(std::int64_t length) const {
  require(length >= 1, "a window holds tokens");
  std::int64_t sum = 0;
  for (const Set& set : sets_) sum += covering_windows(set.num_validation(), length);
  return sum;
}

TokenSource::Present TokenSource::validation_window(std::int64_t window,
                                                    std::int64_t length) const {
  require(window >= 0, "a window counts from 0");
  const std::int64_t all = validation_windows(length);
  if (window >= all) return {};
  if (in_epochs_) {
    const Random order(0, random_stream("data.validation"));  // the same for every seed
    window = static_cast<std::int64_t>(
        Permutation(static_cast<std::uint64_t>(all), order, 0)(static_cast<std::uint64_t>(window)));
  }
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    const std::int64_t windows = covering_windows(sets_[i].num_validation(), length);
    if (window < windows)
      return {{i, sets_[i].num_train + window * length},
              std::min(length + 1, sets_[i].num_validation() - window * length)};
    window -= windows;
  }
  fail_internal("a validation window belongs to a set");
}

void TokenSource::fill_validation_tokens(std::int64_t window,
                                         std::span<std::int32_t> tokens) const {
  fill(validation_window(window, length_of(tokens)), 0, 0, tokens, {-1, window});
}

void TokenSource::fill_validation_labels(std::int64_t window,
                                         std::span<std::int32_t> labels) const {
  fill(validation_window(window, length_of(labels)), 1, no_label, labels, {-1, window});
}

void TokenSource::fill_validation_document_starts(std::int64_t window,
                                                  std::span<std::int32_t> starts) const {
  fill_document_starts(validation_window(window, length_of(starts)), starts);
}

void TokenSource::fill_document_starts(const Present& present,
                                       std::span<std::int32_t> starts) const {
  const auto size = std::min(static_cast<std::size_t>(present.size), starts.size());
  const std::int64_t first = present.window.first;
  std::array<std::int64_t, 512> begins;
  for (std::size_t at = 0; at < size; at += begins.size()) {
    const auto part = std::span(begins).first(std::min(begins.size(), size - at));
    sets_[present.window.set].stream->document_begins(first + static_cast<std::int64_t>(at), part);
    for (std::size_t i = 0; i < part.size(); ++i)
      starts[at + i] = static_cast<std::int32_t>(std::max(part[i] - first, std::int64_t{0}));
  }
  // What pads a ragged window is no part of its last document.
  std::fill(starts.begin() + static_cast<std::ptrdiff_t>(size), starts.end(),
            static_cast<std::int32_t>(size));
}

}  // namespace fourfold::data
