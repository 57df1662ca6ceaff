#include "tokenizer/charsmap.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <unordered_map>

#include "base/format.h"

namespace fourfold::tokenizer {
namespace {

// sentencepiece has room for this many rules that are prefixes of one text and reads past its end
// where there are more, so a model with more is refused.
constexpr int most_nested = 32;
// U+FDFA becomes the longest text of Unicode's own rules (NFKC), 33 bytes.
constexpr std::size_t most_replacement_bytes = 1024;
// Longer than any of Unicode's sequences by far.
constexpr int most_key_bytes = 256;
// The library's own tables have a twentieth of it.
constexpr std::size_t most_units_bytes = std::size_t{4} << 20;

/// One unit of darts-clone's array, as its bits are defined there.
struct Unit {
  std::uint32_t bits = 0;
  bool has_value() const { return (bits >> 8 & 1U) != 0; }
  std::uint32_t label() const { return bits & (1U << 31 | 0xFFU); }
  std::uint32_t offset() const { return (bits >> 10) << ((bits & (1U << 9)) >> 6); }
  std::uint32_t value() const { return bits & ((1U << 31) - 1); }
};

/// What is known of the prefix that leads to a node.
enum class Prefix : std::uint8_t { foreign, ascii, one_space, with_space };

Prefix extend(Prefix prefix, int length, std::uint32_t byte) {
  if (byte == ' ') return length == 0 ? Prefix::one_space : Prefix::with_space;
  if (prefix == Prefix::one_space || prefix == Prefix::with_space) return Prefix::with_space;
  return byte > 0x20 && byte < 0x7F ? Prefix::ascii : prefix;
}

/// Keys share their ends, so nodes have several parents; what is found after a node is kept.
class Walk {
 public:
  Walk(std::string_view units, std::string_view replacements)
      : units_(units), replacements_(replacements) {}

  /// What is wrong; empty when nothing is.
  std::string run() {
    visit(unit(0).offset(), Prefix::foreign, 0);
    if (fault_.empty() && most_nested_found_ > most_nested) fault_ = "too many rules begin alike";
    return fault_;
  }
  const CharsmapFacts& facts() const { return facts_; }

 private:
  static constexpr int in_progress = -1;

  Unit unit(std::size_t at) const {
    Unit result;
    std::memcpy(&result.bits, units_.data() + at * sizeof(result.bits), sizeof(result.bits));
    return result;
  }

  int fail(std::string_view why) {
    if (fault_.empty()) fault_ = why;
    return 0;
  }

  /// The children of a node stand at `base` xor their byte. Returns how many rules may follow each
  /// other on one way after it.
  int visit(std::size_t base, Prefix prefix, int length) {
    // Any byte of a text may be looked up here.
    if ((base | 0xFFU) >= units_.size() / sizeof(std::uint32_t)) return fail("a node lies outside");
    if (length > most_key_bytes) return fail("a rule is too long");
    const auto [place, is_new] =
        nested_.try_emplace(base << 2 | static_cast<std::size_t>(prefix), in_progress);
    if (!is_new)
      return place->second == in_progress ? fail("a node follows itself") : place->second;
    int most = 0;
    for (std::uint32_t byte = 0; byte < 256 && fault_.empty(); ++byte) {
      const Unit child = unit(base ^ byte);
      if (child.label() == byte)
        most = std::max(most, visit_child(base ^ byte, child, prefix, length));
    }
    most_nested_found_ = std::max(most_nested_found_, most);
    return nested_[base << 2 | static_cast<std::size_t>(prefix)] = most;
  }

  int visit_child(std::size_t at, Unit child, Prefix prefix, int length) {
    const std::size_t base = at ^ child.offset();
    const Prefix longer = extend(prefix, length, child.label());
    const int behind = visit(base, longer, length + 1);
    if (!child.has_value() || !fault_.empty()) return behind;
    const std::size_t begin = unit(base).value();
    if (begin >= replacements_.size()) return fail("a replacement lies outside");
    const std::string_view replacement(replacements_.data() + begin);  // ends with a zero byte
    if (replacement.size() > most_replacement_bytes) return fail("a replacement is too long");
    note_spaces(longer, replacement);
    return behind + 1;
  }

  void note_spaces(Prefix key, std::string_view replacement) {
    const bool gives_space = replacement.empty() || replacement.find(' ') != replacement.npos ||
                             replacement.find("\xE2\x96\x81") != replacement.npos;
    const bool is_harmless = key == Prefix::foreign || (key == Prefix::ascii && !gives_space) ||
                             (key == Prefix::one_space && replacement == " ");
    if (!is_harmless) facts_.keeps_spaces_apart = false;
  }

  std::string_view units_, replacements_;
  std::unordered_map<std::size_t, int> nested_;
  int most_nested_found_ = 0;
  std::string fault_;
  CharsmapFacts facts_;
};

}  // namespace

std::variant<CharsmapFacts, std::string> check_charsmap(std::string_view blob) {
  std::uint32_t units_bytes = 0;
  if (blob.size() < sizeof(units_bytes)) return "its table is cut short";
  std::memcpy(&units_bytes, blob.data(), sizeof(units_bytes));
  blob.remove_prefix(sizeof(units_bytes));
  if (units_bytes >= blob.size() || units_bytes == 0 || units_bytes % sizeof(std::uint32_t) != 0)
    return format("its table claims {} of {} bytes", units_bytes, blob.size());
  if (units_bytes > most_units_bytes) return "its table is larger than 4 MiB";
  const std::string_view replacements = blob.substr(units_bytes);
  if (replacements.back() != '\0') return "its last replacement has no end";
  Walk walk(blob.substr(0, units_bytes), replacements);
  if (std::string fault = walk.run(); !fault.empty()) return fault;
  return walk.facts();
}

}  // namespace fourfold::tokenizer
