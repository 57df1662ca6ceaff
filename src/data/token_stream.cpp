#include "data/token_stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"

namespace fourfold::data {

MemoryTokens::MemoryTokens(std::string name, std::vector<std::int32_t> tokens,
                           std::span<const std::int64_t> document_sizes)
    : name_(std::move(name)), tokens_(std::move(tokens)) {
  std::int64_t begin = 0;
  for (const std::int64_t size : document_sizes) {
    if (size > 0) document_begins_.push_back(begin);
    begin += size;
  }
  require(begin == num_tokens(), "documents hold all tokens");
}

std::optional<BadToken> MemoryTokens::read(std::int64_t first, std::int64_t vocab_size,
                                           std::span<std::int32_t> into) const {
  const auto from = std::span(tokens_).subspan(static_cast<std::size_t>(first), into.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] < 0 || from[i] >= vocab_size)
      return BadToken{first + static_cast<std::int64_t>(i), from[i]};
    into[i] = from[i];
  }
  return std::nullopt;
}

void MemoryTokens::document_begins(std::int64_t first, std::span<std::int64_t> begins) const {
  auto next = std::upper_bound(document_begins_.begin(), document_begins_.end(), first);
  for (std::int64_t& begin : begins) {
    if (next != document_begins_.end() && *next <= first) ++next;
    begin = *(next - 1);
    ++first;
  }
}

std::string MemoryTokens::place(std::int64_t position) const {
  return format("{}, token {}", name_, position);
}

std::uint64_t MemoryTokens::fingerprint() const {
  return hash64(std::as_bytes(std::span(tokens_)));
}

}  // namespace fourfold::data
