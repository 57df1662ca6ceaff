#include "train/feeders.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/format.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/train/scripted_backend.h"

namespace fourfold::train {
namespace {

using Ids = std::vector<std::int32_t>;

const Input tokens_input{"tokens", DType::i32, {16}}, labels_input{"labels", DType::i32, {16}},
    starts_input{"document_starts", DType::i32, {16}};
/// Micro-batch 2 of rank 1 of two: micro-batches of 6 samples, of which samples 3, 4 and 5 are its
/// own.
constexpr run::Samples samples{5, 2 * 6 + 3, 3};

std::span<std::byte> bytes_of(Ids& ids) {
  return std::as_writable_bytes(std::span(ids));
}

Ids part(const Ids& ids, std::size_t sample) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(16 * sample),
          ids.begin() + static_cast<std::ptrdiff_t>(16 * sample + 16)};
}

TEST(TrainFeeder, samples_are_those_that_are_asked_for) {
  const data::TokenSource dataset(synthetic_data());
  TrainFeeder feeder(dataset);
  Ids tokens(48), labels(48), wanted(16);
  feeder.feed(tokens_input, samples, bytes_of(tokens));
  feeder.feed(labels_input, samples, bytes_of(labels));
  for (std::size_t b = 0; b < 3; ++b) {
    const std::int64_t sample = 2 * 6 + 3 + static_cast<std::int64_t>(b);
    dataset.fill_train_tokens(5, sample, wanted);
    EXPECT_EQ(part(tokens, b), wanted);
    dataset.fill_train_labels(5, sample, wanted);
    EXPECT_EQ(part(labels, b), wanted);
  }
}

TEST(TrainFeeder, document_starts_are_those_of_the_samples_tokens) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines +=
        format("{{\"text\": \"{}\"}}\n", std::string(static_cast<std::size_t>(1 + i % 23), 'a'));
  write_bytes(folder.file("a.jsonl"), lines);
  data::DataSpec spec = synthetic_data();
  spec.format = data::Format::text;
  spec.path = folder.file("a.jsonl");
  spec.split = 0.5;
  spec.mask_documents = true;
  const data::TokenSource dataset(spec);
  TrainFeeder feeder(dataset);
  ValidationFeeder validation(dataset);
  validation.set_range(3);
  Ids starts(48), validated(48), wanted(16);
  feeder.feed(starts_input, samples, bytes_of(starts));
  validation.feed(starts_input, {0, 0, 3}, bytes_of(validated));
  bool any = false;
  for (std::size_t b = 0; b < 3; ++b) {
    dataset.fill_train_document_starts(5, 2 * 6 + 3 + static_cast<std::int64_t>(b), wanted);
    EXPECT_EQ(part(starts, b), wanted);
    any = any || wanted.back() > 0;
    dataset.fill_validation_document_starts(3 + static_cast<std::int64_t>(b), wanted);
    EXPECT_EQ(part(validated, b), wanted);
  }
  EXPECT_TRUE(any) << "some sample holds several documents";
}

TEST(ValidationFeeder, a_batch_goes_on_where_the_one_before_ended) {
  const data::TokenSource dataset(synthetic_data());
  ValidationFeeder feeder(dataset);
  Ids tokens(64), labels(64), wanted(16);
  feeder.set_range(12);
  feeder.feed(tokens_input, {0, 0, 4}, bytes_of(tokens));
  feeder.feed(labels_input, {0, 0, 4}, bytes_of(labels));
  for (std::size_t b = 0; b < 4; ++b) {
    dataset.fill_validation_tokens(12 + static_cast<std::int64_t>(b), wanted);
    EXPECT_EQ(part(tokens, b), wanted);
    dataset.fill_validation_labels(12 + static_cast<std::int64_t>(b), wanted);
    EXPECT_EQ(part(labels, b), wanted);
  }
}

TEST(ValidationFeeder, windows_beyond_the_range_have_no_labels) {
  const data::TokenSource dataset(synthetic_data());
  ValidationFeeder feeder(dataset);
  Ids labels(64), wanted(16);
  feeder.set_range(1, 3);
  feeder.feed(labels_input, {0, 0, 4}, bytes_of(labels));
  dataset.fill_validation_labels(2, wanted);
  EXPECT_EQ(part(labels, 1), wanted);
  EXPECT_EQ(part(labels, 2), Ids(16, data::no_label));
  EXPECT_EQ(part(labels, 3), Ids(16, data::no_label));
}

TEST(ValidationFeeder, windows_beyond_the_split_have_no_labels) {
  const data::TokenSource dataset(synthetic_data());
  ValidationFeeder feeder(dataset);
  feeder.set_range(dataset.validation_samples());
  Ids labels(64, 5);
  feeder.feed(labels_input, {0, 0, 4}, bytes_of(labels));
  EXPECT_EQ(labels, Ids(64, data::no_label));
}

}  // namespace
}  // namespace fourfold::train
