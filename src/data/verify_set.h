// The whole check of a Megatron set: what opening it does not read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fourfold::data {

struct VerifiedSet {
  std::int64_t documents = 0, tokens = 0;
  std::int64_t largest_id = -1;
  std::optional<std::int64_t> vocab_size;  // of the sidecar
  bool has_sidecar = false;                // so hashes were compared
};

/// Reads every byte: the index, that each id is below the vocabulary of PREFIX.json (without one:
/// that it is not negative), that documents end as it says, and that both files have its hashes.
/// Errors: UserError(bad_data) with the first thing that is wrong.
VerifiedSet verify_set(const std::string& path);

}  // namespace fourfold::data
