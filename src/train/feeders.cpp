#include "train/feeders.h"

namespace fourfold::train {
namespace {

/// Calls `fill` with the index among the samples of all ranks, and the ids of that sample.
template <class Fill>
void for_samples(const program::Feeds& feeds, std::int64_t micro, std::span<std::int32_t> ids,
                 const Fill& fill) {
  const auto length = static_cast<std::size_t>(feeds.length);
  for (std::int64_t b = 0; b < feeds.count; ++b)
    fill(micro * feeds.samples + feeds.first + b,
         ids.subspan(static_cast<std::size_t>(b) * length, length));
}

}  // namespace

void TrainFeeder::feed(program::FeedKind kind, const program::Feeds& feeds, std::int64_t step,
                       std::int64_t micro, std::span<std::int32_t> ids) {
  for_samples(feeds, micro, ids, [&](std::int64_t sample, std::span<std::int32_t> sample_ids) {
    switch (kind) {
      case program::FeedKind::tokens:
        return dataset_.fill_train_tokens(step, sample, sample_ids);
      case program::FeedKind::labels:
        return dataset_.fill_train_labels(step, sample, sample_ids);
      case program::FeedKind::document_starts:
        return dataset_.fill_train_document_starts(step, sample, sample_ids);
    }
  });
}

void ValidationFeeder::feed(program::FeedKind kind, const program::Feeds& feeds, std::int64_t,
                            std::int64_t micro, std::span<std::int32_t> ids) {
  const std::int64_t first_window = batch_ * feeds.micros * feeds.samples;
  for_samples(feeds, micro, ids, [&](std::int64_t sample, std::span<std::int32_t> sample_ids) {
    const std::int64_t window = first_window + sample;
    switch (kind) {
      case program::FeedKind::tokens:
        return dataset_.fill_validation_tokens(window, sample_ids);
      case program::FeedKind::labels:
        return dataset_.fill_validation_labels(window, sample_ids);
      case program::FeedKind::document_starts:
        return dataset_.fill_validation_document_starts(window, sample_ids);
    }
  });
}

}  // namespace fourfold::train
