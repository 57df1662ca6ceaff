// Pictures as a person looks at them: `data inspect` and `data verify` on sets of each format, good
// and bad, and the shapes that data/draw-shapes draws.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/text.h"
#include "support/command.h"
#include "support/in_process.h"
#include "unit/data/packed.h"
#include "unit/data/picture_files.h"

namespace fourfold::pictures_test {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_here;
using Words = std::vector<std::string>;

void expect_says(const std::string& text, const Words& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\n" << text;
}

class Pictures : public FolderTest {
 protected:
  Outcome inspect(const std::string& name, const Words& more = {}) const {
    Words words = {"data", "inspect", path(name)};
    words.insert(words.end(), more.begin(), more.end());
    return run_here(words);
  }
  Outcome verify(const std::string& name) const { return run_here({"data", "verify", path(name)}); }

  void write(const std::string& name, const std::string& bytes) const {
    data::write_picture_file(path(name), bytes);
  }
  void write_png(const std::string& name, std::int64_t picture,
                 const data::PictureShape& shape = {6, 5, 3}) const {
    write(name, data::png_bytes(data::made_png(picture, shape)));
  }
  /// Below the test's folder: names and sizes of all files.
  Words listing() const {
    Words names;
    for (const auto& entry :
         fs::recursive_directory_iterator(path(""), fs::directory_options::skip_permission_denied))
      names.push_back(entry.path().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

/// Bars and thumbnails stay within 80 columns.
void expect_narrow(const std::string& text) {
  for (const std::string& line : split(text.substr(text.find("pictures by class")), '\n'))
    EXPECT_LE(line.size(), 80U) << line;
}

TEST_F(Pictures, sets_of_each_format_are_inspected_and_verified) {
  write("cifar/train.bin", data::cifar10_bytes({1, 0, 1, 1}));
  write("cifar/test.bin", data::cifar10_bytes({0}));
  write("cifar/batches.meta.txt", "circle\nsquare\n");
  Outcome outcome = inspect("cifar");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output, {"CIFAR-10 pictures", "4 of 32x32x3", "12.0 KiB",
                               "not in it   test.bin", "   0 circle         1  ##############\n",
                               "   1 square         3  #####", "0: square", "1: circle"});
  expect_narrow(outcome.output);
  outcome = verify("cifar");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output, {"cifar: 4 pictures of 32x32x3, no faults; labels 0 to 1"});

  write("t10k-images-idx3-ubyte.gz", data::pack_gzip(data::idx_pictures(3, {8, 8, 1})));
  write("t10k-labels-idx1-ubyte", data::idx_labels({0, 4, 4}));
  outcome = inspect("t10k-images-idx3-ubyte.gz");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output, {"IDX pictures", "3 of 8x8x1", "classes     5", "   3         0\n"});
  EXPECT_EQ(verify("t10k-images-idx3-ubyte.gz").code, 0);

  for (int i = 0; i < 5; ++i) write_png(format("png/{}/{}.png", i < 3 ? "cats" : "dogs", i), i);
  outcome = inspect("png");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output, {"a folder of PNGs", "5 of 6x5x3", "0 cats", "1 dogs", "3: dogs"});
  expect_says(verify("png").output, {"5 pictures of 6x5x3, no faults"});
}

TEST_F(Pictures, of_many_classes_the_first_forty_are_shown) {
  std::string bytes;
  for (int label = 0; label < 100; label += 3) bytes += data::cifar_record({0, label}, label);
  write("a.bin", bytes);
  const Outcome outcome = inspect("a.bin");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output, {"CIFAR-100", "\n  39         1  ####",
                               "\n  and 60 more, 0 to 1 pictures each\n", "0: 0", "5: 15"});
  EXPECT_EQ(outcome.output.find("6: 18"), outcome.output.npos) << "six pictures are shown";
}

