#include "data/png_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "base/format.h"
#include "data/picture_statistics.h"
#include "unit/data/expect_error.h"
#include "unit/data/picture_files.h"

namespace fourfold::data::png_folder_test {
namespace {

namespace fs = std::filesystem;
constexpr PictureShape shape = {6, 5, 3};

class PngFolderTest : public DataFolderTest {
 protected:
  void write(const std::string& name, std::int64_t picture, const PictureShape& own = shape) const {
    write_picture_file(path(name), png_bytes(made_png(picture, own)));
  }
  /// cats: 0, 1, 2; dogs: 3, 4.
  void write_five() const {
    for (int i = 0; i < 5; ++i) write(format("{}/{}.png", i < 3 ? "cats" : "dogs", i), i);
  }
  std::string fault(BadPictures bad = {}) const {
    return user_error(ExitCode::bad_data, [&] { open_pictures(path(""), bad); });
  }
};

std::vector<std::uint8_t> read(const PictureSet& set, std::int64_t picture) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(set.shape().size_bytes()));
  set.read(picture, bytes);
  return bytes;
}

TEST_F(PngFolderTest, subfolders_are_labels_and_both_are_in_order_of_their_bytes) {
  write("b/2.png", 2);
  write("b/10.PNG", 1);
  write("Z/x.png", 0);
  write_picture_file(path("b/.hidden"), "no");
  write_picture_file(path(".git/x.txt"), "no");
  write_picture_file(path("README.txt"), "no");
  const auto set = open_pictures(path(""));
  EXPECT_EQ(set->facts().class_names, (std::vector<std::string>{"Z", "b"}));
  EXPECT_EQ(set->facts().labels, (std::vector<std::int32_t>{0, 1, 1}));
  EXPECT_EQ(set->shape(), shape);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(read(*set, i), made_picture(i, shape));
  EXPECT_NE(set->place(1).find("b/10.PNG"), std::string::npos);
  EXPECT_EQ(set->class_name(1), "b");
  EXPECT_EQ(set->facts().passed_over.count, 3);
  expect_words(set->facts().passed_over.text("name", "passed over"),
               {".git: is hidden", "README.txt: is in no subfolder", "b/.hidden: is hidden"});
  EXPECT_EQ(set->files(),
            (std::vector<std::string>{path("Z/x.png"), path("b/10.PNG"), path("b/2.png")}));
}

TEST_F(PngFolderTest, folders_of_texts_are_no_pictures) {
  write_picture_file(path("docs/a.md"), "a");
  write_picture_file(path("docs/b.md"), "b");
  write("images/logo.png", 0);
  EXPECT_FALSE(is_picture_set(path("")));
  EXPECT_FALSE(is_picture_set(path("docs")));
  fs::create_directories(path("empty"));
  EXPECT_FALSE(is_picture_set(path("empty")));
  EXPECT_FALSE(is_picture_set(path("images"))) << "a PNG without a label";
}

TEST_F(PngFolderTest, a_folder_that_is_meant_to_be_pictures_says_what_else_is_in_it) {
  write("cats/0.png", 0);
  write_picture_file(path("cats/1.jpg"), "\xff\xd8");
  write_picture_file(path("cats/2.jpg"), "\xff\xd8");
  EXPECT_FALSE(is_picture_set(path("")));
  expect_words(fault(), {"cats/1.jpg: is no PNG"});
  EXPECT_EQ(open_pictures(path(""), {2})->num_pictures(), 1);
  expect_words(user_error(ExitCode::bad_data, [&] { open_pictures(path("cats")); }),
               {"cats/0.png: has no label, expected it in a subfolder"});
}

