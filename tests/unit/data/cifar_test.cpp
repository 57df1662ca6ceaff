#include "data/cifar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file_limit.h"
#include "base/format.h"
#include "support/few_files.h"
#include "unit/data/expect_error.h"
#include "unit/data/picture_files.h"

namespace fourfold::data {
namespace {

constexpr PictureShape shape = {32, 32, 3};
constexpr BadPictures stop = {};

class CifarTest : public DataFolderTest {
 protected:
  std::string fault(const std::string& name, BadPictures bad = stop) const {
    return user_error(ExitCode::bad_data, [&] { open_pictures(path(name), bad); });
  }
};

std::vector<std::uint8_t> read(const PictureSet& set, std::int64_t picture) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(set.shape().size_bytes()));
  set.read(picture, bytes);
  return bytes;
}

TEST_F(CifarTest, planes_become_pixels_and_labels_are_the_first_bytes) {
  write_bytes(path("a.bin"), cifar10_bytes({3, 9, 0}));
  const auto set = open_pictures(path("a.bin"));
  EXPECT_EQ(set->facts().kind, "CIFAR-10 pictures");
  EXPECT_EQ(set->num_pictures(), 3);
  EXPECT_EQ(set->num_classes(), 10);
  EXPECT_EQ(set->shape(), shape);
  EXPECT_EQ(set->facts().labels, (std::vector<std::int32_t>{3, 9, 0}));
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(read(*set, i), made_picture(i, shape));
  EXPECT_EQ(set->class_name(9), "9");
  EXPECT_EQ(set->place(2), path("a.bin, picture 2"));
}

TEST_F(CifarTest, the_fine_label_of_cifar100_counts) {
  write_bytes(path("a.bin"), cifar_record({19, 99}, 0) + cifar_record({0, 42}, 1));
  const auto set = open_pictures(path("a.bin"));
  EXPECT_EQ(set->facts().kind, "CIFAR-100 pictures");
  EXPECT_EQ(set->num_classes(), 100);
  EXPECT_EQ(set->facts().labels, (std::vector<std::int32_t>{99, 42}));
  EXPECT_EQ(read(*set, 1), made_picture(1, shape));
}

TEST_F(CifarTest, a_folder_is_its_files_in_order_of_name_without_those_for_tests) {
  write_bytes(path("latest_2.bin"), cifar10_bytes({2}));
  write_bytes(path("data_batch_1.bin"), cifar10_bytes({0, 1}));
  write_bytes(path("test_batch.bin"), cifar10_bytes({7}));
  write_bytes(path("cifar10-test.bin"), cifar10_bytes({7}));
  write_bytes(path("readme.html"), "no pictures");
  write_bytes(path("batches.meta.txt"), "plane\ncar\nbird\n\n");
  EXPECT_TRUE(is_cifar(path("")));
  const auto set = open_pictures(path(""));
  EXPECT_EQ(set->facts().labels, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(set->facts().other_files,
            (std::vector<std::string>{"cifar10-test.bin", "test_batch.bin"}));
  EXPECT_EQ(set->num_classes(), 3);
  EXPECT_EQ(set->class_name(2), "bird");
  EXPECT_NE(set->place(2).find("latest_2.bin, picture 0"), std::string::npos);
  expect_words(fault("test_batch.bin"), {"picture 0: has the label 7, expected 0 to 2"});
  write_bytes(path("batches.meta.txt"), "");
  expect_words(fault(""), {"batches.meta.txt: has 0 names, expected 1 to 10"});
}

TEST_F(CifarTest, a_folder_as_it_is_distributed_has_nothing_to_tell_and_other_names_are_told) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"})
    write_bytes(path(name), cifar10_bytes({0}));
  for (const char* name : {"batches.meta.txt", "readme.html"}) write_bytes(path(name), "plane\n");
  EXPECT_EQ(open_pictures(path(""))->facts().passed_over.count, 0);
  write_bytes(path(".data_batch_3.bin.x7"), "half");
  write_bytes(path("data_batch_4.bin.part"), "half");
  write_bytes(path("data_batch_5.bin"), std::string(3073, 'a'));
  std::filesystem::create_directories(path("more"));
  const LeftOut names = open_pictures(path(""))->facts().passed_over;
  EXPECT_EQ(names.count, 4);
  expect_words(names.text("name", "passed over"),
               {"4 names passed over", ".data_batch_3.bin.x7: is hidden",
                "data_batch_4.bin.part: is no .bin file of pictures",
                "data_batch_5.bin: is no .bin file of pictures", "more: is a folder"});
  EXPECT_EQ(open_pictures(path("test_batch.bin"))->facts().passed_over.count, 0)
      << "a file that is named itself";
}

