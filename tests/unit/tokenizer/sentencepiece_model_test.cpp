#include "tokenizer/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tokenizer/charsmap.h"
#include "unit/data/expect_error.h"
#include "unit/tokenizer/tokenizer_files.h"

namespace fourfold::tokenizer {
namespace {

/// Parts of a message in the wire format.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80U));
  return bytes + static_cast<char>(value);
}
std::string number(std::uint32_t field, std::uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string text(std::uint32_t field, std::string_view bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
std::string real(std::uint32_t field, std::uint32_t bits) {
  std::string bytes = varint(field << 3 | 5);
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i)));
  return bytes;
}
std::string piece(std::string_view letters, std::uint64_t kind = 1) {
  return text(1, text(1, letters) + real(2, 0) + number(3, kind));
}
const std::string unknown = piece("<unk>", 2);
const std::string good = unknown + piece("\u2581") + piece("a");

SentencePieceModel read(const std::string& bytes) {
  return read_sentencepiece_model(bytes, "x.model", ExitCode::bad_data);
}

TEST(SentencePieceModel, pieces_and_settings_are_read) {
  const std::string bytes = good + text(2, number(3, 2) + number(24, 1) + text(44, "?")) +
                            text(3, number(3, 0) + number(4, 0) + number(5, 0)) +
                            text(77, "of a later release") + number(99, 5);
  const SentencePieceModel model = read(bytes);
  ASSERT_EQ(model.pieces.size(), 3U);
  EXPECT_EQ(model.pieces[2].text, "a");
  EXPECT_EQ(model.pieces[0].kind, SentencePieceModel::PieceKind::unknown);
  EXPECT_EQ(model.kind, SentencePieceModel::Kind::bpe);
  EXPECT_TRUE(model.space_is_suffix);
  EXPECT_EQ(model.unknown_surface, "?");
  EXPECT_FALSE(model.adds_dummy_prefix || model.removes_extra_spaces || model.escapes_spaces);
  EXPECT_EQ(read(good).kind, SentencePieceModel::Kind::unigram);
  EXPECT_TRUE(read(good).adds_dummy_prefix);
}

TEST(SentencePieceModel, a_byte_piece_names_its_byte) {
  EXPECT_EQ(byte_of_piece("<0x0A>"), 0x0A);
  EXPECT_EQ(byte_of_piece("<0xFF>"), 0xFF);
  for (const std::string name : {"<0x0a>", "<0x0A", "0x0A", "<0xA>", "<0x0AA>", "<0xG0>", ""})
    EXPECT_EQ(byte_of_piece(name), std::nullopt) << name;
}

std::string nested_pieces() {
  std::string model = good, letters;
  for (int i = 0; i < 65; ++i) model += piece(letters += "z", 4);
  return model;
}

struct BadModel {
  std::string bytes;
  std::vector<std::string> says;
};

TEST(SentencePieceModel, bytes_that_would_harm_the_library_are_refused_with_a_reason) {
  const std::vector<BadModel> table = {
      {"", {"0 unknown pieces"}},
      {piece("a"), {"0 unknown pieces"}},
      {good + piece("<u>", 2), {"2 unknown pieces"}},
      {good + "\x0A", {"cut short", "byte"}},
      {good + "\x0A\x7F", {"longer than what is left"}},
      {good + std::string(11, '\xFF'), {"64 bits"}},
      {good + std::string(1, '\x03'), {"no number"}},
      {good + "\x0B", {"not in use"}},
      {good + number(1, 5), {"is no text"}},
      {good + text(1, real(2, 0)), {"piece 3 is empty"}},
      {good + piece(""), {"piece 3 is empty"}},
      {good + piece("a"), {"\"a\" is there twice"}},
      {good + piece(std::string(513, 'b')), {"513 bytes", "512"}},
      {good + piece(std::string("b\0c", 3)), {"zero byte"}},
      {good + piece("b\xFF"), {"not UTF-8"}},
      {good + piece("b", 7), {"type 7", "1 to 6"}},
      {good + piece("<0x00>", 6), {"1 bytes, expected 0"}},
      {good + piece("<0xZZ>", 6), {"no byte"}},
      {good + text(2, number(35, 1)), {"0 bytes, expected 256"}},
      {good + text(2, number(3, 5)), {"type 5", "1 to 4"}},
      {good + text(2, "") + text(2, ""), {"field 2 twice"}},
      {good + text(1, text(1, "b") + text(1, "c")), {"field 1 twice"}},
      {good + text(1, text(1, "b") + real(2, 0x7FC00000)), {"score"}},
      {good + text(1, text(1, "b") + real(2, 0xFF800000)), {"score"}},
      {good + text(1, text(1, "b") + number(2, 1)), {"score"}},
      {good + text(5, text(2, "rules")), {"denormalises"}},
      {good + text(3, text(2, "abc")), {"normalisation is broken", "cut short"}},
      {nested_pieces(), {"64", "begin alike"}},
  };
  for (const auto& [bytes, says] : table) {
    SCOPED_TRACE(says.front());
    const auto message = user_error(ExitCode::bad_data, [&] { read(bytes); });
    EXPECT_TRUE(message.starts_with("x.model: ")) << message;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    for (const std::string& word : says) expect_words(message, {word});
  }
}

