#include "run/cuda/pinned_feeds.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/error.h"

namespace fourfold::run::cuda {
namespace {

/// Pinned memory begins on a page; what lies in it one after another is aligned for any element.
std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t alignment = 64;
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

PinnedFeeds::PinnedFeeds(Device& device, const PreparedProgram& prepared) : prepared_(prepared) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < prepared.instructions.size(); ++i)
    if (const auto* feed = std::get_if<PreparedFeed>(&prepared.instructions[i].what)) {
      entries_.push_back({i, bytes});
      bytes += aligned(feed->into[0].size());
    }
  if (entries_.empty()) return;
  for (PinnedMemory& memory : memory_)
    memory = make_pinned(device, static_cast<std::int64_t>(bytes));
}

RowCopy PinnedFeeds::copy_of(std::size_t instruction, std::size_t parity) const {
  const auto entry = std::ranges::lower_bound(entries_, instruction, {}, &Entry::instruction);
  const std::span<std::byte> into =
      std::get<PreparedFeed>(prepared_.instructions[instruction].what).into[parity];
  const auto bytes = static_cast<std::int64_t>(into.size());
  return {into.data(), bytes, memory_[parity].get() + entry->offset_bytes, bytes, bytes, 1};
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
  feeder.feed(*feed.input, {step, feed.first, feed.count},
              {memory_[parity].get() + entry.offset_bytes, feed.into[0].size()});
}

}  // namespace fourfold::run::cuda