TEST_F(CifarTest, a_set_may_have_more_files_than_a_process_may_open_at_first) {
  for (int i = 0; i < 100; ++i) write_bytes(path(format("{:03}.bin", i)), cifar10_bytes({i % 10}));
  const test::FewFiles few;
  expect_words(fault(""), {"Too many open files", "ulimit -n"});
  if (raise_file_limit() < 200) GTEST_SKIP() << "the hard limit is low";
  const auto set = open_pictures(path(""));
  EXPECT_EQ(set->num_pictures(), 100);
  EXPECT_EQ(read(*set, 99), made_picture(0, shape));
}

TEST_F(CifarTest, files_may_be_given_one_by_one) {
  write_bytes(path("z.bin"), cifar10_bytes({5}));
  write_bytes(path("a.bin"), cifar10_bytes({6}));
  const auto set = open_cifar("mine", {path("z.bin"), path("a.bin")}, stop);
  EXPECT_EQ(set->facts().labels, (std::vector<std::int32_t>{5, 6}));
}

TEST_F(CifarTest, where_the_size_says_both_the_names_decide_then_the_labels) {
  // 3,073 records of 3,074 bytes are 3,074 records of 3,073.
  std::string bytes;
  for (int i = 0; i < 3073; ++i) bytes += cifar_record({i % 20, i % 100}, i);
  write_bytes(path("a.bin"), bytes);
  EXPECT_EQ(open_pictures(path("a.bin"))->facts().kind, "CIFAR-100 pictures");
  write_bytes(path("b.bin"), std::string(bytes.size(), '\0'));
  expect_words(fault("b.bin"),
               {"b.bin: its 9,446,402 bytes are 3,074 pictures of CIFAR-10 and 0 bytes more",
                "put batches.meta.txt"});
  write_bytes(path("batches.meta.txt"), "dark\n");
  EXPECT_EQ(open_pictures(path("b.bin"))->num_pictures(), 3074);
}

TEST_F(CifarTest, a_label_that_is_no_class_is_named_with_its_picture) {
  write_bytes(path("a.bin"), cifar10_bytes({3, 10, 0}));
  expect_words(fault("a.bin"), {"a.bin, picture 1: has the label 10, expected 0 to 9", "skip:N"});
  write_bytes(path("a.bin"), cifar_record({3, 99}, 0) + cifar_record({3, 100}, 0));
  expect_words(fault("a.bin"), {"a.bin, picture 1: has the label 100, expected 0 to 99"});
  write_bytes(path("a.bin"), cifar_record({20, 99}, 0));
  expect_words(fault("a.bin"), {"a.bin, picture 0: has the label 20, expected 0 to 19"});
}