TEST_F(Pictures, mean_and_deviation_are_those_of_a_normalisation) {
  data::PngParts png = {1, 2, 8, 2, {0, 51, 255, 255, 51, 255}};
  write("png/a/1.png", data::png_bytes(png));
  png.samples = {0, 51, 0, 255, 51, 0};
  write("png/b/1.png", data::png_bytes(png));
  expect_says(inspect("png").output,
              {"mean        0.5000, 0.2000, 0.5000 of each channel", "0.5000, 0.0000, 0.5000"});
}

TEST_F(Pictures, bad_ones_are_left_out_counted_and_named_where_that_is_allowed) {
  for (int i = 0; i < 5; ++i) write_png(format("png/{}/{}.png", i < 3 ? "cats" : "dogs", i), i);
  const std::string whole = data::png_bytes(data::made_png(1, {6, 5, 3}));
  write("png/cats/1.png", whole.substr(0, 70));
  write_png("png/dogs/3.png", 3, {9, 5, 3});
  const Outcome outcome = inspect("png", {"--bad-images", "skip:2"});
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output, {"3 of 6x5x3", "left out: 2 bad pictures\n", "cats/1.png: cannot be",
                               "dogs/3.png: is 9x5x3, expected 6x5x3"});
  const Outcome refused = inspect("png", {"--bad-images", "skip:1"});
  EXPECT_EQ(refused.code, 3);
  expect_says(refused.text, {"more bad pictures than the 1 that may be left out", "cats/1.png"});
  const Outcome mistaken = inspect("png", {"--bad-images", "skip"});
  EXPECT_EQ(mistaken.code, 2);
  expect_says(mistaken.text, {"'skip' is neither stop nor skip:N, such as skip:10"});
}

/// A fault in a set that is made by `make`; `looks_at` is inspected and verified.
struct BadSet {
  std::string looks_at;
  std::function<void()> make;
  Words says;
};

TEST_F(Pictures, each_bad_set_ends_with_code_three_and_one_line_that_names_the_place) {
  const std::string cifar = data::cifar10_bytes({3, 9, 0, 1, 2, 3});
  const std::string png = data::png_bytes(data::made_png(1, {6, 5, 3}));
  const std::string idx = data::idx_pictures(3, {5, 4, 1});
  const auto write_pngs = [&] {
    for (int i = 0; i < 5; ++i) write_png(format("set/{}/{}.png", i < 3 ? "cats" : "dogs", i), i);
  };
  const auto write_idx = [&](const std::string& pictures, const std::string& labels) {
    write("set/a-images-idx3-ubyte", pictures);
    write("set/a-labels-idx1-ubyte", labels);
  };
  const std::vector<BadSet> sets = {
      {"set/a.bin",
       [&] { write("set/a.bin", cifar.substr(0, 10000)); },
       {"a.bin, picture 3: is cut off: the file ends after 781 of its 3073 bytes"}},
      {"set/a.bin",
       [&] { write("set/a.bin", data::cifar10_bytes({3, 10})); },
       {"a.bin, picture 1: has the label 10, expected 0 to 9"}},
      {"set",
       [&] { write("set/a.bin", cifar), write("set/b.bin", cifar.substr(0, 6000)); },
       {"b.bin, picture 1: is cut off"}},
      {"set", [&] { write_idx(idx, data::idx_labels({1, 2})); }, {"a-labels", "has 2 labels"}},
      {"set",
       [&] { write_idx(idx.substr(0, 50), data::idx_labels({1, 2, 3})); },
       {"a-images-idx3-ubyte, picture 1: is cut off: the file has 14 of its 20 bytes"}},
      {"set", [&] { write_idx(idx, ""); }, {"a-labels", "does not begin as an IDX file"}},
      {"set", [&] { write("set/a-images-idx3-ubyte", idx); }, {"has no labels beside it"}},
      {"set",
       [&] { write_idx(data::pack_gzip(idx).substr(0, 30), data::idx_labels({1, 2, 3})); },
       {"a-images", "damaged compressed data", "it ends too early"}},
      {"set",
       [&] {
         write_idx(data::idx_header({3, 0xffffffff, 0xffffffff}), data::idx_labels({1, 2, 3}));
       },
       {"a-images", "claims more values than 63 bits can count"}},
      {"set",
       [&] { write_pngs(), write("set/cats/1.png", png.substr(0, 90)); },
       {"cats/1.png: cannot be decoded: the file ends too early"}},
      {"set",
       [&] { write_pngs(), write_png("set/cats/1.png", 1, {7, 5, 3}); },
       {"cats/1.png: is 7x5x3, expected 6x5x3"}},
      {"set", [&] { write_pngs(), write("set/dogs/x.jpg", "a JPEG"); }, {"dogs/x.jpg: is no PNG"}},
      {"set",
       [&] { write_pngs(), fs::create_directories(path("set/birds")); },
       {"set/birds: has no pictures"}},
      {"set",
       [&] { write_pngs(), fs::create_directory_symlink(path("set"), path("set/cats/loop")); },
       {"cats/loop: is a folder"}},
      {"set",
       [&] { write_pngs(), fs::create_symlink("self", path("set/cats/self")); },
       {"cats/self: cannot be opened: Too many levels of symbolic links"}},
      {"set",
       [&] { write_pngs(), ::mkfifo(path("set/cats/pipe").c_str(), 0600); },
       {"cats/pipe: is a pipe or device"}},
      {"set", [&] { fs::create_directories(path("set")); }, {"set"}},
      {"set", [&] { fs::create_directories(path("set/cats")); }, {"set"}},
  };
  for (const BadSet& bad : sets) {
    SCOPED_TRACE(bad.says.back());
    fs::remove_all(path("set"));
    bad.make();
    const Words before = listing();
    for (const Outcome& outcome : {inspect(bad.looks_at), verify(bad.looks_at)}) {
      EXPECT_EQ(outcome.code, 3);
      EXPECT_EQ(outcome.output, "") << "nothing is said of a set that is bad";
      EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
      expect_says(outcome.text, {"error: "});
      expect_says(outcome.text, bad.says);
    }
    EXPECT_EQ(listing(), before);
  }
}

