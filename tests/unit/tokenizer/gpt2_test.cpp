#include "tokenizer/gpt2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tokenizer/byte_letters.h"
#include "tokenizer/gpt2_chunks.h"
#include "tokenizer/utf8.h"
#include "unit/data/expect_error.h"
#include "unit/tokenizer/tokenizer_files.h"

namespace fourfold::tokenizer {
namespace {

using Ids = std::vector<std::int32_t>;
using Pieces = std::vector<std::string>;

Pieces chunks(std::string_view text) {
  Pieces result;
  while (!text.empty()) {
    result.emplace_back(text.substr(0, first_gpt2_chunk(text)));
    text.remove_prefix(result.back().size());
  }
  return result;
}

TEST(Gpt2Chunks, words_keep_the_space_before_them) {
  EXPECT_EQ(chunks("Hello world"), (Pieces{"Hello", " world"}));
  EXPECT_EQ(chunks("abc123 45,; x"), (Pieces{"abc", "123", " 45", ",;", " x"}));
}

TEST(Gpt2Chunks, contractions_are_cut_off_in_lower_case_only) {
  EXPECT_EQ(chunks("it's they'll we've don't I'm he'd we're"),
            (Pieces{"it", "'s", " they", "'ll", " we", "'ve", " don", "'t", " I", "'m", " he", "'d",
                    " we", "'re"}));
  EXPECT_EQ(chunks("IT'S 's !'s"), (Pieces{"IT", "'", "S", " '", "s", " !'", "s"}));
  EXPECT_EQ(chunks("'l'"), (Pieces{"'", "l", "'"}));
}

TEST(Gpt2Chunks, of_white_space_the_last_goes_with_what_follows) {
  EXPECT_EQ(chunks("a  b"), (Pieces{"a", " ", " b"}));
  EXPECT_EQ(chunks("a \n\n b"), (Pieces{"a", " \n\n", " b"}));
  EXPECT_EQ(chunks("a\n\nb"), (Pieces{"a", "\n", "\n", "b"}));
  EXPECT_EQ(chunks("a\nb"), (Pieces{"a", "\n", "b"}));
  EXPECT_EQ(chunks("a  "), (Pieces{"a", "  "}));
  EXPECT_EQ(chunks(" "), Pieces{" "});
  EXPECT_EQ(chunks("a\u00A0\u3000\u00E9"), (Pieces{"a", "\u00A0", "\u3000", "\u00E9"}));
}

Pieces gpt4_chunks(std::string_view text, int most_digits = 3) {
  Pieces result;
  while (!text.empty()) {
    result.emplace_back(text.substr(0, first_gpt4_chunk(text, most_digits)));
    text.remove_prefix(result.back().size());
  }
  return result;
}

TEST(Gpt4Chunks, words_take_one_sign_before_them_and_numbers_are_short) {
  EXPECT_EQ(gpt4_chunks("Hello world, it's 12345 (a\tb)"),
            (Pieces{"Hello", " world", ",", " it", "'s", " ", "123", "45", " (", "a", "\tb", ")"}));
  EXPECT_EQ(gpt4_chunks("123", 1), (Pieces{"1", "2", "3"}));
  EXPECT_EQ(gpt4_chunks("IT'S 'LL 'L they'Re'\u017Fx"),
            (Pieces{"IT", "'S", " '", "LL", " '", "L", " they", "'Re", "'\u017F", "x"}));
  EXPECT_EQ(gpt4_chunks("!!a !b \u00a0c"), (Pieces{"!!", "a", " !", "b", " ", "\u00a0c"}));
}

TEST(Gpt4Chunks, line_ends_go_with_the_signs_and_spaces_before_them) {
  EXPECT_EQ(gpt4_chunks("a.\r\n\nb"), (Pieces{"a", ".\r\n\n", "b"}));
  EXPECT_EQ(gpt4_chunks("a \n \n  b"), (Pieces{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(gpt4_chunks("a\n1  \u3000"), (Pieces{"a", "\n", "1", "  \u3000"}));
  EXPECT_EQ(gpt4_chunks("  1"), (Pieces{" ", " ", "1"}));
  EXPECT_EQ(gpt4_chunks(" "), Pieces{" "});
  EXPECT_EQ(gpt4_chunks("\na"), (Pieces{"\n", "a"}));
  EXPECT_EQ(gpt4_chunks("x\xFF\x80 \xFFz"), (Pieces{"x", "\xFF\x80", " \xFF", "z"}));
}

TEST(Gpt2Chunks, a_byte_that_is_no_utf8_is_neither_letter_nor_number_nor_space) {
  EXPECT_EQ(chunks("a\xFF\x80!b"), (Pieces{"a", "\xFF\x80!", "b"}));
  EXPECT_EQ(chunks(" \xE2\x82"), Pieces{" \xE2\x82"});
}

TEST(UnicodeClasses, letters_numbers_and_spaces_are_those_of_unicode_16) {
  const auto& classes = character_classes();
  ASSERT_EQ(classes.size(), 0x110000U);
  const auto count = [&](CharacterClass kind) {
    return std::count(classes.begin(), classes.end(), kind);
  };
  // Counted in Unicode 16.0.0, apart; the tokenizers of Hugging Face 0.23 class every code point
  // so.
  EXPECT_EQ(count(CharacterClass::letter), 141'028);
  EXPECT_EQ(count(CharacterClass::number), 1'911);
  EXPECT_EQ(count(CharacterClass::space), 25);
  for (const char32_t space : {U'\t', U'\r', U' ', U'\u0085', U'\u00A0', U'\u2028', U'\u3000'})
    EXPECT_EQ(classes[space], CharacterClass::space);
  EXPECT_EQ(classes[0x1C], CharacterClass::other);  // a space for Python's str.split alone
  EXPECT_EQ(classes[U'\u00BD'], CharacterClass::number);
  EXPECT_EQ(classes[0x20000], CharacterClass::letter);
  EXPECT_EQ(classes[0x1C89], CharacterClass::letter);   // Cyrillic, of Unicode 16
  EXPECT_EQ(classes[0x10D40], CharacterClass::number);  // Garay, of Unicode 16
  EXPECT_EQ(classes[0x10FFFF], CharacterClass::other);
}

TEST(ByteLetters, each_byte_has_its_own_printable_letter) {
  EXPECT_EQ(to_byte_letters(" \n!\xAD\xFF"), "\u0120\u010A!\u0143\u00FF");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    EXPECT_EQ(from_byte_letters(to_byte_letters(text)), text);
  }
  for (const std::string text : {" ", "\u00A0", "\u0144", "\u4E00", "\xFF"})
    EXPECT_EQ(from_byte_letters(text), std::nullopt);
}

/// GPT-2's own algorithm, word for word.
Ids merged_slowly(Ids ids, const std::vector<BytePairMerge>& merges) {
  while (true) {
    const BytePairMerge* best = nullptr;
    for (std::size_t rank = merges.size(); rank-- > 0;)
      for (std::size_t i = 0; i + 1 < ids.size(); ++i)
        if (ids[i] == merges[rank].left && ids[i + 1] == merges[rank].right) best = &merges[rank];
    if (best == nullptr) return ids;
    Ids next;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool merges_here =
          i + 1 < ids.size() && ids[i] == best->left && ids[i + 1] == best->right;
      next.push_back(merges_here ? best->result : ids[i]);
      i += merges_here ? 1 : 0;
    }
    ids = next;
  }
}

TEST(BytePairMerges, short_and_long_pieces_merge_as_the_definition_says) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t n) {
    return static_cast<std::int32_t>(std::uniform_int_distribution<std::size_t>(0, n - 1)(random));
  };
  for (int round = 0; round < 60; ++round) {
    // Ranks in any order, also a merge before that which makes its parts.
    std::vector<BytePairMerge> merges;
    for (std::int32_t result = 3; result < 12; ++result) {
      const BytePairMerge merge{below(static_cast<std::size_t>(result)),
                                below(static_cast<std::size_t>(result)), result};
      const bool is_new = std::none_of(merges.begin(), merges.end(), [&](const BytePairMerge& m) {
        return m.left == merge.left && m.right == merge.right;
      });
      if (is_new) merges.push_back(merge);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    const BytePairMerges table(merges);
    for (const std::size_t length : {0U, 1U, 2U, 7U, 48U, 49U, 200U}) {
      Ids ids(length);
      for (auto& id : ids) id = below(3);
      Ids got = ids;
      table.apply(got);
      EXPECT_EQ(got, merged_slowly(ids, merges)) << "round " << round << ", length " << length;
    }
  }
}

/// One pair at a time, by the definition.
Ids merged_in_order(Ids ids, const std::vector<BytePairMerge>& merges) {
  while (true) {
    auto best = merges.end();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = std::find_if(merges.begin(), merges.end(), [&](const BytePairMerge& m) {
        return m.left == ids[i] && m.right == ids[i + 1];
      });
      if (found < best) {
        best = found;
        place = i;
      }
    }
    if (best == merges.end()) return ids;
    ids[place] = best->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(BytePairMerges, one_pair_at_a_time_is_another_order_where_a_part_comes_later) {
  std::mt19937 random(5);
  const auto below = [&](std::int32_t n) {
    return std::uniform_int_distribution<std::int32_t>(0, n - 1)(random);
  };
  int others = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<BytePairMerge> merges;
    for (std::int32_t result = 3; result < 12; ++result)
      if (const BytePairMerge merge{below(result), below(result), result};
          std::ranges::none_of(merges, [&](const BytePairMerge& m) {
            return m.left == merge.left && m.right == merge.right;
          }))
        merges.push_back(merge);
    if (round % 2 == 0) std::shuffle(merges.begin(), merges.end(), random);
    const BytePairMerges table(merges);
    for (const std::size_t length : {0U, 1U, 2U, 7U, 48U, 49U, 200U}) {
      Ids ids(length);
      for (auto& id : ids) id = below(3);
      Ids got = ids, at_once = ids;
      table.apply_in_order(got);
      table.apply(at_once);
      EXPECT_EQ(got, merged_in_order(ids, merges)) << "round " << round << ", length " << length;
      if (round % 2 == 1) {
        EXPECT_EQ(got, at_once) << "round " << round << ", length " << length;
      }
      others += got != at_once ? 1 : 0;
    }
  }
  EXPECT_GT(others, 0);
}

TEST(Gpt2Tokenizer, ids_are_those_of_the_tokenizers_library) {
  const auto tokenizer = load_small_gpt2();
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  EXPECT_EQ(tokenizer->end_of_document(), 0);
  for (const auto& [text, ids] : encoded_texts("gpt2")) {
    EXPECT_EQ(tokenizer->encode(text, "x"), ids) << text;
    EXPECT_EQ(tokenizer->encode(text, "x"), ids) << "from the cache: " << text;
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
}

TEST(Gpt2Tokenizer, every_code_point_comes_back) {
  const auto tokenizer = load_small_gpt2();
  std::string text;
  for (char32_t c = 0; c < 0x110000; ++c)
    if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, "x")), text);
}

TEST(Gpt2Tokenizer, random_bytes_come_back) {
  const auto tokenizer = load_small_gpt2();
  std::mt19937 random(4);
  for (std::size_t size = 0; size < 400; ++size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(bytes, "x")), bytes);
  }
}

