// What trains and what validates are compared, whatever their names.
#include "data/compare_sets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/token_source.h"
#include "unit/data/expect_error.h"
#include "unit/data/token_files.h"

namespace fourfold::data {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class CompareSets : public DataFolderTest {
 protected:
  Texts warnings(const std::string& train, const std::string& validation) const {
    DataSpec spec;
    spec.path = path(train);
    spec.validation = path(validation);
    spec.tokenizer = tokenizer::TokenizerKind::byte;
    spec.seq_length = 4;
    spec.samples_per_step = 2;
    return TokenSource(spec).warnings();
  }
};

TEST_F(CompareSets, a_text_that_validates_and_trains_is_told_by_name_by_link_and_as_a_copy) {
  fs::create_directories(path("set"));
  write_bytes(path("set/a.txt"), "a text of a set, long enough");
  write_bytes(path("set/b.txt"), "another text of the same size");
  write_bytes(path("own.txt"), "a text of its own for validat");
  EXPECT_EQ(warnings("set", "own.txt"), Texts());
  const Texts inside = warnings("set", "set/a.txt");
  ASSERT_EQ(inside.size(), 1U);
  expect_words(inside[0], {"set/a.txt of data.validation is also a file of data.path",
                           "what validates is trained on too"});
  fs::create_symlink(path("set/a.txt"), path("link.txt"));
  fs::create_hard_link(path("set/a.txt"), path("hard.txt"));
  fs::copy_file(path("set/a.txt"), path("copy.txt"));
  for (const char* name : {"link.txt", "hard.txt", "copy.txt"}) {
    const Texts notes = warnings("set", name);
    ASSERT_EQ(notes.size(), 1U) << name;
    expect_words(notes[0], {std::string(name) + " of data.validation is the same as", "set/a.txt"});
  }
  EXPECT_EQ(warnings("set", "set").size(), 2U);
}

TEST_F(CompareSets, files_beyond_the_eighth_are_counted) {
  fs::create_directories(path("set"));
  for (int i = 0; i < 10; ++i)
    write_bytes(path("set/" + std::to_string(i)), "text number " + std::to_string(i));
  const Texts notes = warnings("set", "set");
  ASSERT_EQ(notes.size(), 9U);
  EXPECT_EQ(notes[8], "so are 2 more files of data.validation");
}

TEST_F(CompareSets, a_text_that_stands_in_a_folder_twice_is_told) {
  fs::create_directories(path("set/more"));
  write_bytes(path("own.txt"), "a text of its own for validat");
  write_bytes(path("set/a.txt"), "a text of a set, long enough");
  write_bytes(path("set/b.txt"), "a text of a set, tall enough");  // as long, and another one
  write_bytes(path("set/c.txt"), "");
  write_bytes(path("set/d.txt"), "");
  EXPECT_EQ(warnings("set", "own.txt"), Texts());
  for (const char* name : {"set/e.txt", "set/more/f.txt"})
    fs::copy_file(path("set/a.txt"), path(name));
  const Texts notes = warnings("set", "own.txt");
  ASSERT_EQ(notes.size(), 1U);
  expect_words(notes[0], {"2 files read twice: ", "set/e.txt: is a copy of ", "set/a.txt",
                          "set/more/f.txt: is a copy of", "remove one of the two"});
}

TEST_F(CompareSets, sets_of_a_blend_are_compared_with_each_other_and_with_what_validates) {
  write_megatron(path("a"), counting_documents({40, 40}));
  write_megatron(path("b"), counting_documents({30, 30}));
  for (const char* end : {".bin", ".idx"}) fs::copy_file(path("a") + end, path("copy") + end);
  DataSpec spec;
  spec.format = Format::megatron;
  spec.blend = {{path("a"), 1}, {path("b"), 1}, {path("copy"), 1}};
  spec.seq_length = 4;
  spec.samples_per_step = 3;
  spec.vocab_size = 100;
  const Texts twice = TokenSource(spec).warnings();
  ASSERT_EQ(twice.size(), 1U);
  expect_words(twice[0], {"copy.bin of data.blend is the same as", "a.bin", "name it once"});
  spec.blend.pop_back();
  spec.validation = path("copy.bin");
  const Texts validates = TokenSource(spec).warnings();
  ASSERT_EQ(validates.size(), 1U);
  expect_words(validates[0], {"copy.bin of data.validation is the same as", "a.bin of data.blend"});
}

}  // namespace
}  // namespace fourfold::data