TEST_F(Pictures, a_file_that_may_not_be_read_is_an_error_whatever_is_left_out) {
  for (int i = 0; i < 3; ++i) write_png(format("set/cats/{}.png", i), i);
  ::chmod(path("set/cats/1.png").c_str(), 0);
  const std::string words = format("data inspect {} --bad-images skip:9", path("set"));
  // Root may read everything, so the command is nobody's.
  const std::string nobody =
      ::geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
  if (run_command(format("{}{} --version > /dev/null 2>&1", nobody, FOURFOLD_BINARY)).code != 0)
    GTEST_SKIP() << "the program cannot be run as another user here";
  const CommandResult result = run_command(format("{}{} {} 2>&1", nobody, FOURFOLD_BINARY, words));
  EXPECT_EQ(result.code, 3);
  expect_says(result.text, {"cats/1.png: cannot be opened: Permission denied"});
}

TEST_F(Pictures, other_data_are_inspected_as_before) {
  write("books/a/1.txt", "a text");
  write("books/a/2.txt", "another");
  write_png("books/images/1.png", 1);
  expect_says(inspect("books").output, {"of text, a document each"});
  write("a.txt", "a text");
  expect_says(inspect("a.txt").output, {"of text, a document each"});
  data::write_megatron(path("set"), data::counting_documents({20, 30}, 5));
  expect_says(inspect("set").output, {"a Megatron set"});
  expect_says(inspect("set.bin").output, {"a Megatron set"});
  expect_says(verify("set").output, {"2 documents"});
  write_png("set/a/1.png", 1);  // a folder of the same name as the set of tokens
  expect_says(inspect("set").output, {"a Megatron set"});
  expect_says(verify("set").output, {"2 documents"});
}

