#include "train/picture_bound.h"

#include <algorithm>
#include <numeric>

#include "train/evaluate.h"
#include "train/feeders.h"

namespace fourfold::train {

double PictureBound::bits() const {
  return std::accumulate(by_time.begin(), by_time.end(), 0.0);
}

PictureBound bound_of_pictures(run::Executor& executor, const data::Source& source,
                               std::int64_t times, std::optional<std::int64_t> most,
                               const OnBound& on_bound) {
  constexpr op::ProgramKind kind = op::ProgramKind::bound;
  ValidationFeeder feeder(source);
  const program::Program& program = executor.bundle().at(kind);
  const std::int64_t in_batch = program.feeds.micros * program.feeds.samples;
  const std::int64_t total = validation_batches(program, source);
  std::optional<std::int64_t> wanted;
  if (most) wanted = (*most + in_batch - 1) / in_batch;
  const std::vector<std::int64_t> batches = spread_batches(total, wanted);
  const std::int64_t pictures =
      std::min(source.validation_samples(), static_cast<std::int64_t>(batches.size()) * in_batch);
  PictureBound bound;
  bound.by_time.resize(static_cast<std::size_t>(times));
  std::int64_t runs = 0;
  for (const std::int64_t batch : batches) {
    feeder.set_range(batch * in_batch);
    std::int64_t valid = 0;
    for (std::int64_t time = 0; time < times; ++time) {
      const op::ResultBlock result = executor.run(kind,
                                                  {.step = time,
                                                   .first_sample = batch * in_batch,
                                                   .index = static_cast<std::int32_t>(time)},
                                                  &feeder);
      bound.by_time[static_cast<std::size_t>(time)] += result.loss_sum;
      valid = result.valid_count;
      ++runs;
      if (on_bound)
        on_bound(static_cast<double>(runs) /
                     static_cast<double>(times * static_cast<std::int64_t>(batches.size())),
                 pictures);
    }
    bound.pictures += valid;
  }
  for (double& bits : bound.by_time) bits /= static_cast<double>(bound.pictures);
  return bound;
}

}  // namespace fourfold::train