TEST_F(CifarTest, a_file_that_is_cut_off_anywhere_is_an_error_with_the_picture) {
  const std::string whole = cifar10_bytes({3, 9, 0, 1, 2, 3});
  // The labels tell what is left of it, or the names do.
  for (const char* names : {"", "batches.meta.txt"})
    for (const std::size_t size : {1U, 3072U, 3074U, 6147U, 9218U, 15000U, 18437U}) {
      if (*names == '\0' && size < 9000) continue;
      if (*names != '\0') write_bytes(path(names), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
      write_bytes(path("a.bin"), whole.substr(0, size));
      expect_words(fault("a.bin"), {"a.bin, picture " + std::to_string(size / 3073),
                                    "the file ends after " + std::to_string(size % 3073)});
    }
  write_bytes(path("a.bin"), "");
  expect_words(fault("a.bin"), {"a.bin, picture 0: is cut off"});
  std::filesystem::remove(path("batches.meta.txt"));
  write_bytes(path("a.bin"), whole.substr(0, 3074 + 3073));
  expect_words(
      fault("a.bin"),
      {"a.bin: its 6,147 bytes are 2 pictures of CIFAR-10 and 1 byte more, or 1 picture "
       "of CIFAR-100 and 3,073 bytes more; bring the file again, or put batches.meta.txt"});
}

TEST_F(CifarTest, a_file_that_is_cut_off_among_others_is_of_their_kind_and_two_kinds_are_an_error) {
  write_bytes(path("a.bin"), cifar10_bytes({3, 9}));
  write_bytes(path("b.bin"), cifar10_bytes({3, 9}).substr(0, 3080));
  expect_words(fault(""), {"b.bin, picture 1: is cut off"});
  EXPECT_EQ(open_pictures(path(""), {1})->num_pictures(), 3);
  write_bytes(path("b.bin"), cifar_record({3, 9}, 0));
  expect_words(fault(""), {"b.bin: is CIFAR-100 by its size, and", "a.bin CIFAR-10"});
}

TEST_F(CifarTest, bad_pictures_are_left_out_up_to_the_number_that_is_allowed) {
  write_bytes(path("batches.meta.txt"), "a\nb\nc\nd\n");
  write_bytes(path("a.bin"), cifar10_bytes({3, 77, 0, 4, 1, 2}).substr(0, 6 * 3073 - 5));
  const auto set = open_pictures(path("a.bin"), {3});
  EXPECT_EQ(set->facts().labels, (std::vector<std::int32_t>{3, 0, 1}));
  EXPECT_EQ(read(*set, 2), made_picture(4, shape));
  EXPECT_EQ(set->place(2), path("a.bin, picture 4"));
  EXPECT_EQ(set->facts().left_out.count, 3);
  ASSERT_EQ(set->facts().left_out.first.size(), 3U);
  expect_words(set->facts().left_out.first[0], {"a.bin, picture 1: has the label 77"});
  expect_words(set->facts().left_out.first[2], {"a.bin, picture 5: is cut off"});
  expect_words(fault("a.bin", {2}), {"more bad pictures than the 2", "picture 1", "picture 5"});
  expect_words(fault("a.bin", {0}), {"more bad pictures than the 0"});
}

TEST_F(CifarTest, a_file_that_shrinks_later_is_an_error_and_no_signal) {
  write_bytes(path("a.bin"), cifar10_bytes({3, 9}));
  const auto set = open_pictures(path("a.bin"));
  std::filesystem::resize_file(path("a.bin"), 4000);
  expect_words(user_error(ExitCode::bad_data, [&] { read(*set, 1); }), {"a.bin: has shrunk"});
}

TEST_F(CifarTest, the_fingerprint_follows_pictures_and_what_is_left_out) {
  write_bytes(path("a.bin"), cifar10_bytes({3, 9, 0}));
  const std::string first = open_pictures(path("a.bin"))->fingerprint();
  EXPECT_EQ(first.find("3 pictures of 32x32x3 "), 0U) << first;
  EXPECT_EQ(open_pictures(path("a.bin"))->fingerprint(), first);
  std::string bytes = cifar10_bytes({3, 9, 0});
  bytes[5000] ^= 1;
  write_bytes(path("a.bin"), bytes);
  EXPECT_NE(open_pictures(path("a.bin"))->fingerprint(), first);
}

TEST_F(CifarTest, texts_tokens_and_missing_files_are_no_pictures) {
  write_bytes(path("a.txt"), cifar10_bytes({3}));
  write_bytes(path("text.bin"), std::string(3073, 'a'));
  write_bytes(path("set.bin"), cifar10_bytes({3}));
  write_bytes(path("set.idx"), "");
  for (const char* name : {"a.txt", "text.bin", "set.bin", "none.bin"})
    EXPECT_FALSE(is_picture_set(path(name))) << name;
  expect_words(fault("none.bin"), {"none.bin: cannot be opened: No such file"});
  expect_words(fault("text.bin"), {"text.bin: has no pictures, expected .bin files of CIFAR"});
}

TEST(BadPicturesTest, are_stop_or_skip_with_a_number) {
  EXPECT_EQ(bad_pictures_of("stop"), BadPictures{});
  EXPECT_EQ(bad_pictures_of("skip:0"), BadPictures{0});
  EXPECT_EQ(bad_pictures_of("skip:12"), BadPictures{12});
  for (const char* text :
       {"", "skip", "skip:", "skip:-1", "skip:1x", "skip: 1", "Stop", "skip:99999999999999999999"})
    EXPECT_EQ(bad_pictures_of(text), std::nullopt) << text;
}

TEST(BadPicturesTest, the_first_eight_are_named) {
  BadPictureList list({10}, "set");
  for (int i = 0; i < 10; ++i) list.add(format("p{}", i), "is bad", "mend it");
  EXPECT_EQ(list.left_out().count, 10);
  EXPECT_EQ(list.left_out().first.size(), 8U);
  expect_words(user_error(ExitCode::bad_data, [&] { list.add("p10", "is bad", "mend it"); }),
               {"set: has more bad pictures than the 10", "p0: is bad", "p7: is bad", ", ...;"});
}

}  // namespace
}  // namespace fourfold::data
