#include "run/cuda/pinned_feeds.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/error.h"

namespace fourfold::run::cuda {

PinnedFeeds::PinnedFeeds(Device& device, const PreparedProgram& prepared) : prepared_(prepared) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < prepared.instructions.size(); ++i)
    if (const auto* feed = std::get_if<PreparedFeed>(&prepared.instructions[i].what)) {
      entries_.push_back({i, bytes});
      bytes += feed->ids[0].size_bytes();
    }
  if (entries_.empty()) return;
  for (PinnedMemory& memory : memory_)
    memory = make_pinned(device, static_cast<std::int64_t>(bytes));
}

RowCopy PinnedFeeds::copy_of(std::size_t instruction, std::size_t parity) const {
  const auto entry = std::ranges::lower_bound(entries_, instruction, {}, &Entry::instruction);
  const std::span<std::int32_t> ids =
      std::get<PreparedFeed>(prepared_.instructions[instruction].what).ids[parity];
  const auto bytes = static_cast<std::int64_t>(ids.size_bytes());
  return {reinterpret_cast<std::byte*>(ids.data()),
          bytes,
          memory_[parity].get() + entry->offset_bytes,
          bytes,
          bytes,
          1};
}

void PinnedFeeds::fill(std::int64_t step, Feeder* feeder, const Failed& failed) {
  const std::optional<Ahead> ahead = std::exchange(ahead_, std::nullopt);
  if (ahead && ahead->step == step && ahead->feeder == feeder) return;
  for (const Entry& entry : entries_) try {
      require(feeder != nullptr, "a program with feeds is given a feeder");
      fill_one(entry, step, *feeder);
    } catch (const std::exception& exception) {
      return failed(entry.instruction, exception);
    }
}

void PinnedFeeds::fill_ahead(std::int64_t step, Feeder& feeder) {
  ahead_.reset();
  if (entries_.empty()) return;
  try {
    for (const Entry& entry : entries_) fill_one(entry, step, feeder);
    ahead_ = Ahead{step, &feeder};
  } catch (const std::exception&) {
    // Perhaps there is no such step; if there is, it is asked for again and says so.
  }
}

void PinnedFeeds::fill_one(const Entry& entry, std::int64_t step, Feeder& feeder) {
  const auto& feed = std::get<PreparedFeed>(prepared_.instructions[entry.instruction].what);
  const auto parity = static_cast<std::size_t>(step & 1);
  // Pinned memory begins on a page, and all before it are ids.
  auto* const ids = reinterpret_cast<std::int32_t*>(memory_[parity].get() + entry.offset_bytes);
  feeder.feed(feed.kind, prepared_.program->feeds, step, feed.micro, {ids, feed.ids[0].size()});
}

}  // namespace fourfold::run::cuda
