#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "data/megatron_set.h"
#include "unit/data/expect_error.h"
#include "unit/data/token_files.h"

namespace fourfold::data {
namespace {

using MegatronSetTest = DataFolderTest;
constexpr std::int64_t any_id = std::numeric_limits<std::int32_t>::max();

std::vector<std::int32_t> all_tokens(const TokenStream& stream) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(stream.num_tokens()));
  EXPECT_FALSE(stream.read(0, any_id, ids).has_value());
  return ids;
}

// The vector of Megatron-LM's own writer for u16 and documents of 3 and 2 tokens, 82 bytes.
TEST_F(MegatronSetTest, the_index_of_megatrons_own_writer_is_read) {
  const unsigned char idx[] = {
      0x4d, 0x4d, 0x49, 0x44, 0x49, 0x44, 0x58, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0,
      0,    0,    0,    0,    0,    3,    0,    0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0,
      0,    0,    0,    0,    0,    0,    0,    0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      0,    0,    0,    1,    0,    0,    0,    0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_EQ(sizeof(idx), 82U);
  write_bytes(path("a.idx"), std::string(reinterpret_cast<const char*>(idx), sizeof(idx)));
  write_bytes(path("a.bin"), std::string("\x01\0\x02\0\x03\0\x04\0\xff\xff", 10));
  const MegatronSet set(path("a"));
  EXPECT_EQ(set.num_documents(), 2);
  EXPECT_EQ(all_tokens(set), (std::vector<std::int32_t>{1, 2, 3, 4, 65535}));
  EXPECT_EQ(read_bytes(path("a.idx")), megatron_index_bytes({{1, 2, 3}, {4, 65535}}));
}

TEST_F(MegatronSetTest, every_type_of_whole_numbers_is_read_and_floats_are_refused) {
  for (const int code : {1, 2, 3, 4, 5, 8}) {
    write_megatron(path("a"), {{1, 2}, {}, {127}}, code == 2 ? 1 : code);
    if (code == 2) {  // i8 lies as u8 does
      std::string idx = read_bytes(path("a.idx"));
      idx[17] = 2;
      write_bytes(path("a.idx"), idx);
    }
    EXPECT_EQ(all_tokens(MegatronSet(path("a.bin"))), (std::vector<std::int32_t>{1, 2, 127}));
  }
  for (const char code : {'\6', '\7'}) {
    std::string idx = read_bytes(path("a.idx"));
    idx[17] = code;
    write_bytes(path("a.idx"), idx);
    expect_words(user_error(ExitCode::bad_data, [&] { MegatronSet(path("a")); }),
                 {"a.idx", "floating-point", "whole numbers"});
  }
}

TEST_F(MegatronSetTest, sequences_may_lie_in_any_order_and_several_be_one_document) {
  // Three sequences, stored as 2, 0, 1; documents {0, 1} and {2}.
  Bytes idx;
  idx.add_text(std::string("MMIDIDX\0\0", 9)).add(std::uint64_t{1}).add(std::uint8_t{8});
  idx.add(std::uint64_t{3}).add(std::uint64_t{3});
  for (const std::int32_t length : {2, 1, 3}) idx.add(length);
  for (const std::int64_t offset : {6, 10, 0}) idx.add(offset);
  for (const std::int64_t bound : {0, 2, 3}) idx.add(bound);
  write_bytes(path("a.idx"), idx.text());
  Bytes bin;
  for (const int id : {30, 31, 32, 10, 11, 20}) bin.add_id(id, 2);
  write_bytes(path("a.bin"), bin.text());
  const MegatronSet set(path("a"));
  EXPECT_EQ(all_tokens(set), (std::vector<std::int32_t>{10, 11, 20, 30, 31, 32}));
  EXPECT_EQ(set.num_documents(), 2);
  std::vector<std::int64_t> begins(6);
  set.document_begins(0, begins);
  EXPECT_EQ(begins, (std::vector<std::int64_t>{0, 0, 0, 3, 3, 3}));
  EXPECT_EQ(set.place(3), path("a.bin") + ", token 3 at byte 0");
}

TEST_F(MegatronSetTest, documents_are_found_from_any_token_among_many_and_empty_ones) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 5000; ++i) sizes.push_back(i % 7 == 3 ? 0 : i % 5);
  const Documents documents = counting_documents(sizes);
  write_megatron(path("a"), documents, 4);
  std::vector<std::int64_t> expected;
  for (const auto& document : documents)
    for (std::size_t i = 0; i < document.size(); ++i) expected.push_back(document.front());
  const MegatronSet set(path("a"));
  ASSERT_EQ(set.num_tokens(), std::ssize(expected));
  for (std::size_t first = 0; first + 40 <= expected.size(); first += 37) {
    std::vector<std::int64_t> begins(40);
    set.document_begins(static_cast<std::int64_t>(first), begins);
    const auto from = expected.begin() + static_cast<std::ptrdiff_t>(first);
    ASSERT_EQ(begins, std::vector<std::int64_t>(from, from + 40)) << "from token " << first;
  }
}

