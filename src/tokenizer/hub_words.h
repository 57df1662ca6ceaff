// The tokens of one word by the model of a tokenizer.json. No text is cut into words here, but
// where its tokens themselves let it be.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/byte_pair_merges.h"
#include "tokenizer/hub_file.h"

namespace fourfold::tokenizer {

class HubWords {
 public:
  explicit HubWords(const HubFile& file);

  /// Replaces `ids` by those of the word. False: a byte of it has no token.
  bool encode(std::string_view word, std::vector<std::int32_t>& ids) const;

  /// True if no token reaches from a character that ends with this byte over a U+2581 after it: a
  /// text may be cut between them.
  bool shares_before_symbol(char byte) const { return !joined_[static_cast<unsigned char>(byte)]; }

  /// The text that each id stands for.
  const std::vector<std::string>& surfaces() const { return surfaces_; }

 private:
  bool add_bytes(std::string_view word, std::vector<std::int32_t>& ids) const;
  void add_characters(std::string_view word, std::vector<std::int32_t>& ids) const;
  void find_surfaces(const HubFile& file);
  void find_joined(const HubFile& file);

  bool is_of_bytes_, takes_whole_words_, falls_back_to_bytes_, fuses_unknown_;
  std::optional<std::int32_t> unknown_;
  BytePairMerges merges_;
  std::vector<std::string> surfaces_;
  /// The model's tokens by their bytes, or as the file writes them.
  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, 256> ids_of_bytes_{};  // -1: none
  std::bitset<256> joined_;
};

}  // namespace fourfold::tokenizer
