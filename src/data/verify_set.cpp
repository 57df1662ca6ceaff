#include "data/verify_set.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "data/megatron_set.h"
#include "data/sidecar.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::data {
namespace {

[[noreturn]] void fail_set(const std::string& path, const std::string& what) {
  throw UserError(ExitCode::bad_data,
                  format("{}: {}; make the set again, or copy it again", path, what));
}

void check_hash(const std::string& path, const std::string& expected) {
  const DataFile file(path);
  const std::string found = whole_hash_text(
      file.size(),
      [&](std::int64_t offset, std::span<std::byte> into) { file.read(offset, into); });
  if (found != expected)
    fail_set(path, format("has the hash {}, expected {}: it is damaged", found, expected));
}

/// The largest id. Ids are read by blocks, so that a set of any size is.
std::int64_t check_ids(const MegatronSet& set, std::int64_t below) {
  constexpr std::int64_t block = 1 << 20;
  std::vector<std::int32_t> ids;
  std::int64_t largest = -1;
  for (std::int64_t at = 0; at < set.num_tokens(); at += block) {
    ids.resize(static_cast<std::size_t>(std::min(block, set.num_tokens() - at)));
    if (const auto bad = set.read(at, below, ids))
      fail_set(set.place(bad->position), format("is {}, expected 0 to {}", bad->value, below - 1));
    largest = std::max<std::int64_t>(largest, *std::max_element(ids.begin(), ids.end()));
  }
  return largest;
}

void check_ends(const MegatronSet& set, std::int32_t end_of_document) {
  auto documents = set.index().documents_before(0);
  for (std::int64_t number = 0; const auto document = documents.next(); ++number) {
    std::int32_t last = -1;
    const std::int64_t at = document->first + document->tokens - 1;
    const bool has_end =
        document->tokens > 0 &&
        !set.read(at, std::numeric_limits<std::int32_t>::max(), std::span(&last, 1)) &&
        last == end_of_document;
    if (!has_end)
      fail_set(set.name(), format("document {} does not end with token {}, the end of a document",
                                  number, end_of_document));
  }
}

void check_counts(const MegatronSet& set, const Sidecar& sidecar, const std::string& path) {
  const std::string dtype = facts_of(set.index().dtype()).name;
  if (sidecar.documents != set.num_documents() || sidecar.tokens != set.num_tokens() ||
      sidecar.dtype != dtype)
    fail_set(path, format("says {} documents, {} tokens of type {}; the set has {}, {} and {}",
                          sidecar.documents, sidecar.tokens, sidecar.dtype, set.num_documents(),
                          set.num_tokens(), dtype));
}

}  // namespace

VerifiedSet verify_set(const std::string& path) {
  const std::string prefix = megatron_prefix(path);
  const MegatronSet set(prefix);
  const auto sidecar = read_sidecar(prefix);
  VerifiedSet result;
  result.documents = set.num_documents();
  result.tokens = set.num_tokens();
  if (!sidecar) {
    result.largest_id = check_ids(set, std::numeric_limits<std::int32_t>::max());
    return result;
  }
  result.has_sidecar = true;
  result.vocab_size = sidecar->vocab_size;
  check_counts(set, *sidecar, prefix + ".json");
  check_hash(prefix + ".idx", sidecar->idx_hash);
  check_hash(prefix + ".bin", sidecar->bin_hash);
  result.largest_id = check_ids(set, sidecar->vocab_size);
  const auto tokenizer = tokenizer_of(*sidecar, prefix + ".json");
  if (tokenizer->fingerprint() != sidecar->fingerprint)
    fail_set(prefix + ".json", format("names the tokenizer {}, but holds {}", sidecar->fingerprint,
                                      tokenizer->fingerprint()));
  if (sidecar->ends_documents) {
    if (!tokenizer->end_of_document())
      fail_set(prefix + ".json", "says that documents end with a token that its tokenizer lacks");
    check_ends(set, *tokenizer->end_of_document());
  }
  return result;
}

}  // namespace fourfold::data