TEST_F(Pictures, class_names_and_file_names_command_no_terminal) {
  write_png("png/a\x1b[31mred/x.png", 1);
  write_png("png/b/x\x1b[32m.png", 2, {9, 5, 3});
  write_png("png/c/x.png", 3);
  const Outcome outcome = inspect("png", {"--bad-images", "skip:1"});
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(outcome.output.find('\x1b'), outcome.output.npos);
}

CommandResult draw(const std::string& words) {
  return run_command("data/draw-shapes " + words + " 2>&1");
}

TEST_F(Pictures, drawn_shapes_are_the_same_bytes_anywhere_and_each_seed_has_its_own) {
  const std::string few = " --train 40 --test 16 ";
  ASSERT_EQ(draw(few + path("a")).code, 0);
  ASSERT_EQ(draw(few + path("b")).code, 0);
  ASSERT_EQ(draw(few + "--seed 2 " + path("c")).code, 0);
  EXPECT_EQ(data::read_bytes(path("a/train.bin")), data::read_bytes(path("b/train.bin")));
  EXPECT_NE(data::read_bytes(path("a/train.bin")), data::read_bytes(path("c/train.bin")));
  EXPECT_EQ(hash128_text(data::read_bytes(path("a/train.bin"))),
            "723bc158076b0029e270b534f16db984");
  EXPECT_NE(data::read_bytes(path("a/train.bin")).substr(0, 16 * 3073),
            data::read_bytes(path("a/test.bin")));
  Outcome outcome = inspect("a");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output, {"40 of 32x32x3", "classes     8", "0 circle", "7 moon"});
  expect_says(inspect("a/test.bin").output, {"16 of 32x32x3", "0 circle"});
  EXPECT_EQ(verify("a").code, 0);
  // What is there is left as it is.
  const CommandResult again = draw("--train 5 " + path("a"));
  EXPECT_EQ(again.code, 0);
  expect_says(again.text, {"is already there"});
  expect_says(inspect("a").output, {"40 of 32x32x3"});
}

TEST_F(Pictures, drawn_pngs_are_decoded) {
  ASSERT_EQ(draw("--png 16 " + path("png")).code, 0);
  const Outcome outcome = inspect("png");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output, {"16 of 32x32x3", "classes     8", "0 bar", "7 triangle"});
  EXPECT_EQ(verify("png").code, 0);
}

TEST_F(Pictures, draw_shapes_refuses_what_it_does_not_know) {
  for (const char* words : {"--wings 3", "--train", "--train x", "--png 0", "a b", "--seed -1"}) {
    const CommandResult result = draw(words);
    EXPECT_EQ(result.code, 2) << words;
    expect_says(result.text, {"draw-shapes: ", "draw-shapes --help"});
  }
  const CommandResult result = draw("--train 1 --test 1 " + path("no/such/folder"));
  EXPECT_EQ(result.code, 1);
  expect_says(result.text, {"cannot be made: No such file"});
}

/// Real pictures: of the folder that FOURFOLD_DATA names, or of one beside the repository.
TEST_F(Pictures, of_cifar_and_fashion_mnist) {
  const char* folder = std::getenv("FOURFOLD_DATA");
  const std::string images =
      std::string(folder != nullptr ? folder : FOURFOLD_SOURCE_DIR "/../shared/data") + "/images";
  if (!fs::exists(images)) GTEST_SKIP() << "set FOURFOLD_DATA to a folder with images/";
  Outcome outcome = run_here({"data", "inspect", images + "/cifar10_train_5k.bin"});
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output, {"CIFAR-10", "5,000 of 32x32x3", "classes     10"});
  for (int label = 0; label < 10; ++label)
    expect_says(outcome.output, {format("   {}       500  ####", label)});
  outcome = run_here({"data", "inspect", images + "/fashion"});
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  expect_says(outcome.output,
              {"IDX", "4,000 of 28x28x1", "classes     10", "   8       416", "   9       374"});
  for (const char* name : {"/fashion", "/cifar10_test_1k.bin"})
    expect_says(run_here({"data", "verify", images + name}).output, {"no faults"});
}

}  // namespace
}  // namespace fourfold::pictures_test