TEST_F(PngFolderTest, another_size_or_number_of_channels_is_bad) {
  write_five();
  write("cats/0.png", 0, {8, 5, 3});
  expect_words(fault(), {"cats/0.png: is 8x5x3, expected 6x5x3 as most", "skip:N"});
  write("cats/0.png", 0, {6, 5, 1});
  expect_words(fault(), {"cats/0.png: is 6x5x1, expected 6x5x3 as most"});
  const auto set = open_pictures(path(""), {1});
  EXPECT_EQ(set->facts().labels, (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(read(*set, 0), made_picture(1, shape));
  EXPECT_EQ(set->facts().left_out.count, 1);
}

TEST_F(PngFolderTest, of_shapes_that_are_equally_often_the_first_one_counts) {
  write("a/0.png", 0, {7, 5, 3});
  write("a/1.png", 1, {6, 5, 3});
  EXPECT_EQ(open_pictures(path(""), {1})->shape(), (PictureShape{7, 5, 3}));
}

TEST_F(PngFolderTest, a_file_that_is_cut_off_is_found_when_the_set_is_opened) {
  write_five();
  const std::string whole = png_bytes(made_png(1, shape));
  for (std::size_t size = 33; size < whole.size(); ++size) {
    write_bytes(path("cats/1.png"), whole.substr(0, size));
    expect_words(fault(), {"cats/1.png: cannot be decoded: the file ends too early", "skip:N"});
    EXPECT_EQ(open_pictures(path(""), {1})->num_pictures(), 4);
  }
  // Bytes after the end of a picture do not count, few or many.
  for (const std::size_t size : {1U, 52U, 53U, 5000U}) {
    write_bytes(path("cats/1.png"), whole + std::string(size, 'x'));
    EXPECT_EQ(read(*open_pictures(path("")), 1), made_picture(1, shape)) << size;
  }
}

TEST_F(PngFolderTest, what_only_decoding_finds_is_found_when_read_or_when_left_out) {
  write_five();
  const std::string whole = png_bytes(made_png(1, shape));
  for (const std::size_t place : {41U, 60U, 100U}) {
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 1);
    write_bytes(path("cats/1.png"), damaged);
    const auto stopping = open_pictures(path(""));
    EXPECT_EQ(stopping->num_pictures(), 5);
    expect_words(user_error(ExitCode::bad_data, [&] { read(*stopping, 1); }),
                 {"cats/1.png: cannot be decoded", "skip:N"});
    const auto skipping = open_pictures(path(""), {1});
    EXPECT_EQ(skipping->num_pictures(), 4);
    EXPECT_EQ(read(*skipping, 1), made_picture(2, shape));
    expect_words(skipping->facts().left_out.first.at(0), {"cats/1.png: cannot be decoded"});
    EXPECT_NE(skipping->fingerprint(), stopping->fingerprint());
    expect_words(fault({0}), {"more bad pictures than the 0"});
  }
}

TEST_F(PngFolderTest, files_that_are_no_png_are_bad) {
  write_five();
  write_bytes(path("dogs/9.jpg"), "\xff\xd8\xff\xe0 a JPEG");
  expect_words(fault(), {"dogs/9.jpg: is no PNG: it begins otherwise"});
  EXPECT_EQ(open_pictures(path(""), {1})->num_pictures(), 5);
  write_bytes(path("dogs/9.jpg"), "");
  expect_words(fault(), {"dogs/9.jpg: is no PNG"});
  write_bytes(path("dogs/9.jpg"), png_bytes(made_png(1, shape)).substr(0, 12));
  expect_words(fault(), {"dogs/9.jpg: is cut off within its header"});
  fs::resize_file(path("cats/0.png"), std::uintmax_t{1} << 40);
  expect_words(fault(), {"cats/0.png: has 1.00 TiB, too many for a picture of 6x5x3"});
}

TEST_F(PngFolderTest, wrong_folders_are_errors_whatever_is_skipped) {
  write_five();
  fs::create_directories(path("birds"));
  expect_words(fault({9}), {"birds: has no pictures", "remove it"});
  fs::remove(path("birds"));
  write("x.png", 0);
  expect_words(fault({9}), {"x.png: has no label"});
  fs::remove(path("x.png"));
  write("cats/more/x.png", 0);
  expect_words(fault({9}), {"cats/more: is a folder"});
  fs::remove_all(path("cats/more"));
  fs::create_directory_symlink(path(""), path("cats/loop"));
  expect_words(fault({9}), {"cats/loop: is a folder"});
  fs::remove(path("cats/loop"));
  fs::create_symlink("self", path("cats/self"));
  expect_words(fault({9}), {"cats/self: cannot be opened: Too many levels of symbolic links"});
  fs::remove(path("cats/self"));
  fs::create_symlink("gone", path("cats/nowhere"));
  expect_words(fault({9}), {"cats/nowhere: cannot be opened: No such file"});
  fs::remove(path("cats/nowhere"));
  ASSERT_EQ(::mkfifo(path("cats/pipe").c_str(), 0600), 0);
  expect_words(fault({9}), {"cats/pipe: is a pipe or device"});
}

TEST_F(PngFolderTest, when_no_picture_is_left_there_is_no_set) {
  write_picture_file(path("cats/1.png"), "no");
  expect_words(fault({5}), {"has no pictures"});
}

TEST_F(PngFolderTest, a_picture_that_changes_its_size_later_is_an_error) {
  write_five();
  const auto set = open_pictures(path(""));
  write("cats/0.png", 0, {8, 5, 3});
  expect_words(user_error(ExitCode::bad_data, [&] { read(*set, 0); }),
               {"cats/0.png: is 8x5x3, but was 6x5x3"});
}

TEST_F(PngFolderTest, the_fingerprint_follows_names_and_contents) {
  write_five();
  const std::string first = open_pictures(path(""))->fingerprint();
  EXPECT_EQ(first, open_pictures(path(""), {3})->fingerprint());
  write("cats/0.png", 7);
  const std::string other = open_pictures(path(""))->fingerprint();
  EXPECT_NE(other, first);
  write("cats/0.png", 0);
  fs::rename(path("cats/0.png"), path("cats/00.png"));
  EXPECT_NE(open_pictures(path(""))->fingerprint(), first);
}

TEST_F(PngFolderTest, mean_and_deviation_are_those_of_each_channel) {
  PngParts png = {1, 2, 8, 2, {0, 51, 255, 255, 51, 255}};
  write_picture_file(path("a/1.png"), png_bytes(png));
  png.samples = {0, 51, 0, 255, 51, 0};
  write_picture_file(path("b/1.png"), png_bytes(png));
  const auto set = open_pictures(path(""));
  const PictureStatistics statistics = measure_pictures(*set);
  const double expected_mean[] = {0.5, 0.2, 0.5}, expected_deviation[] = {0.5, 0, 0.5};
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_DOUBLE_EQ(statistics.mean[c], expected_mean[c]);
    EXPECT_DOUBLE_EQ(statistics.deviation[c], expected_deviation[c]);
  }
  EXPECT_EQ(count_classes(*set), (std::vector<std::int64_t>{1, 1}));
}

}  // namespace
}  // namespace fourfold::data::png_folder_test
