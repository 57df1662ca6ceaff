// The token ids of pieces of text that come again and again, such as words. Not a cache of
// everything: long pieces are not kept, and a piece may push another one out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace fourfold::tokenizer {

/// Memory: num_slots cache lines, whatever it is asked to keep. For one thread at a time.
class ChunkCache {
 public:
  static constexpr std::size_t most_bytes = 26, most_ids = 9;

  ChunkCache();
  /// The ids of a chunk that is held; nothing for another one. They stay valid until the next call
  /// of `keep`.
  std::optional<std::span<const std::int32_t>> find(std::string_view chunk) const;
  void keep(std::string_view chunk, std::span<const std::int32_t> ids);

 private:
  struct alignas(64) Slot {
    std::array<char, most_bytes> text;
    std::uint8_t num_bytes = 0;  // 0: empty
    std::uint8_t num_ids = 0;
    std::array<std::int32_t, most_ids> ids;
  };
  static constexpr std::size_t num_slots = std::size_t{1} << 15;
  static std::size_t place_of(std::string_view chunk);

  std::vector<Slot> slots_;
};

/// Lends a cache to each of several threads.
class ChunkCaches {
 public:
  /// Runs use(cache) with a cache that nobody else uses meanwhile.
  template <class Use>
  void lend(Use&& use) {
    std::unique_ptr<ChunkCache> cache = take();
    use(*cache);
    give_back(std::move(cache));
  }

 private:
  std::unique_ptr<ChunkCache> take();
  void give_back(std::unique_ptr<ChunkCache> cache);

  std::mutex mutex_;
  std::vector<std::unique_ptr<ChunkCache>> free_;
};

}  // namespace fourfold::tokenizer
