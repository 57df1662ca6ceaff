#include "verify/batches.h"

#include <algorithm>
#include <set>
#include <variant>

#include "base/format.h"

namespace fourfold::verify {

Batches::Batches(const Program& program) : has_chunks_(program.feeds.chunks != 1) {
  std::set<Batch> batches;
  for (const Task& task : program.tasks)
    if (task.micro) batches.insert({*task.micro, 0});
  for (const Instruction& instruction : program.instructions)
    if (const auto* feed = std::get_if<Feed>(&instruction.what);
        feed != nullptr && batches.contains({feed->micro, 0}))
      batches.insert({feed->micro, feed->chunk});
  list_.assign(batches.begin(), batches.end());
}

std::optional<std::size_t> Batches::number(const Batch& batch) const {
  const auto place = std::ranges::lower_bound(list_, batch);
  if (place == list_.end() || *place != batch) return std::nullopt;
  return static_cast<std::size_t>(place - list_.begin());
}

Batches::Range Batches::chunks_of(std::int64_t micro) const {
  const auto [first, last] = std::ranges::equal_range(list_, micro, {}, &Batch::micro);
  return {static_cast<std::size_t>(first - list_.begin()),
          static_cast<std::size_t>(last - list_.begin())};
}

std::int64_t Batches::num_micros() const {
  return std::ranges::count(list_, 0, &Batch::chunk);
}

std::string Batches::text(std::size_t number) const {
  const Batch& batch = list_[number];
  const std::string micro = format("micro-batch {}", batch.micro);
  return has_chunks_ ? format("chunk {} of {}", batch.chunk, micro) : micro;
}

}  // namespace fourfold::verify