/// A table of rules (darts-clone) with 256 units and one rule: the byte `key` becomes the text at
/// `value`.
std::string one_rule(std::uint32_t key, std::uint32_t value, std::string_view replacements) {
  std::array<std::uint32_t, 512> units{};
  units.fill(0x80000000);  // a label that no byte has
  units[0] = 256U << 10;   // the root's children stand at 256 xor their byte
  units[256 ^ key] = (1U << 10) | (1U << 8) | key;  // a value, at this place xor 1
  units[(256 ^ key) ^ 1] = 0x80000000 | value;
  std::string blob(4 + sizeof(units), '\0');
  const std::uint32_t size = sizeof(units);
  std::memcpy(blob.data(), &size, sizeof(size));
  std::memcpy(blob.data() + 4, units.data(), sizeof(units));
  return blob + std::string(replacements);
}

bool is_refused(const std::string& blob, const std::string& why) {
  const auto checked = check_charsmap(blob);
  const auto* fault = std::get_if<std::string>(&checked);
  return fault != nullptr && fault->find(why) != fault->npos;
}
bool keeps_spaces_apart(const std::string& blob) {
  const auto checked = check_charsmap(blob);
  const auto* facts = std::get_if<CharsmapFacts>(&checked);
  EXPECT_NE(facts, nullptr);
  return facts != nullptr && facts->keeps_spaces_apart;
}

TEST(Charsmap, rules_inside_their_table_are_taken) {
  const std::string end(1, '\0');
  EXPECT_TRUE(keeps_spaces_apart(one_rule('A', 0, "a" + end)));
  EXPECT_TRUE(keeps_spaces_apart(one_rule(' ', 0, " " + end)));
  EXPECT_FALSE(keeps_spaces_apart(one_rule('A', 0, "a " + end)));
  EXPECT_FALSE(keeps_spaces_apart(one_rule('A', 0, end)));
  EXPECT_FALSE(keeps_spaces_apart(one_rule(' ', 0, "_" + end)));
  const std::string model = read_file(tokenizer_file("rules.model"));
  EXPECT_TRUE(read(model).has_charsmap);
  EXPECT_TRUE(read(model).charsmap_keeps_spaces_apart);
}

TEST(Charsmap, what_reaches_out_of_its_table_is_refused) {
  const std::string end(1, '\0');
  EXPECT_TRUE(is_refused("", "cut short"));
  EXPECT_TRUE(is_refused(std::string("\xFF\xFF\xFF\x7F", 4) + "abc", "claims"));
  EXPECT_TRUE(is_refused(one_rule('A', 0, ""), "claims"));
  EXPECT_TRUE(is_refused(one_rule('A', 0, "a"), "has no end"));
  EXPECT_TRUE(is_refused(one_rule('A', 2, "a" + end), "replacement lies outside"));
  EXPECT_TRUE(is_refused(one_rule('A', 0, std::string(1025, 'x') + end), "too long"));
  std::string far = one_rule('A', 0, "a" + end);
  const std::uint32_t root = 512U << 10;
  std::memcpy(far.data() + 4, &root, sizeof(root));
  EXPECT_TRUE(is_refused(far, "node lies outside"));
  std::string loop = one_rule('A', 0, "a" + end);
  const std::uint32_t again = (std::uint32_t{'A'} << 10) | 'A';  // its children are the root's
  std::memcpy(loop.data() + 4 + 4 * (256 ^ 'A'), &again, sizeof(again));
  EXPECT_TRUE(is_refused(loop, "follows itself") || is_refused(loop, "too long"));
}

}  // namespace
}  // namespace fourfold::tokenizer