TEST(Gpt2Tokenizer, a_long_piece_is_not_quadratic) {
  const auto tokenizer = load_small_gpt2();
  const std::string letters(500'000, 'l');
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(letters, "x")), letters);
}

TEST(Gpt2Tokenizer, the_end_of_documents_is_never_made_from_text) {
  const auto tokenizer = load_small_gpt2();
  const Ids ids = tokenizer->encode("a<|endoftext|>b", "x");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 0), 0);
  EXPECT_EQ(tokenizer->decode(ids), "a<|endoftext|>b");
}

TEST(Gpt2Tokenizer, several_threads_get_the_same_ids) {
  const auto tokenizer = load_small_gpt2();
  const auto texts = encoded_texts("gpt2");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t number = 0; number < wrong.size(); ++number)
    threads.emplace_back([&, number] {
      for (int round = 0; round < 20; ++round)
        for (const auto& [text, ids] : texts)
          if (tokenizer->encode(text, "x") != ids) ++wrong[number];
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Gpt2Tokenizer, its_description_makes_the_same_tokenizer_again) {
  const auto tokenizer = load_small_gpt2();
  const auto again = tokenizer_from_text(tokenizer->to_text(), "tokenizer.json");
  EXPECT_EQ(again->to_text(), tokenizer->to_text());
  EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
  EXPECT_EQ(again->end_of_document(), tokenizer->end_of_document());
  for (const auto& [text, ids] : encoded_texts("gpt2")) EXPECT_EQ(again->encode(text, "x"), ids);
}

TEST(Gpt2Tokenizer, gpt2s_own_files_give_gpt2s_own_ids) {
  const char* folder = std::getenv("FOURFOLD_GPT2");
  if (folder == nullptr)
    GTEST_SKIP() << "set FOURFOLD_GPT2 to a folder with the vocab.json and merges.txt of GPT-2";
  const auto tokenizer = load_tokenizer(TokenizerKind::gpt2, folder);
  EXPECT_EQ(tokenizer->encode("Hello world", "x"), (Ids{15496, 995}));
  EXPECT_EQ(tokenizer->encode(" Hello world", "x"), (Ids{18435, 995}));
  EXPECT_EQ(tokenizer->end_of_document(), 50256);
}

struct BadFiles {
  std::string vocabulary, merges;
  std::vector<std::string> words;
};

TEST(BytePairVocabulary, files_that_are_no_tokenizer_are_refused_with_their_place) {
  // All bytes, then "ab" as 256.
  Json good = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    good.set(to_byte_letters(std::string(1, static_cast<char>(byte))), byte);
  good.set("ab", 256);
  const std::string fine = good.dump();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = fine;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::string head = "#version: 0.2\n";
  const std::vector<BadFiles> table = {
      {"", "", {"vocab.json:1:1"}},
      {"[]", "", {"vocab.json", "not an object"}},
      {"{}", "", {"vocab.json", "not an object"}},
      {fine.substr(0, 100), "", {"vocab.json:1:"}},
      {with("\"ab\"", "\"!\""), "", {"vocab.json", "\"!\"", "duplicate"}},
      {with("\"ab\":256", "\"ab\":257"), "", {"\"ab\"", "257", "0 to 256"}},
      {with("\"ab\":256", "\"ab\":-1"), "", {"\"ab\"", "-1", "0 to 256"}},
      {with("\"ab\":256", "\"ab\":7"), "", {"\"ab\"", "same id 7"}},
      {with("\"ab\":256", "\"ab\":\"x\""), "", {"\"ab\"", "whole number"}},
      {with("\"ab\":256", "\"ab\":256.0"), "", {"\"ab\"", "whole number"}},
      {with("\"ab\"", "\"a b\""), "", {"\"a b\"", "stand for bytes"}},
      {with("\"ab\"", "\"\""), "", {"\"\"", "stand for bytes"}},
      {with("\"!\"", "\"zz\""), "", {"byte 0x21", "\"!\"", "all 256"}},
      {with("\"ab\"", "\"a\xFF\""), "", {"vocab.json:1:"}},
      {fine, head + "a b\na b\n", {"merges.txt:3", "\"a b\"", "twice"}},
      {fine, head + "a c\n", {"merges.txt:2", "\"ac\"", "no token"}},
      {fine, head + "a zz\n", {"merges.txt:2", "\"zz\" is no token"}},
      {fine, head + "ab\n", {"merges.txt:2", "\"ab\" is no merge"}},
      {fine, head + "a b c\n", {"merges.txt:2", "no merge"}},
      {fine, head + "\na b\n", {"merges.txt:2", "no merge"}},
      {fine, "a b\r\n", {"merges.txt:1", "no token"}},
      {fine, std::string("a \0b\n", 5), {"merges.txt:1", "no token"}},
      {fine, "a " + std::string(5000, 'x'), {"merges.txt:1", "..."}},
  };
  for (const auto& [vocabulary, merges, words] : table) {
    SCOPED_TRACE(words.front());
    const auto message = user_error(ExitCode::bad_data, [&] {
      read_byte_pair_vocabulary({vocabulary, "vocab.json"}, {merges, "merges.txt"},
                                ExitCode::bad_data);
    });
    for (const std::string& word : words) expect_words(message, {word});
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    EXPECT_LT(message.size(), 500U) << message;
  }
  const auto vocabulary =
      read_byte_pair_vocabulary({fine, "v"}, {head + "a b\n", "m"}, ExitCode::bad_data);
  EXPECT_EQ(vocabulary.merges, (std::vector<BytePairMerge>{{'a', 'b', 256}}));
  EXPECT_EQ(vocabulary.end_of_document, std::nullopt);
}

}  // namespace
}  // namespace fourfold::tokenizer
