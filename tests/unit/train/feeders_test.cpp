#include "train/feeders.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/format.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/train/scripted_backend.h"

namespace fourfold::train {
namespace {

using program::FeedKind;
using Ids = std::vector<std::int32_t>;

/// Rank 1 of two: micro-batches of 6 samples, of which samples 3, 4 and 5 are its own.
constexpr program::Feeds feeds{4, 6, 3, 3, 16};

Ids part(const Ids& ids, std::size_t sample) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(16 * sample),
          ids.begin() + static_cast<std::ptrdiff_t>(16 * sample + 16)};
}

TEST(TrainFeeder, local_samples_are_those_that_the_programs_feeds_name) {
  const data::Dataset dataset(synthetic_data());
  TrainFeeder feeder(dataset);
  Ids tokens(48), labels(48), wanted(16);
  feeder.feed(FeedKind::tokens, feeds, 5, 2, tokens);
  feeder.feed(FeedKind::labels, feeds, 5, 2, labels);
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
  const data::Dataset dataset(spec);
  TrainFeeder feeder(dataset);
  ValidationFeeder validation(dataset);
  validation.set_batch(1);
  Ids starts(48), validated(48), wanted(16);
  feeder.feed(FeedKind::document_starts, feeds, 5, 2, starts);
  validation.feed(FeedKind::document_starts, {1, 3, 0, 3, 16}, 0, 0, validated);
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
  const data::Dataset dataset(synthetic_data());
  ValidationFeeder feeder(dataset);
  const program::Feeds one_micro{1, 4, 0, 4, 16};
  Ids tokens(64), labels(64), wanted(16);
  feeder.set_batch(3);
  feeder.feed(FeedKind::tokens, one_micro, 0, 0, tokens);
  feeder.feed(FeedKind::labels, one_micro, 0, 0, labels);
  for (std::size_t b = 0; b < 4; ++b) {
    dataset.fill_validation_tokens(12 + static_cast<std::int64_t>(b), wanted);
    EXPECT_EQ(part(tokens, b), wanted);
    dataset.fill_validation_labels(12 + static_cast<std::int64_t>(b), wanted);
    EXPECT_EQ(part(labels, b), wanted);
  }
}

TEST(ValidationFeeder, windows_beyond_the_split_have_no_labels) {
  const data::Dataset dataset(synthetic_data());
  ValidationFeeder feeder(dataset);
  feeder.set_batch(dataset.validation_windows(16));
  Ids labels(64, 5);
  feeder.feed(FeedKind::labels, {1, 4, 0, 4, 16}, 0, 0, labels);
  EXPECT_EQ(labels, Ids(64, data::no_label));
}

}  // namespace
}  // namespace fourfold::train
