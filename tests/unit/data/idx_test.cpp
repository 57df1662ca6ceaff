#include "data/idx.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/data/expect_error.h"
#include "unit/data/packed.h"
#include "unit/data/picture_files.h"

namespace fourfold::data::idx_test {
namespace {

constexpr PictureShape shape = {5, 4, 1};
constexpr const char* pictures = "train-images-idx3-ubyte";
constexpr const char* labels = "train-labels-idx1-ubyte";

class IdxTest : public DataFolderTest {
 protected:
  void write(const std::string& picture_bytes, const std::string& label_bytes) const {
    write_bytes(path(pictures), picture_bytes);
    write_bytes(path(labels), label_bytes);
  }
  std::string fault(BadPictures bad = {}, const std::string& name = pictures) const {
    return user_error(ExitCode::bad_data, [&] { open_pictures(path(name), bad); });
  }
};

std::vector<std::uint8_t> read(const PictureSet& set, std::int64_t picture) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(set.shape().size_bytes()));
  set.read(picture, bytes);
  return bytes;
}

void expect_three(const PictureSet& set, const PictureShape& expected) {
  EXPECT_EQ(set.shape(), expected);
  EXPECT_EQ(set.facts().labels, (std::vector<std::int32_t>{2, 0, 4}));
  EXPECT_EQ(set.num_classes(), 5);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(read(set, i), made_picture(i, expected));
}

TEST_F(IdxTest, grey_pictures_and_their_labels_are_found_by_name) {
  write(idx_pictures(3, shape), idx_labels({2, 0, 4}));
  const auto set = open_pictures(path(pictures));
  EXPECT_EQ(set->facts().kind, "IDX pictures");
  expect_three(*set, shape);
  EXPECT_NE(set->place(2).find("train-images-idx3-ubyte, picture 2"), std::string::npos);
  expect_three(*open_pictures(path("")), shape);
}

TEST_F(IdxTest, four_dims_have_the_channels_last) {
  write_bytes(path("a-images.idx4-ubyte"), idx_pictures(3, {5, 4, 3}));
  write_bytes(path("a-labels.idx1-ubyte"), idx_labels({2, 0, 4}));
  expect_three(*open_pictures(path("a-images.idx4-ubyte")), {5, 4, 3});
}

TEST_F(IdxTest, each_file_may_be_packed) {
  for (const bool packs_pictures : {false, true})
    for (const bool packs_labels : {false, true}) {
      std::filesystem::remove_all(path(""));
      std::filesystem::create_directories(path(""));
      const auto write_one = [&](std::string name, const std::string& bytes, bool is_packed) {
        name += is_packed ? ".gz" : "";
        write_bytes(path(name), is_packed ? pack_gzip(bytes) : bytes);
      };
      write_one(pictures, idx_pictures(3, shape), packs_pictures);
      write_one(labels, idx_labels({2, 0, 4}), packs_labels);
      expect_three(*open_pictures(path("")), shape);
    }
}

TEST_F(IdxTest, a_folder_with_training_and_tests_is_the_training) {
  write(idx_pictures(3, shape), idx_labels({2, 0, 4}));
  write_bytes(path("t10k-images-idx3-ubyte"), idx_pictures(1, shape));
  write_bytes(path("t10k-labels-idx1-ubyte"), idx_labels({1}));
  const auto set = open_pictures(path(""));
  expect_three(*set, shape);
  EXPECT_EQ(set->facts().other_files, std::vector<std::string>{"t10k-images-idx3-ubyte"});
  write_bytes(path("other-images-idx3-ubyte"), idx_pictures(1, shape));
  expect_words(fault({}, ""), {"has 2 files of pictures", "name the file that you mean"});
}

TEST_F(IdxTest, the_usual_four_files_have_nothing_to_tell_and_other_names_are_told) {
  write(idx_pictures(3, shape), idx_labels({2, 0, 4}));
  write_bytes(path("t10k-images-idx3-ubyte.gz"), pack_gzip(idx_pictures(1, shape)));
  write_bytes(path("t10k-labels-idx1-ubyte.gz"), pack_gzip(idx_labels({1})));
  EXPECT_EQ(open_pictures(path(""))->facts().passed_over.count, 0);
  write_bytes(path(".DS_Store"), "x");
  write_bytes(path("extra-labels-idx1-ubyte"), idx_labels({1}));
  write_bytes(path("notes.txt"), "x");
  std::filesystem::create_directories(path("raw"));
  const LeftOut names = open_pictures(path(""))->facts().passed_over;
  EXPECT_EQ(names.count, 4);
  expect_words(names.text("name", "passed over"),
               {".DS_Store: is hidden", "extra-labels-idx1-ubyte: is no file of pictures",
                "notes.txt: is no file of pictures", "raw: is a folder"});
}

TEST_F(IdxTest, files_that_contradict_each_other_are_errors) {
  write(idx_pictures(3, shape), idx_labels({2, 0}));
  expect_words(fault(), {"train-labels", "has 2 labels, expected one for each of the 3 pictures"});
  write(idx_pictures(3, shape), idx_pictures(3, shape));
  expect_words(fault(), {"train-labels", "has 3 dims, expected 1"});
  write(idx_pictures(3, shape), idx_labels({2, 0, 4}).substr(0, 10));
  expect_words(fault(), {"train-labels", "is cut off: has 2 of its 3 labels"});
  std::filesystem::remove(path(labels));
  expect_words(fault(), {"has no labels beside it", "train-labels-idx1-ubyte.gz"});
  write_bytes(path("mine.idx3-ubyte"), idx_pictures(3, shape));
  expect_words(fault({}, "mine.idx3-ubyte"), {"has no labels, which are found by its name"});
  write_bytes(path("labels"), idx_labels({1, 2}));
  expect_words(fault({}, "labels"), {"has 1 dim, expected 3 or 4"});
}

