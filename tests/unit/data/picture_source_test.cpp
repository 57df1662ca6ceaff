#include "data/picture_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/synthetic.h"
#include "unit/data/expect_error.h"
#include "unit/data/picture_files.h"

namespace fourfold::data::picture_source_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr PictureShape shape = {3, 4, 1};

class PictureSourceTest : public DataFolderTest {
 protected:
  /// A set of so many pictures, of the labels 0, 1, 2, 0, ...
  std::string made_set(const std::string& name, std::int64_t count) const {
    std::vector<int> labels;
    for (std::int64_t i = 0; i < count; ++i) labels.push_back(static_cast<int>(i % 3));
    write_bytes(path(name + "-images"), idx_pictures(count, shape));
    write_bytes(path(name + "-labels"), idx_labels(labels));
    return path(name + "-images");
  }
  static DataSpec spec_of(const std::string& path, std::int64_t samples_per_step = 4) {
    DataSpec spec;
    spec.format = Format::pictures;
    spec.is_of_pictures = true;
    spec.path = path;
    spec.split = 0.75;
    spec.seed = 7;
    spec.samples_per_step = samples_per_step;
    return spec;
  }
};

template <class Fill>
Bytes picture_of(const Fill& fill) {
  Bytes bytes(static_cast<std::size_t>(shape.size_bytes()));
  fill(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}
Bytes train_picture(const Source& source, std::int64_t step, std::int64_t sample) {
  return picture_of([&](auto into) { source.fill_train(0, step, sample, into); });
}
std::int32_t train_label(const Source& source, std::int64_t step, std::int64_t sample) {
  std::int32_t label = -7;
  source.fill_train(1, step, sample, std::as_writable_bytes(std::span(&label, 1)));
  return label;
}
Bytes validation_picture(const Source& source, std::int64_t sample) {
  return picture_of([&](auto into) { source.fill_validation(0, sample, into); });
}
std::int32_t validation_label(const Source& source, std::int64_t sample) {
  std::int32_t label = -7;
  source.fill_validation(1, sample, std::as_writable_bytes(std::span(&label, 1)));
  return label;
}

/// Which picture of a made set it is; the pictures differ in all of their bytes.
std::int64_t number_of(const Bytes& picture) {
  for (std::int64_t i = 0; i < 256; ++i)
    if (made_picture(i, shape) == picture) return i;
  return -1;
}

Bytes mirrored(const Bytes& picture) {
  Bytes result;
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t column = 0; column < 4; ++column)
      result.push_back(picture[row * 4 + 3 - column]);
  return result;
}

TEST_F(PictureSourceTest, an_epoch_shows_each_training_picture_once_with_its_label) {
  const PictureSource source(spec_of(made_set("a", 16)));
  EXPECT_EQ(source.num_train(), 12);
  EXPECT_EQ(source.num_validation(), 4);
  EXPECT_EQ(source.num_labels(), 3);
  EXPECT_EQ(source.unit().plural, "pictures");
  std::vector<std::vector<std::int64_t>> epochs(2);
  for (std::int64_t step = 0; step < 6; ++step)
    for (std::int64_t sample = 0; sample < 4; ++sample) {
      const std::int64_t number = number_of(train_picture(source, step, sample));
      EXPECT_EQ(train_label(source, step, sample), number % 3);
      epochs[static_cast<std::size_t>(step / 3)].push_back(number);
    }
  EXPECT_NE(epochs[0], epochs[1]) << "each epoch has an order of its own";
  const std::set<std::int64_t> first(epochs[0].begin(), epochs[0].end()),
      second(epochs[1].begin(), epochs[1].end());
  EXPECT_EQ(first.size(), 12);
  EXPECT_EQ(first, second);
  // What validates is the rest, whatever the seed is.
  DataSpec other = spec_of(path("a-images"));
  other.seed = 8;
  const PictureSource reseeded(other);
  for (std::int64_t sample = 0; sample < 4; ++sample) {
    const std::int64_t number = number_of(validation_picture(source, sample));
    EXPECT_FALSE(first.contains(number));
    EXPECT_EQ(validation_label(source, sample), number % 3);
    EXPECT_EQ(number_of(validation_picture(reseeded, sample)), number);
  }
  std::vector<std::int64_t> reordered;
  for (std::int64_t i = 0; i < 12; ++i)
    reordered.push_back(number_of(train_picture(reseeded, i / 4, i % 4)));
  EXPECT_NE(reordered, epochs[0]) << "the seed decides the order";
}