TEST_F(MegatronSetTest, row_10_a_file_cut_anywhere_is_refused) {
  write_megatron(path("whole"), counting_documents({30, 1, 500, 7, 90}));
  for (const std::string ending : {".idx", ".bin"}) {
    const std::string bytes = read_bytes(path("whole") + ending);
    for (std::size_t size = 0; size < bytes.size(); size += ending == ".idx" ? 1 : 64) {
      write_megatron(path("cut"), counting_documents({30, 1, 500, 7, 90}));
      write_bytes(path("cut") + ending, bytes.substr(0, size));
      expect_words(user_error(ExitCode::bad_data, [&] { MegatronSet(path("cut")); }), {"cut."});
    }
    write_bytes(path("cut") + ending, bytes + "x");
    expect_words(user_error(ExitCode::bad_data, [&] { MegatronSet(path("cut")); }), {"cut."});
  }
}

TEST_F(MegatronSetTest, row_10_every_flipped_bit_of_the_header_and_of_the_arrays_is_found) {
  for (const int code : {1, 3, 4, 5, 8}) {
    const Documents documents = counting_documents({30, 1, 50, 7, 9, 13, 2, 4, 1, 1, 1, 1, 1}, 100);
    write_megatron(path("a"), documents, code);
    const std::string bytes = read_bytes(path("a.idx"));
    const std::size_t bounds = bytes.size() - 8 * (documents.size() + 1);
    const std::size_t tried = code == 8 ? bytes.size() : MegatronIndex::header_bytes;
    for (std::size_t bit = 0; bit < 8 * tried; ++bit) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      write_bytes(path("a.idx"), damaged);
      // i8 for u8 and u16 for i16 hold the same small numbers.
      const bool is_same = bit / 8 == 17 && code == 1 && damaged[17] == 2;
      // A bound of a document may move to the next one; PREFIX.json has the hash.
      const bool may_pass = bit / 8 >= bounds || is_same;
      try {
        const MegatronSet set(path("a"));
        EXPECT_TRUE(may_pass) << "bit " << bit << " of code " << code;
      } catch (const UserError& error) {
        ASSERT_EQ(error.code(), ExitCode::bad_data);
        expect_words(error.what(), {"a."});
      }
    }
  }
}

TEST_F(MegatronSetTest, row_13_headers_that_lie_are_refused_without_asking_for_memory) {
  const auto header = [](std::uint64_t sequences, std::uint64_t bounds) {
    return Bytes()
        .add_text(std::string("MMIDIDX\0\0", 9))
        .add(std::uint64_t{1})
        .add(std::uint8_t{8})
        .add(sequences)
        .add(bounds)
        .text();
  };
  write_bytes(path("a.bin"), "");
  constexpr std::uint64_t top = std::uint64_t{1} << 63;
  for (const auto& [sequences, bounds] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{top, 1},
                                                            {~std::uint64_t{0}, 1},
                                                            {1, top},
                                                            {1, 0},
                                                            {top / 12 + 1, 1},
                                                            {1, top / 8},
                                                            {top - 1, top - 1},
                                                            {1, 2}}) {
    write_bytes(path("a.idx"), header(sequences, bounds));
    expect_words(user_error(ExitCode::bad_data, [&] { MegatronSet(path("a")); }), {"a.idx"});
  }
  for (const std::int32_t length : {-1, -2147483647 - 1}) {
    Bytes idx;
    idx.add_text(header(1, 2)).add(length).add(std::int64_t{0});
    write_bytes(path("a.idx"), idx.add(std::int64_t{0}).add(std::int64_t{1}).text());
    expect_words(user_error(ExitCode::bad_data, [&] { MegatronSet(path("a")); }),
                 {"sequence 0 has length"});
  }
}

