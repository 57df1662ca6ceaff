#include "data/megatron_set.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "data/sampled_hash.h"

namespace fourfold::data {

std::string megatron_prefix(const std::string& path) {
  return path.ends_with(".bin") || path.ends_with(".idx") ? path.substr(0, path.size() - 4) : path;
}

MegatronSet::MegatronSet(const std::string& path)
    : bin_(megatron_prefix(path) + ".bin"),
      index_(megatron_prefix(path) + ".idx", bin_.size(), bin_.path()) {}

std::size_t MegatronSet::run_of(std::int64_t token) const {
  require(token >= 0 && token < num_tokens(), "a token of the set");
  const auto& runs = index_.runs();
  const auto behind =
      std::upper_bound(runs.begin(), runs.end(), token,
                       [](std::int64_t t, const MegatronIndex::Run& run) { return t < run.token; });
  return static_cast<std::size_t>(behind - runs.begin()) - 1;
}

std::int64_t MegatronSet::byte_of(std::int64_t token) const {
  const MegatronIndex::Run& run = index_.runs()[run_of(token)];
  return run.byte + (token - run.token) * facts_of(index_.dtype()).size_bytes;
}

std::optional<BadToken> MegatronSet::read(std::int64_t first, std::int64_t vocab_size,
                                          std::span<std::int32_t> into) const {
  const auto& runs = index_.runs();
  while (!into.empty()) {
    const std::size_t run = run_of(first);
    const std::int64_t end = run + 1 < runs.size() ? runs[run + 1].token : num_tokens();
    const auto part = into.first(
        static_cast<std::size_t>(std::min(end - first, static_cast<std::int64_t>(into.size()))));
    if (const auto bad = read_tokens(bin_, byte_of(first), index_.dtype(), first, vocab_size, part))
      return bad;
    into = into.subspan(part.size());
    first += static_cast<std::int64_t>(part.size());
  }
  return std::nullopt;
}

void MegatronSet::document_begins(std::int64_t first, std::span<std::int64_t> begins) const {
  MegatronIndex::Documents documents = index_.documents_before(first);
  MegatronIndex::Document document;
  for (std::int64_t& begin : begins) {
    while (document.first + document.tokens <= first) {
      const auto next = documents.next();
      require(next.has_value(), "every token belongs to a document");
      document = *next;
    }
    begin = document.first;
    ++first;
  }
}

std::string MegatronSet::place(std::int64_t position) const {
  return format("{}, token {} at byte {}", name(), position, byte_of(position));
}

std::uint64_t MegatronSet::fingerprint() const {
  const std::uint64_t hashes[] = {sampled_hash(bin_), sampled_hash(index_.file())};
  return hash64(std::as_bytes(std::span(hashes)));
}

}  // namespace fourfold::data