TEST_F(PictureSourceTest, what_the_files_were_taken_for_is_told) {
  EXPECT_EQ(PictureSource(spec_of(made_set("a", 16))).read_as(), "IDX pictures");
}

TEST_F(PictureSourceTest, a_set_that_trains_and_validates_is_told_by_name_by_link_and_as_a_copy) {
  DataSpec spec = spec_of(made_set("a", 8));
  spec.validation = made_set("b", 5);
  EXPECT_EQ(PictureSource(spec).warnings(), std::vector<std::string>());
  for (const char* part : {"-images", "-labels"}) {
    std::filesystem::copy_file(path(std::string("a") + part), path(std::string("copy") + part));
    std::filesystem::create_symlink(path(std::string("a") + part),
                                    path(std::string("link") + part));
  }
  for (const char* name : {"a", "copy", "link"}) {
    spec.validation = path(std::string(name) + "-images");
    const auto told = PictureSource(spec).warnings();
    ASSERT_EQ(told.size(), 1U) << name;
    expect_words(told[0], {"1 file of data.validation in data.path too: " + spec.validation,
                           *name == 'a' ? "is in both" : "is the same as " + path("a-images"),
                           "what validates is trained on too"});
  }
  // Folders of many files are told in one line too.
  for (const char* set : {"train", "again"})
    for (int i = 0; i < 12; ++i)
      write_picture_file(path(std::string(set) + "/cats/" + std::to_string(i) + ".png"),
                         png_bytes(made_png(i, shape)));
  DataSpec folders = spec_of(path("train"));
  folders.validation = path("again");
  const auto told = PictureSource(folders).warnings();
  ASSERT_EQ(told.size(), 1U);
  expect_words(told[0], {"12 files of data.validation in data.path too: ", "again/cats/0.png",
                         "; and 4 more: what validates"});
}

TEST_F(PictureSourceTest, bad_pictures_that_are_left_out_of_either_set_are_a_warning) {
  DataSpec spec = spec_of(made_set("a", 8));
  spec.validation = made_set("b", 5);
  for (const char* name : {"a-images", "b-images"})
    write_bytes(path(name), read_bytes(path(name)).substr(0, 16 + 4 * 12 + 5));
  spec.bad_images.skip = 4;
  const auto told = PictureSource(spec).warnings();
  ASSERT_EQ(told.size(), 2U);
  expect_words(told[0], {"a-images: 4 bad pictures left out: ", "a-images, picture 4: is cut off"});
  expect_words(told[1], {"b-images: 1 bad picture left out: ", "b-images, picture 4: is cut off"});
}

TEST_F(PictureSourceTest, names_that_no_set_takes_are_a_warning_and_other_sets_a_calm_word) {
  for (const auto& [name, count] : {std::pair("train", 8), {"t10k", 5}}) {
    std::filesystem::rename(made_set("a", count), path(std::string(name) + "-images-idx3-ubyte"));
    std::filesystem::rename(path("a-labels"), path(std::string(name) + "-labels-idx1-ubyte"));
  }
  DataSpec spec = spec_of(path(""));
  EXPECT_EQ(PictureSource(spec).warnings(), std::vector<std::string>());
  EXPECT_EQ(PictureSource(spec).read_as(),
            "IDX pictures; without t10k-images-idx3-ubyte, another set, which data.validation may "
            "name");
  spec.validation = path("t10k-images-idx3-ubyte");
  EXPECT_EQ(PictureSource(spec).warnings(), std::vector<std::string>());
  EXPECT_EQ(PictureSource(spec).read_as(), "IDX pictures");
  write_bytes(path("notes.txt"), "x");
  ASSERT_EQ(PictureSource(spec).warnings().size(), 1U);
  expect_words(PictureSource(spec).warnings()[0], {"1 name passed over: notes.txt"});
  spec.validation = spec.path;
  EXPECT_EQ(PictureSource(spec).warnings().size(), 2U) << "names once, and the common files";
}

TEST_F(PictureSourceTest, what_fills_up_the_last_batch_is_black_and_has_no_label) {
  const PictureSource source(spec_of(made_set("a", 16)));
  EXPECT_EQ(source.validation_samples(), 4);
  EXPECT_EQ(validation_picture(source, 4), Bytes(12, 0));
  EXPECT_EQ(validation_label(source, 4), no_label);
}