// Holes cost no disk.
TEST_F(MegatronSetTest, row_13_a_file_beyond_two_to_the_32_is_read_at_its_end) {
  constexpr std::int64_t tokens = std::int64_t{5} << 29, size = 2 * tokens;  // 5 GiB of u16
  constexpr std::int64_t half = tokens / 2;
  Bytes idx;
  idx.add_text(std::string("MMIDIDX\0\0", 9)).add(std::uint64_t{1}).add(std::uint8_t{8});
  idx.add(std::uint64_t{2}).add(std::uint64_t{3});
  idx.add(static_cast<std::int32_t>(half)).add(static_cast<std::int32_t>(half));
  idx.add(std::int64_t{0}).add(2 * half);
  for (const std::int64_t bound : {0, 1, 2}) idx.add(bound);
  write_bytes(path("a.idx"), idx.text());
  write_bytes(path("a.bin"), "");
  std::filesystem::resize_file(path("a.bin"), static_cast<std::uintmax_t>(size));
  {
    std::fstream file(path("a.bin"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(size - 2);
    file.write("\x2a\x01", 2);
  }
  const MegatronSet set(path("a"));
  EXPECT_EQ(set.num_tokens(), tokens);
  std::vector<std::int32_t> ids(3);
  EXPECT_FALSE(set.read(tokens - 3, any_id, ids).has_value());
  EXPECT_EQ(ids, (std::vector<std::int32_t>{0, 0, 0x12a}));
  const auto bad = set.read(tokens - 3, 256, ids);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->position, tokens - 1);
  EXPECT_EQ(bad->value, 0x12a);
  EXPECT_EQ(set.place(tokens - 1), path("a.bin") + ", token 2684354559 at byte 5368709118");
  std::vector<std::int64_t> begins(2);
  set.document_begins(half - 1, begins);
  EXPECT_EQ(begins, (std::vector<std::int64_t>{0, half}));
}

TEST_F(MegatronSetTest, row_10_a_file_that_shrinks_behind_our_back_is_an_error_and_no_signal) {
  write_megatron(path("a"), counting_documents({5000}));
  const MegatronSet set(path("a"));
  std::filesystem::resize_file(path("a.bin"), 100);
  std::vector<std::int32_t> ids(64);
  EXPECT_FALSE(set.read(0, any_id, std::span(ids).first(50)).has_value());
  expect_words(user_error(ExitCode::bad_data, [&] { set.read(0, any_id, ids); }),
               {"a.bin", "byte 100", "10000"});
}

TEST_F(MegatronSetTest, row_14_the_fingerprint_changes_with_a_token_and_with_the_size) {
  write_megatron(path("a"), counting_documents({500}));
  const auto before = MegatronSet(path("a")).fingerprint();
  EXPECT_EQ(MegatronSet(path("a")).fingerprint(), before);
  write_megatron(path("a"), counting_documents({501}));
  EXPECT_NE(MegatronSet(path("a")).fingerprint(), before);
  Documents documents = counting_documents({500});
  documents[0][250] = 9;
  write_megatron(path("a"), documents);
  EXPECT_NE(MegatronSet(path("a")).fingerprint(), before);
  write_megatron(path("a"), counting_documents({250, 250}));
  EXPECT_NE(MegatronSet(path("a")).fingerprint(), before);
}

}  // namespace
}  // namespace fourfold::data
