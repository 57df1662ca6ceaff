#include "train/feeders.h"

namespace fourfold::train {
namespace {

/// Calls `fill` with the number of each sample and its part of `into`.
template <class Fill>
void for_each_sample(const run::Samples& samples, std::span<std::byte> into, const Fill& fill) {
  const std::size_t bytes = into.size() / static_cast<std::size_t>(samples.count);
  for (std::int64_t i = 0; i < samples.count; ++i)
    fill(samples.first + i, into.subspan(static_cast<std::size_t>(i) * bytes, bytes));
}

}  // namespace

void TrainFeeder::feed(const Input& input, const run::Samples& samples, std::span<std::byte> into) {
  const std::size_t place = source_.place_of(input);
  for_each_sample(samples, into, [&](std::int64_t sample, std::span<std::byte> bytes) {
    source_.fill_train(place, samples.step, sample, bytes);
  });
}

void ValidationFeeder::feed(const Input& input, const run::Samples& samples,
                            std::span<std::byte> into) {
  const std::size_t place = source_.place_of(input);
  for_each_sample(samples, into, [&](std::int64_t sample, std::span<std::byte> bytes) {
    // The sample after the last one stands for all that have no labels.
    const std::int64_t of_split = first_ + sample;
    source_.fill_validation(place, of_split < end_ ? of_split : source_.validation_samples(),
                            bytes);
  });
}

}  // namespace fourfold::train