TEST_F(IdxTest, headers_that_claim_too_much_are_errors_before_anything_is_read) {
  const std::int64_t most = 0xffffffff;
  const std::vector<std::pair<std::vector<std::int64_t>, std::string>> cases = {
      {{3, most, most}, "claims more values than 63 bits"},
      {{3, most, 1}, "high"},
      {{3, 0, 4}, "0 high"},
      {{3, 5, 20000}, "20000 wide, expected 1 to 16384"},
      {{3, 16384, 16384}, "at most 64.0 MiB"},
      {{3, 5, 4, 2}, "has 2 channels, expected 1 (grey) or 3"},
      {{3, 5}, "has 2 dims, expected 3 or 4"},
      {{3, 5, 4, 3, 1}, "has 5 dims, expected 1 to 4"},
      {{0, 5, 4}, "has no pictures"},
      {{most, 5, 4}, "has 3 labels, expected one for each of the 4,294,967,295 pictures"}};
  for (const auto& [dims, says] : cases) {
    write(idx_header(dims), idx_labels(dims[0] == 0 ? std::vector<int>{} : std::vector{2, 0, 4}));
    expect_words(fault(), {"train-", says});
    write(pack_gzip(idx_header(dims)), idx_labels(std::vector<int>(dims[0] == 0 ? 0 : 3)));
    expect_words(fault(), {"train-"});
  }
  write(pack_gzip(idx_header({200'000'000, 5, 4}) + std::string(40, 'x')), idx_labels({1}));
  expect_words(fault(), {"claims 3.73 GiB once it is unpacked", "unpack it"});
}

TEST_F(IdxTest, more_bytes_than_claimed_are_an_error_also_of_a_gzip_bomb) {
  write(idx_pictures(3, shape) + "x", idx_labels({2, 0, 4}));
  expect_words(fault(), {pictures, "has more bytes than the 60 values that its header claims"});
  write(pack_gzip(idx_pictures(3, shape) + std::string(50'000'000, '\0')), idx_labels({2, 0, 4}));
  expect_words(fault(), {pictures, "has more bytes than the 60 values"});
}

TEST_F(IdxTest, pictures_that_are_cut_off_are_errors_or_left_out) {
  const std::string whole = idx_pictures(3, shape);
  for (const bool is_packed : {false, true})
    for (const std::size_t size : {16U, 20U, 36U, 75U}) {
      const std::string bytes = whole.substr(0, size);
      write(is_packed ? pack_gzip(bytes) : bytes, idx_labels({2, 0, 4}));
      const std::size_t first = (size - 16) / 20;
      expect_words(fault(), {pictures, ", picture " + std::to_string(first), "is cut off"});
      if (first == 0) {
        expect_words(fault({3}), {"has no pictures"});
        continue;
      }
      const auto set = open_pictures(path(pictures), {2});
      EXPECT_EQ(set->num_pictures(), static_cast<std::int64_t>(first));
      EXPECT_EQ(set->num_classes(), 5) << "labels keep their meaning";
      EXPECT_EQ(set->facts().left_out.count, 3 - static_cast<std::int64_t>(first));
      expect_words(fault({0}), {"more bad pictures than the 0"});
    }
  for (const std::size_t size : {4U, 9U, 15U}) {
    write(whole.substr(0, size), idx_labels({2, 0, 4}));
    expect_words(fault({3}), {pictures, "is cut off within its header"});
  }
  write("", idx_labels({2, 0, 4}));
  expect_words(fault(), {pictures, "does not begin as an IDX file"});
}

TEST_F(IdxTest, damaged_compression_is_an_error_whatever_is_skipped) {
  const std::string packed = pack_gzip(idx_pictures(3, shape));
  for (const std::size_t size : {12U, 30U, static_cast<unsigned>(packed.size() - 1)}) {
    write(packed.substr(0, size), idx_labels({2, 0, 4}));
    expect_words(fault({100}), {pictures, "damaged compressed data", "it ends too early"});
  }
  std::string damaged = packed;
  damaged[40] ^= 0x55;
  write(damaged, idx_labels({2, 0, 4}));
  expect_words(fault({100}), {pictures, "damaged compressed data"});
}

TEST_F(IdxTest, the_fingerprint_follows_pictures_and_labels) {
  write(idx_pictures(3, shape), idx_labels({2, 0, 4}));
  const std::string first = open_pictures(path(pictures))->fingerprint();
  write(idx_pictures(3, shape), idx_labels({2, 1, 4}));
  EXPECT_NE(open_pictures(path(pictures))->fingerprint(), first);
  std::string bytes = idx_pictures(3, shape);
  bytes[40] ^= 1;
  write(bytes, idx_labels({2, 0, 4}));
  EXPECT_NE(open_pictures(path(pictures))->fingerprint(), first);
}

}  // namespace
}  // namespace fourfold::data::idx_test