TEST_F(PictureSourceTest, half_of_the_samples_are_mirrored_and_none_that_validates) {
  DataSpec spec = spec_of(made_set("a", 40), 20);
  const PictureSource plain(spec);
  spec.flip = true;
  const PictureSource flipped(spec);
  int turned = 0;
  constexpr int samples = 400;
  for (int i = 0; i < samples; ++i) {
    const Bytes straight = train_picture(plain, i / 20, i % 20);
    const Bytes seen = train_picture(flipped, i / 20, i % 20);
    EXPECT_TRUE(seen == straight || seen == mirrored(straight));
    EXPECT_EQ(train_label(plain, i / 20, i % 20), train_label(flipped, i / 20, i % 20));
    if (seen != straight) ++turned;
  }
  // Six standard deviations of 400 throws of a coin.
  EXPECT_NEAR(turned, samples / 2, 60);
  for (std::int64_t sample = 0; sample < 10; ++sample)
    EXPECT_EQ(validation_picture(flipped, sample), validation_picture(plain, sample));
}

TEST_F(PictureSourceTest, a_set_of_its_own_validates_in_its_order_and_all_of_the_other_trains) {
  DataSpec spec = spec_of(made_set("a", 8));
  spec.validation = made_set("b", 5);
  const PictureSource source(spec);
  EXPECT_EQ(source.num_train(), 8);
  EXPECT_EQ(source.num_validation(), 5);
  EXPECT_EQ(source.validation_name(), path("b-images"));
  for (std::int64_t sample = 0; sample < 5; ++sample)
    EXPECT_EQ(number_of(validation_picture(source, sample)), sample);
  EXPECT_NE(source.fingerprint().find("; "), std::string::npos);
}

TEST_F(PictureSourceTest, sets_that_do_not_fit_each_other_or_a_step_are_errors) {
  DataSpec spec = spec_of(made_set("a", 8));
  write_bytes(path("wide-images"), idx_pictures(4, {3, 5, 1}));
  write_bytes(path("wide-labels"), idx_labels({0, 1, 2, 0}));
  spec.validation = path("wide-images");
  expect_words(user_error(ExitCode::bad_data, [&] { PictureSource source(spec); }),
               {"wide-images", "3x5x1", "3x4x1", "make them of one size"});
  write_bytes(path("more-images"), idx_pictures(4, shape));
  write_bytes(path("more-labels"), idx_labels({0, 1, 2, 3}));
  spec.validation = path("more-images");
  expect_words(user_error(ExitCode::bad_data, [&] { PictureSource source(spec); }),
               {"more-images", "4 classes", "only 3", "leave the others out"});
  expect_words(
      user_error(ExitCode::bad_data, [&] { PictureSource source(spec_of(path("a-images"), 7)); }),
      {"a-images", "6 pictures for training", "the 7 of a step"});
  DataSpec all = spec_of(path("a-images"));
  all.split = 1;
  expect_words(user_error(ExitCode::bad_data, [&] { PictureSource source(all); }),
               {"a-images", "no picture of 8 for validation"});
}

TEST(SyntheticPicturesTest, they_are_the_same_every_time_and_their_class_can_be_seen) {
  constexpr PictureShape small = {8, 8, 3};
  constexpr std::int64_t classes = 5, pictures = 200;
  const SyntheticPictures set(small, classes), again(small, classes);
  std::array<std::array<double, 192>, classes> means{};
  Bytes picture(192), other(192);
  for (std::int64_t i = 0; i < pictures; ++i) {
    set.read(i, picture);
    again.read(i, other);
    EXPECT_EQ(picture, other);
    EXPECT_EQ(set.label(i), i % classes);
    auto& mean = means[static_cast<std::size_t>(i % classes)];
    for (std::size_t at = 0; at < 192; ++at) mean[at] += picture[at] / 40.0;
  }
  // The nearest mean names the class of pictures that are not among them.
  int right = 0;
  for (std::int64_t i = pictures; i < 2 * pictures; ++i) {
    set.read(i, picture);
    std::array<double, classes> distance{};
    for (std::size_t c = 0; c < classes; ++c)
      for (std::size_t at = 0; at < 192; ++at)
        distance[c] += (picture[at] - means[c][at]) * (picture[at] - means[c][at]);
    if (std::ranges::min_element(distance) - distance.begin() == set.label(i)) ++right;
  }
  EXPECT_EQ(right, pictures);
}

}  // namespace
}  // namespace fourfold::data::picture_source_test
