// Tokens that a text spells: found before it is cut into words. Which they are: hub_file.h.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::tokenizer {

class AddedTokens {
 public:
  struct Token {
    std::string text;  // as a text has it; not empty
    std::int32_t id = 0;
    bool takes_left = false, takes_right = false;  // white space beside it (lstrip, rstrip)
  };
  struct Found {
    std::size_t begin = 0, end = 0;  // with the white space that it takes
    std::int32_t id = 0;
  };

  explicit AddedTokens(std::vector<Token> tokens);

  bool empty() const { return tokens_.empty(); }
  /// The first at or after `from`, of those at one place the longest. White space before `from` is
  /// taken already.
  std::optional<Found> find(std::string_view text, std::size_t from) const;

 private:
  const Token* longest_at(std::string_view text, std::size_t at) const;

  std::vector<Token> tokens_;               // by first byte, then the longest first
  std::array<std::size_t, 257> of_byte_{};  // where those with a first byte begin
  std::bitset<65536> pairs_;                // 256 x first byte + second
};

}  // namespace fourfold::tokenizer
