#include "data/tokenize.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/format.h"
#include "data/megatron_set.h"
#include "data/sidecar.h"
#include "data/token_source.h"
#include "data/verify_set.h"
#include "support/simulated_disk.h"
#include "unit/data/expect_error.h"
#include "unit/data/token_files.h"

namespace fourfold::data {
namespace {

using test::Killed;
using test::SimulatedDisk;

/// Bytes, and a token that ends documents.
class BytesAndEnd final : public tokenizer::Tokenizer {
 public:
  std::string_view name() const override { return "test"; }
  std::int64_t vocab_size() const override { return 257; }
  std::optional<std::int32_t> end_of_document() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text, std::string_view source) const override {
    return bytes_->encode(text, source);
  }
  std::size_t last_cut(std::string_view text) const override { return bytes_->last_cut(text); }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return bytes_->decode(ids);
  }
  std::string to_text() const override { return "{\"tokenizer\":\"test\"}"; }

 private:
  std::unique_ptr<tokenizer::Tokenizer> bytes_ = tokenizer::byte_tokenizer();
};

class TokenizeTest : public DataFolderTest {
 protected:
  /// Documents of several forms, some of which are longer than a piece.
  TokenizeOptions make_inputs(int num_lines = 40'000) {
    std::string lines, book;
    for (int i = 0; i < num_lines; ++i)
      lines +=
          format("{{\"text\": \"{}\"}}\n", i % 10 == 0 ? "" : format("document {} of words", i));
    for (int i = 0; i < 55'000; ++i) book += format("Line {} of the book.\n", i);
    write_bytes(path("a.jsonl"), lines);
    write_bytes(path("b.txt"), book);
    write_bytes(path("c.txt"), "short");
    write_bytes(path("d.txt"), "");
    TokenizeOptions options;
    options.inputs = {path("a.jsonl"), path("b.txt"), path("c.txt"), path("d.txt")};
    options.prefix = path("set");
    return options;
  }
  static TokenizeResult run(FileSystem& files, const TokenizeOptions& options,
                            const tokenizer::Tokenizer& tokenizer) {
    return tokenize(files, options, tokenizer, [](const TokenizeProgress&) {});
  }
};

TEST_F(TokenizeTest, the_set_holds_the_documents_and_does_not_depend_on_the_number_of_threads) {
  TokenizeOptions options = make_inputs();
  const BytesAndEnd tokenizer;
  options.append_eod = true;
  const TokenizeResult result = run(real_files(), options, tokenizer);
  EXPECT_EQ(result.documents, 36'002);
  EXPECT_EQ(result.empty_documents, 4'001);
  EXPECT_EQ(result.dtype, "u16");
  const MegatronSet set(path("set"));
  EXPECT_EQ(set.num_documents(), 36'002);
  std::vector<std::int32_t> ids(23);
  ASSERT_FALSE(set.read(0, 257, ids).has_value());
  EXPECT_EQ(tokenizer.decode(std::span(ids).first(19)), "document 1 of words");
  EXPECT_EQ(ids[19], 256);
  const std::string bin = read_bytes(path("set.bin")), idx = read_bytes(path("set.idx")),
                    json = read_bytes(path("set.json"));
  for (const int jobs : {2, 5}) {
    options.jobs = jobs;
    options.overwrite = true;
    run(real_files(), options, tokenizer);
    EXPECT_EQ(read_bytes(path("set.bin")), bin) << jobs;
    EXPECT_EQ(read_bytes(path("set.idx")), idx) << jobs;
    EXPECT_EQ(read_bytes(path("set.json")), json) << jobs;
  }
  EXPECT_FALSE(std::filesystem::exists(path("set.partial")));
}

TEST_F(TokenizeTest, the_index_is_that_of_megatrons_writer) {
  write_bytes(path("a.jsonl"), "{\"text\":\"abc\"}\n{\"text\":\"de\"}\n");
  TokenizeOptions options;
  options.inputs = {path("a.jsonl")};
  options.prefix = path("set");
  run(real_files(), options, *tokenizer::byte_tokenizer());
  EXPECT_EQ(read_bytes(path("set.idx")), megatron_index_bytes({{1, 2, 3}, {4, 5}}));
  EXPECT_EQ(read_bytes(path("set.bin")), std::string("a\0b\0c\0d\0e\0", 10));
  EXPECT_EQ(verify_set(path("set")).largest_id, 'e');
  DataSpec spec;
  spec.format = Format::megatron;
  spec.path = path("set");
  spec.seq_length = 1;
  spec.split = 0.6;
  EXPECT_EQ(TokenSource(spec).tokenizer()->fingerprint(),
            tokenizer::byte_tokenizer()->fingerprint());
}

TEST_F(TokenizeTest, a_sidecar_that_holds_no_tokenizer_is_bad_data) {
  write_bytes(path("a.txt"), "some words");
  TokenizeOptions options;
  options.inputs = {path("a.txt")};
  options.prefix = path("set");
  options.append_eod = false;
  run(real_files(), options, *tokenizer::byte_tokenizer());
  const std::string text = read_bytes(path("set.json"));
  const std::size_t at = text.find("\"tokenizer\": {");
  ASSERT_NE(at, text.npos);
  for (const std::string other : {"{}", R"({"tokenizer":1})", R"({"tokenizer":"none such"})"}) {
    write_bytes(path("set.json"), text.substr(0, at) + "\"tokenizer\": " + other + "\n}\n");
    expect_words(user_error(ExitCode::bad_data, [&] { verify_set(path("set")); }), {"set.json"});
    DataSpec spec;
    spec.format = Format::megatron;
    spec.path = path("set");
    spec.seq_length = 1;
    expect_words(user_error(ExitCode::bad_data, [&] { TokenSource{spec}; }), {"set.json"});
    const auto sidecar = read_sidecar(path("set"));
    user_error(ExitCode::bad_data, [&] { tokenizer_of(*sidecar, "set.json"); });
  }
}

TEST_F(TokenizeTest, a_large_vocabulary_takes_four_bytes_a_token) {
  write_bytes(path("a.txt"), "0 65499 70000");
  TokenizeOptions options;
  options.inputs = {path("a.txt")};
  for (const auto& [vocab, dtype] : {std::pair(65'499, "u16"), {65'500, "i32"}}) {
    options.prefix = path(dtype);
    write_bytes(path("a.txt"), "0 65498");
    EXPECT_EQ(run(real_files(), options, *tokenizer::number_tokenizer(vocab)).dtype, dtype);
    std::vector<std::int32_t> ids(2);
    EXPECT_FALSE(MegatronSet(path(dtype)).read(0, vocab, ids).has_value());
    EXPECT_EQ(ids, (std::vector<std::int32_t>{0, 65498}));
  }
}

/// What lies on the disk under the set's name.
struct FilesOf {
  explicit FilesOf(SimulatedDisk& disk) {
    for (const std::string name : {"/set.bin", "/set.idx", "/set.json"})
      if (disk.exists(name)) texts.push_back(read_text(disk, name));
  }
  std::vector<std::string> texts;
  bool operator==(const FilesOf&) const = default;
};

class TokenizeCrashTest : public TokenizeTest {
 protected:
  void SetUp() override {
    TokenizeTest::SetUp();
    options_ = make_inputs(3000);
    options_.prefix = "/set";
    options_.append_eod = true;
    options_.jobs = 2;
    options_.note_bytes = 100'000;
  }
  TokenizeOptions options_;
  BytesAndEnd tokenizer_;
};

TEST_F(TokenizeCrashTest,
       a_kill_at_any_operation_leaves_nothing_half_and_the_next_call_gives_the_same_bytes) {
  SimulatedDisk unbroken;
  run(unbroken, options_, tokenizer_);
  const std::int64_t operations = unbroken.operations();
  const FilesOf expected(unbroken);
  ASSERT_EQ(expected.texts.size(), 3U);
  ASSERT_GT(operations, 40);
  for (std::int64_t at = 0; at < operations; ++at) {
    // The next test shows that nothing is lost, where an operation fails half done.
    for (const auto loss : {SimulatedDisk::Loss::all, SimulatedDisk::Loss::some}) {
      if (loss == SimulatedDisk::Loss::some && at % 2 == 0) continue;
      SimulatedDisk disk;
      disk.set_plan({.kill_at = at, .fail_at = {}});
      EXPECT_THROW(run(disk, options_, tokenizer_), Killed) << at;
      disk.set_plan({});
      disk.lose_power(loss, static_cast<std::uint64_t>(at));
      if (disk.exists("/set.idx")) {
        EXPECT_EQ(FilesOf(disk), expected) << "an index without the rest, at " << at;
      }
      try {
        run(disk, options_, tokenizer_);
      } catch (const UserError& error) {
        // Killed between the set's last name and the end of the cleaning.
        EXPECT_EQ(error.code(), ExitCode::output_in_use) << at << ": " << error.what();
      }
      ASSERT_EQ(FilesOf(disk), expected) << "killed at " << at;
    }
  }
}

TEST_F(TokenizeCrashTest, a_failure_of_any_operation_ends_with_storage_and_the_next_call_goes_on) {
  SimulatedDisk unbroken;
  run(unbroken, options_, tokenizer_);
  const FilesOf expected(unbroken);
  const std::int64_t operations = unbroken.operations();
  int went_on = 0;
  for (std::int64_t at = 0; at < operations; ++at) {
    SimulatedDisk disk;
    disk.set_plan({.kill_at = {}, .fail_at = at, .error = ENOSPC});
    try {
      run(disk, options_, tokenizer_);
      ADD_FAILURE() << "operation " << at << " failed unnoticed";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::storage) << error.what();
    }
    if (disk.exists("/set.idx")) {
      EXPECT_EQ(FilesOf(disk), expected);
    }
    disk.set_plan({});
    try {
      went_on += run(disk, options_, tokenizer_).bytes_resumed > 0;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::output_in_use) << error.what();
    }
    ASSERT_EQ(FilesOf(disk), expected) << "failed at " << at;
  }
  EXPECT_GT(went_on, 10);
}

/// Each way in which a file of the unfinished work may not be what was noted.
TEST_F(TokenizeCrashTest, only_work_that_proves_to_be_what_was_noted_is_gone_on_from) {
  SimulatedDisk unbroken;
  run(unbroken, options_, tokenizer_);
  const FilesOf expected(unbroken);
  int damages = 0;
  for (const std::string name : {"tokens.bin", "lengths.bin", "journal.json"})
    for (const std::string how : {"shorter", "empty", "missing", "a bit flipped"}) {
      if (name == "journal.json" && how == "missing") continue;  // nothing is known then
      SimulatedDisk disk;
      disk.set_plan({.kill_at = 30, .fail_at = {}});
      EXPECT_THROW(run(disk, options_, tokenizer_), Killed);
      disk.set_plan({});
      const std::string path = "/set.partial/" + name;
      std::string text = read_text(disk, path);
      ASSERT_GT(text.size(), 100U);
      disk.remove_file(path);
      if (how == "a bit flipped") text[90] = static_cast<char>(text[90] ^ 1);
      if (how == "shorter") text.resize(text.size() / 8);
      if (how == "empty") text.clear();
      if (how != "missing") write_new_file(disk, path, text);
      try {
        run(disk, options_, tokenizer_);
        ADD_FAILURE() << name << " " << how << " was gone on from";
      } catch (const UserError& error) {
        // The name of the recipe is that of other inputs, once a bit of it is flipped.
        EXPECT_TRUE(name == "journal.json" || error.code() == ExitCode::storage);
        expect_words(error.what(), {"/set.partial", "remove the folder"});
      }
      EXPECT_TRUE(FilesOf(disk).texts.empty());
      remove_folder_of_files(disk, "/set.partial");
      run(disk, options_, tokenizer_);
      EXPECT_EQ(FilesOf(disk), expected);
      ++damages;
    }
  EXPECT_EQ(damages, 11);
}

TEST_F(TokenizeCrashTest, work_of_another_call_is_not_continued_and_not_removed) {
  SimulatedDisk disk;
  disk.set_plan({.kill_at = 30, .fail_at = {}});
  EXPECT_THROW(run(disk, options_, tokenizer_), Killed);
  disk.set_plan({});
  TokenizeOptions other = options_;
  other.append_eod = false;
  expect_words(user_error(ExitCode::output_in_use, [&] { run(disk, other, tokenizer_); }),
               {"/set.partial", "other inputs, tokenizer or options"});
  EXPECT_GT(run(disk, options_, tokenizer_).bytes_resumed, 0);
  expect_words(user_error(ExitCode::output_in_use, [&] { run(disk, options_, tokenizer_); }),
               {"/set.idx", "--overwrite"});
}

TEST_F(TokenizeTest, a_folder_that_is_not_ours_is_left_alone) {
  TokenizeOptions options = make_inputs();
  std::filesystem::create_directories(path("set.partial"));
  write_bytes(path("set.partial/letter"), "dear");
  expect_words(user_error(ExitCode::output_in_use,
                          [&] { run(real_files(), options, *tokenizer::byte_tokenizer()); }),
               {"set.partial/letter"});
  EXPECT_EQ(read_bytes(path("set.partial/letter")), "dear");
}

TEST_F(TokenizeTest, a_fault_in_a_text_is_the_first_one_whatever_the_threads_and_leaves_nothing) {
  std::string lines;
  for (int i = 1; i <= 200'000; ++i)
    lines += i == 90'000 || i == 190'000 ? "{\"txt\":1}\n" : "{\"text\":\"some words\"}\n";
  write_bytes(path("a.jsonl"), lines);
  TokenizeOptions options;
  options.inputs = {path("a.jsonl")};
  options.prefix = path("set");
  for (const int jobs : {1, 4}) {
    options.jobs = jobs;
    expect_words(user_error(ExitCode::bad_data,
                            [&] { run(real_files(), options, *tokenizer::byte_tokenizer()); }),
                 {"a.jsonl:90000"});
    EXPECT_FALSE(std::filesystem::exists(path("set.partial")));
  }
}

TEST_F(TokenizeTest, every_flipped_bit_of_a_set_is_found_by_the_whole_check) {
  write_bytes(path("a.jsonl"), "{\"text\":\"abc\"}\n{\"text\":\"de\"}\n");
  TokenizeOptions options;
  options.inputs = {path("a.jsonl")};
  options.prefix = path("set");
  options.append_eod = false;
  run(real_files(), options, *tokenizer::byte_tokenizer());
  EXPECT_NO_THROW(verify_set(path("set")));
  for (const std::string ending : {".bin", ".idx"}) {
    const std::string bytes = read_bytes(path("set") + ending);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      write_bytes(path("set") + ending, damaged);
      expect_words(user_error(ExitCode::bad_data, [&] { verify_set(path("set")); }), {"set."});
    }
    write_bytes(path("set") + ending, bytes);
  }
}

}  // namespace
}  // namespace fourfold::data
