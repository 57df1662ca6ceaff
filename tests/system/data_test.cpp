// Data as a person prepares them and trains on them: the commands of `data`, sets on every grid,
// and what is said when data are bad, change, shrink or do not come.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "data/token_source.h"
#include "support/command.h"
#include "support/in_process.h"
#include "support/launched_job.h"
#include "support/pattern.h"
#include "support/step_metrics.h"
#include "unit/data/token_files.h"
#include "unit/run/allocation_counter.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;
using data::Documents;
using data::read_bytes;
using data::write_bytes;
using data::write_megatron;
using test::LaunchedJob;
using test::run_here;
using Words = std::vector<std::string>;

class Data : public FolderTest {
 protected:
  struct Ended {
    int code;
    std::string text;
  };
  Ended run(const Words& words, LaunchedJob::Environment environment = {}) {
    const std::string folder = path(format("job-{}", ++jobs_));
    fs::create_directories(folder);
    LaunchedJob job(words, folder, std::move(environment));
    const int code = job.wait(test::hang_s).value_or(-1);
    return {code, job.output()};
  }

  /// A tiny model on the set at path("set"), ten steps of eight samples.
  Words training(const std::string& name, const Words& sets = {}, const Words& more = {}) const {
    Words words{FOURFOLD_BINARY, "train", FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml"};
    Words all{"data.format=megatron",
              "data.path=" + path("set"),
              "data.tokenizer=char",
              "data.seq_length=16",
              "model.vocab_size=64",
              "model.num_layers=1",
              "model.hidden_size=32",
              "train.steps=10",
              "train.global_batch_size=8",
              "train.micro_batch_size=2",
              "run.threads=1",
              "eval.batches=1",
              "eval.interval_steps=5",
              "sample.tokens=0",
              "run.dir=" + path(name)};
    all.insert(all.end(), sets.begin(), sets.end());
    for (const std::string& set : all) words.insert(words.end(), {std::string("--set"), set});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  int jobs_ = 0;
};

void expect_says(const std::string& text, const Words& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\n" << text;
}

/// Documents of a few hundred tokens below 64.
Documents small_set(int documents = 20) {
  std::vector<std::size_t> sizes;
  for (int i = 0; i < documents; ++i) sizes.push_back(150 + static_cast<std::size_t>(i) * 7);
  return data::counting_documents(sizes, 61);
}

const std::vector<Words>& grids() {
  static const std::vector<Words> all = {
      {},
      {"parallel.data=4"},
      {"parallel.tensor.x=2", "parallel.tensor.y=2"},
      {"parallel.tensor.z=2", "parallel.data=2"},
  };
  return all;
}

TEST_F(Data, text_becomes_a_set_that_is_inspected_verified_and_trained_on) {
  fs::create_directories(path("books"));
  for (int book = 0; book < 12; ++book) {
    std::string text;
    for (int line = 0; line < 60; ++line) text += format("line {} of book {}\n", line, book);
    write_bytes(path(format("books/{}.txt", book)), text);
  }
  Words words{FOURFOLD_BINARY, "data", "tokenize", path("books"), "-o", path("set")};
  words.insert(words.end(), {"--tokenizer", "char", "--jobs", "2"});
  Ended ended = run(words);
  EXPECT_EQ(ended.code, 0) << ended.text;
  expect_says(ended.text, {"12 documents", "type u16"});
  ended = run({FOURFOLD_BINARY, "data", "inspect", path("set")});
  EXPECT_EQ(ended.code, 0) << ended.text;
  expect_says(ended.text, {"a Megatron set", "12", "char", "line 0 of book 0", "####"});
  ended = run({FOURFOLD_BINARY, "data", "inspect", path("books")});
  expect_says(ended.text, {"of text, a document each", "12, 12.7 KiB of text"});
  ended = run({FOURFOLD_BINARY, "data", "verify", path("set")});
  EXPECT_EQ(ended.code, 0) << ended.text;
  expect_says(ended.text, {"12 documents", "hashes agree"});
  ended = run(training("run", {"sample.tokens=20", "sample.prompt=line 1 of"}));
  EXPECT_EQ(ended.code, 0) << ended.text;
  expect_says(ended.text, {"sample (20 tokens"});
}

TEST_F(Data, training_says_what_files_were_taken_for_and_which_key_says_otherwise) {
  std::string lines;
  for (int line = 0; line < 60; ++line)
    lines += format("{{\"text\": \"line {}, and more\"}}\n", line);
  write_bytes(path("lines"), lines);
  write_bytes(path("text"), "A text that is long enough for two samples. And for a third one.\n");
  for (const auto& [name, form] :
       {std::pair("lines", "1 file of JSON lines, a document in the member 'text' of each line"),
        {"text", "1 file of text, a document each"}}) {
    const Ended ended =
        run(training("run",
                     {"data.format=text", "data.path=" + path(name), "data.tokenizer=byte",
                      "model.vocab_size=256", "data.split=0.6", "data.seq_length=8"},
                     {"--dry-run"}));
    EXPECT_EQ(ended.code, 0) << ended.text;
    expect_says(ended.text, {"read as", form, "; data.format"});
  }
}

TEST_F(Data, a_set_may_have_more_files_than_the_soft_limit_allows) {
  fs::create_directories(path("pictures"));
  for (int file = 0; file < 100; ++file)
    write_bytes(path(format("pictures/{}.bin", file)), std::string(3073, '\1'));
  const Ended ended = run({"bash", "-c", "ulimit -Sn 64 && exec \"$0\" data inspect \"$1\"",
                           FOURFOLD_BINARY, path("pictures")});
  EXPECT_EQ(ended.code, 0) << ended.text;
  expect_says(ended.text, {"100 of 32x32x3"});
}

TEST_F(Data, equal_samples_on_all_grids_and_of_a_blend) {
  write_megatron(path("set"), small_set());
  write_megatron(path("b"), small_set(25));
  const std::string parts = format("data.blend=[{{path: {}, weight: 3}}, {{path: {}, weight: 1}}]",
                                   path("set"), path("b"));
  for (const std::string& blend : Words{"", parts}) {
    std::vector<test::StepMetrics> first;
    for (const Words& grid : grids()) {
      Words sets = grid;
      sets.insert(sets.end(),
                  {"precision.compute=fp64", "train.micro_batch_size=1", "eval.interval_steps=0"});
      if (!blend.empty()) sets.insert(sets.end(), {blend, "data.path=\"\""});
      const std::string name = format("run-{}", ++jobs_);
      const Ended ended = run(training(name, sets));
      ASSERT_EQ(ended.code, 0) << ended.text;
      const auto steps = test::steps_of(path(name));
      ASSERT_EQ(steps.size(), 10U);
      if (first.empty())
        first = steps;
      else
        test::expect_equal_steps(steps, first, 1e-11);
    }
  }
}

TEST_F(Data, feeding_samples_from_a_disk_allocates_nothing) {
  write_megatron(path("set"), small_set(300));
  data::DataSpec spec;
  spec.format = data::Format::megatron;
  spec.path = path("set");
  spec.seq_length = 1000;
  spec.samples_per_step = 8;
  spec.vocab_size = 61;
  const data::TokenSource dataset(spec);
  std::vector<std::int32_t> ids(1000);
  AllocationCounter counter;
  for (std::int64_t g = 0; g < 80; ++g) {
    dataset.fill_train_tokens(g / 8, g % 8, ids);
    dataset.fill_train_labels(g / 8, g % 8, ids);
    dataset.fill_train_document_starts(g / 8, g % 8, ids);
    dataset.fill_validation_tokens(g, ids);
  }
  const Allocations allocations = counter.stop();
  EXPECT_EQ(allocations.own, 0) << allocations.first_own;
}

TEST_F(Data, row_10_a_file_that_is_cut_during_the_run_ends_it_with_data_and_no_signal) {
  for (const Words& grid : {grids()[0], grids()[1]}) {
    write_megatron(path("set"), small_set(500));
    Words sets = grid;
    sets.insert(sets.end(), {"train.steps=100000", "eval.interval_steps=0"});
    const std::string folder = path(format("job-{}", ++jobs_));
    fs::create_directories(folder);
    LaunchedJob job(training(format("run-{}", jobs_), sets), folder);
    const std::string metrics = path(format("run-{}/metrics.jsonl", jobs_));
    ASSERT_TRUE(test::wait_until(test::hang_s, [&] { return file_exists(metrics); }))
        << job.output();
    fs::resize_file(path("set.bin"), 128);
    EXPECT_EQ(job.wait(test::hang_s), 3) << job.output();
    expect_says(job.output(), {"set.bin: has shrunk: nothing at byte", "it had 18"});
  }
}

TEST_F(Data, row_11_a_bad_id_ends_the_run_with_the_same_message_on_every_grid) {
  Documents documents = small_set();
  const std::vector<std::pair<std::size_t, std::size_t>> places = {{7, 100}, {19, 282}};
  for (const auto& [document, place] : places) {
    Documents damaged = documents;
    damaged[document][place] = 4711;
    write_megatron(path("set"), damaged);
    std::string first;
    for (const Words& grid : grids()) {
      Words sets = grid;
      sets.insert(sets.end(), {"train.steps=30", "train.micro_batch_size=1"});
      const Ended ended = run(training(format("run-{}", ++jobs_), sets));
      EXPECT_EQ(ended.code, 3) << ended.text;
      const test::Pattern said(
          "set\\.bin, token [0-9]+ at byte [0-9]+: is 4711, expected 0 to 63 "
          "\\((sample [0-9]+ of step [0-9]+|validation window [0-9]+), position "
          "[0-9]+\\); [^\n]*");
      const auto match = said.first_in(ended.text);
      ASSERT_TRUE(match) << ended.text;
      if (first.empty()) first = match->at(0);
      EXPECT_EQ(match->at(0), first);
    }
  }
}

TEST_F(Data, row_12_too_few_samples_are_said_before_anything_starts) {
  for (const std::size_t tokens : {0U, 1U, 16U, 17U, 8U * 16U}) {
    write_megatron(path("set"), data::counting_documents({tokens, 40}, 60));
    const double split =
        tokens == 0 ? 0.5 : (static_cast<double>(tokens) + 0.5) / static_cast<double>(tokens + 40);
    const Ended ended = run(training("run", {format("data.split={}", split)}));
    EXPECT_EQ(ended.code, 3) << tokens << ended.text;
    EXPECT_FALSE(fs::exists(path("run"))) << "nothing was begun";
  }
}

TEST_F(Data, row_14_data_that_changed_are_not_gone_on_with_unless_told_so) {
  write_megatron(path("set"), small_set());
  const Words keep = {"checkpoint.interval_steps=5"};
  ASSERT_EQ(run(training("run", keep, {"--stop-at", "5"})).code, 0);
  Documents more = small_set();
  more.push_back(std::vector<std::int64_t>(17, 3));  // one sample
  write_megatron(path("set"), more);
  const Ended refused = run(training("run", keep));
  EXPECT_EQ(refused.code, 3);
  expect_says(refused.text, {"the training data has changed since step 5", "--override data"});
  const Ended told = run(training("run", keep, {"--override", "data"}));
  EXPECT_EQ(told.code, 0) << told.text;
  EXPECT_EQ(test::steps_of(path("run")).size(), 10U);
}

TEST_F(Data, a_resumed_run_sees_the_samples_that_an_unbroken_one_would_have) {
  write_megatron(path("set"), small_set());
  const Words keep = {"checkpoint.interval_steps=5", "train.steps=60"};
  ASSERT_EQ(run(training("whole", keep)).code, 0);
  ASSERT_EQ(run(training("parts", keep, {"--stop-at", "35"})).code, 0);
  ASSERT_EQ(run(training("parts", keep)).code, 0);
  EXPECT_EQ(read_bytes(path("whole/model.safetensors")),
            read_bytes(path("parts/model.safetensors")));
}

TEST_F(Data, row_16_a_pipe_is_refused_at_once_and_never_waited_for) {
  ASSERT_EQ(::mkfifo(path("set.bin").c_str(), 0600), 0);
  write_bytes(path("set.idx"), data::megatron_index_bytes(small_set()));
  const Ended ended = run(training("run"));
  EXPECT_EQ(ended.code, 3);
  expect_says(ended.text, {"set.bin: is a pipe or device, expected a regular file"});
  ASSERT_EQ(::mkfifo(path("text").c_str(), 0600), 0);
  const Ended text = run({FOURFOLD_BINARY, "data", "tokenize", path("text"), "-o", path("out"),
                          "--tokenizer", "byte"});
  EXPECT_EQ(text.code, 3);
  expect_says(text.text, {"text: is a pipe or device"});
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

// The library makes each read of a file whose name ends in .bin after the 40th last for minutes.
TEST_F(Data, row_16_a_read_that_does_not_return_is_named_by_the_watchdog) {
  write_megatron(path("set"), small_set());
  const Words sets = {"parallel.data=2", "run.watchdog_s=1.5", "train.steps=1000",
                      "eval.interval_steps=0"};
  const Ended ended = run(training("run", sets), {{"LD_PRELOAD", FOURFOLD_SLOW_READ},
                                                  {"ASAN_OPTIONS", test::preload_allowed()}});
  EXPECT_EQ(ended.code, 9) << ended.text;
  expect_says(ended.text, {"no rank has made progress", "waits for data, file " + path("set.bin")});
}

TEST_F(Data, a_killed_call_goes_on_and_gives_the_same_bytes) {
  std::string text;
  for (int line = 0; text.size() < 30'000'000; ++line)
    text += format("Line {} of the text.\n", line);
  write_bytes(path("a.txt"), text);
  const auto words = [&](const std::string& name) -> Words {
    return {FOURFOLD_BINARY, "data",        "tokenize", path("a.txt"), "-o",
            path(name),      "--tokenizer", "byte",     "--jobs",      "1"};
  };
  ASSERT_EQ(run(words("whole")).code, 0);
  // Again where the kill came too late to matter.
  bool went_on = false;
  for (int attempt = 0; attempt < 5 && !went_on; ++attempt) {
    for (const std::string ending : {".bin", ".idx", ".json"}) fs::remove(path("parts") + ending);
    const std::string folder = path(format("kill-{}", attempt));
    fs::create_directories(folder);
    LaunchedJob job(words("parts"), folder);
    const auto is_noted = [&] {
      const std::string journal = test::text_of(path("parts.partial/journal.json"));
      return !journal.empty() && journal.find("\"bin_bytes\":0,") == journal.npos;
    };
    ASSERT_TRUE(
        test::wait_until(test::hang_s, [&] { return is_noted() || job.wait(0).has_value(); }));
    for (const pid_t pid : job.processes()) ::kill(pid, SIGKILL);
    job.wait(test::hang_s);
    if (fs::exists(path("parts.idx"))) continue;
    const Ended ended = run(words("parts"));
    ASSERT_EQ(ended.code, 0) << ended.text;
    went_on = ended.text.find("went on from") != std::string::npos;
    EXPECT_FALSE(fs::exists(path("parts.partial")));
    for (const std::string ending : {".bin", ".idx", ".json"})
      EXPECT_TRUE(read_bytes(path("parts") + ending) == read_bytes(path("whole") + ending))
          << ending;
  }
  EXPECT_TRUE(went_on);
}

/// What is wrong, the words of the command line (X/ stands for the test's folder), and what is
/// said.
struct BadData {
  Words words;
  int code;
  Words says;
};

TEST_F(Data, each_bad_input_ends_with_its_code_and_one_message) {
  write_megatron(path("good"), small_set());
  write_megatron(path("tiny"), {{1, 2, 3}});
  write_megatron(path("nothing"), {});
  write_bytes(path("text.txt"), "some text\n");
  write_bytes(path("latin.txt"), "caf\xe9");
  write_bytes(path("nothing.txt"), "");
  write_bytes(path("cut.jsonl"), "{\"text\": \"a\"}\n{\"text\": \"b");
  write_bytes(path("other.jsonl"), "{\"content\": \"a\"}\n");
  write_bytes(path("list.jsonl"), "[\"a\"]\n");
  write_bytes(path("twice.jsonl"), "{\"text\": \"a\", \"text\": \"b\"}\n");
  write_bytes(path("bad.gz"), "\x1f\x8b\x08 and then nothing that gzip knows");
  write_bytes(path("bad.zst"), "\x28\xb5\x2f\xfd and then nothing that zstd knows");
  write_bytes(path("noidx.bin"), "abcd");
  write_bytes(path("nobin.idx"), data::megatron_index_bytes(small_set()));
  write_bytes(path("magic.bin"), "ab");
  write_bytes(path("magic.idx"), "MMIDIDX of another kind");
  write_megatron(path("json"), small_set());
  write_bytes(path("json.json"), "{");
  write_megatron(path("shape"), small_set());
  write_bytes(path("shape.json"), "{\"format\": 1}");
  write_megatron(path("done"), small_set());
  fs::create_directories(path("empty"));
  fs::create_directories(path("foreign.partial"));
  write_bytes(path("foreign.partial/notes"), "mine");
  fs::create_directories(path("shards"));
  data::Bytes shard;
  shard.add(std::int32_t{20240520}).add(std::int32_t{1}).add(std::int32_t{1000});
  write_bytes(path("shards/a.bin"), shard.text() + std::string(1012, '\0') + "ab");
  write_bytes(path("file"), "");

  const auto tokenize = [](const std::string& input, const std::string& output,
                           const Words& more = {"--tokenizer", "byte"}) {
    Words words = {"data", "tokenize", input, "-o", output};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto plan = [&](const Words& sets) {
    Words words = {"plan",  FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml",
                   "--set", "data.format=megatron",
                   "--set", "model.vocab_size=0"};
    for (const std::string& set : sets) words.insert(words.end(), {std::string("--set"), set});
    return words;
  };
  const std::vector<BadData> table = {
      {tokenize("X/none", "X/o"), 3, {"X/none: cannot be opened: No such file", "check the path"}},
      {tokenize("X/empty", "X/o"), 3, {"X/empty: the folder has no files"}},
      {tokenize("/dev/zero", "X/o"), 3, {"/dev/zero: is a pipe or device"}},
      {tokenize("X/nothing.txt", "X/o"), 3, {"X/nothing.txt: no text in 1 file"}},
      {tokenize("X/latin.txt", "X/o", {"--tokenizer", "char"}), 3, {"X/latin.txt: byte 3 (0xe9)"}},
      {tokenize("X/cut.jsonl", "X/o"), 3, {"X/cut.jsonl:2"}},
      {tokenize("X/other.jsonl", "X/o"),
       3,
       {"X/other.jsonl:1: expected a text in the member 'text'", "content"}},
      {tokenize("X/list.jsonl", "X/o"), 3, {"X/list.jsonl:1: expected an object"}},
      {tokenize("X/twice.jsonl", "X/o"), 3, {"X/twice.jsonl:1"}},
      {tokenize("X/bad.gz", "X/o"), 3, {"X/bad.gz: damaged compressed data"}},
      {tokenize("X/bad.zst", "X/o"), 3, {"X/bad.zst: damaged compressed data"}},
      {tokenize("X/text.txt", "X/o", {"--tokenizer", "words"}),
       2,
       {"--tokenizer", "sentencepiece"}},
      {tokenize("X/text.txt", "X/o", {"--tokenizer", "gpt2"}),
       2,
       {"--tokenizer gpt2 needs --tokenizer-path"}},
      {tokenize("X/text.txt", "X/o", {"--tokenizer", "hub"}),
       2,
       {"--tokenizer hub needs --tokenizer-path: a folder with tokenizer.json"}},
      {tokenize("X/text.txt", "X/o", {"--tokenizer", "hub", "--tokenizer-path", "X/none"}),
       3,
       {"X/none: expected a folder with a tokenizer.json"}},
      {tokenize("X/text.txt", "X/o",
                {"--tokenizer", "sentencepiece", "--tokenizer-path", "X/none"}),
       3,
       {"X/none"}},
      {tokenize("X/text.txt", "X/o", {"--tokenizer", "byte", "--append-eod"}),
       2,
       {"--append-eod: the tokenizer byte"}},
      {tokenize("X/text.txt", "X/o", {"--tokenizer", "byte", "--jobs", "-1"}), 2, {"--jobs"}},
      {tokenize("X/text.txt", "X/done"), 11, {"X/done.idx: is there already", "--overwrite"}},
      {tokenize("X/text.txt", "X/foreign"), 11, {"X/foreign.partial/notes: is no file of ours"}},
      {tokenize("X/text.txt", "X/no/such/o"), 6, {"X/no/such/o.partial: cannot be written"}},
      {tokenize("X/text.txt", "X/file/o"), 6, {"X/file/o.partial: cannot be written"}},
      {{"data", "verify", "X/none"}, 3, {"X/none.bin: cannot be opened"}},
      {{"data", "verify", "X/noidx"}, 3, {"X/noidx.idx: cannot be opened"}},
      {{"data", "verify", "X/nobin"}, 3, {"X/nobin.bin: cannot be opened"}},
      {{"data", "verify", "X/magic"}, 3, {"X/magic.idx: does not begin with MMIDIDX"}},
      {{"data", "verify", "X/json"}, 3, {"X/json.json:"}},
      {{"data", "verify", "X/shape"}, 3, {"X/shape.json: expected text as 'dtype'"}},
      {{"data", "inspect", "X/none"}, 3, {"X/none: cannot be opened"}},
      {{"data", "inspect", "X/shards"},
       3,
       {"X/shards/a.bin: has 1026 bytes, but its header says 1000 tokens"}},
      {{"data", "inspect", "X/bad.gz"}, 3, {"X/bad.gz: damaged compressed data"}},
      {plan({"data.path=X/none"}), 3, {"X/none.bin: cannot be opened"}},
      {plan({"data.path=\"\""}), 2, {"data.path and data.blend are both empty"}},
      {plan({"data.path=X/good", "data.blend=[{path: X/good, weight: 1}]"}),
       2,
       {"data.path and data.blend are both set"}},
      {plan({"data.path=\"\"", "data.blend=[{path: X/good, weight: 0}]"}),
       2,
       {"data.blend: expected list of", "got '0'"}},
      {plan({"data.path=\"\"", "data.blend=[{path: X/good}]"}), 2, {"which has no weight"}},
      {plan({"data.path=\"\"", "data.blend=[{path: X/good, wieght: 1}]"}),
       2,
       {"'wieght'", "none of path, weight"}},
      {plan({"data.format=text", "data.blend=[{path: X/good, weight: 1}]", "data.path=X/text.txt"}),
       2,
       {"data.blend is a list of sets of tokens"}},
      {plan({"data.path=X/good", "data.tokenizer=char", "model.vocab_size=0"}),
       2,
       {"model.vocab_size"}},
      {plan({"data.format=llmc", "data.path=X/shards"}), 3, {"X/shards/a.bin"}},
      {plan({"data.format=llmc", "data.path=X/empty"}),
       3,
       {"X/empty: the folder has no .bin files"}},
  };
  const std::string folder = path("");
  const auto placed = [&](std::string text) {
    for (std::size_t at = 0; (at = text.find("X/", at)) != text.npos; at += folder.size())
      text.replace(at, 2, folder);
    return text;
  };
  for (const BadData& bad : table) {
    Words words;
    for (const std::string& word : bad.words) words.push_back(placed(word));
    const test::Outcome outcome = run_here(words);
    std::string line;
    for (const std::string& word : words) line += word + " ";
    EXPECT_EQ(outcome.code, bad.code) << line << "\n" << outcome.text;
    for (const std::string& part : bad.says)
      EXPECT_NE(outcome.text.find(placed(part)), std::string::npos)
          << line << "\nexpected: " << placed(part) << "\n"
          << outcome.text;
    EXPECT_FALSE(fs::exists(path("o.bin")) || fs::exists(path("o.idx")) ||
                 fs::exists(path("o.partial")))
        << "nothing is left: " << line;
  }
}

/// A text of words that never repeats long.
std::string words_of(int seed, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += format("{} ", (i * i + seed * 7919 + i / 3) % 997);
  return text;
}

TEST_F(Data, a_text_of_its_own_validates_and_all_of_the_other_trains) {
  write_bytes(path("train.txt"), words_of(1, 900));
  write_bytes(path("val.txt"), words_of(2, 300) + "x");  // a letter that only this one has
  const Words text{"data.format=text", "data.path=" + path("train.txt"), "model.vocab_size=0",
                   "data.validation=" + path("val.txt"), "eval.interval_steps=0"};
  Ended ended = run(training("run", text));
  ASSERT_EQ(ended.code, 0) << ended.text;
  const auto size = [&](const char* name) {
    return format_grouped(static_cast<std::int64_t>(read_bytes(path(name)).size()));
  };
  std::string on_one_line = test::Pattern("\n +").replaced_in(ended.text, " ");
  expect_says(on_one_line, {size("train.txt") + " tokens to train on",
                            size("val.txt") + " of " + path("val.txt") + " to validate"});
  // The evaluation after the last step is of the whole text, as `eval` judges it.
  ended = run({FOURFOLD_BINARY, "eval", path("run"), "--text", path("val.txt"), "--threads", "1"});
  ASSERT_EQ(ended.code, 0) << ended.text;
  const auto loss = test::Pattern("loss +([0-9.]+) per token").first_in(ended.text);
  ASSERT_TRUE(loss) << ended.text;
  EXPECT_NEAR(test::steps_of(path("run")).back().val_loss, std::stod(loss->at(1)), 2e-6);
}

TEST_F(Data, a_set_of_its_own_validates_on_every_grid_and_beside_a_blend) {
  write_megatron(path("set"), small_set());
  write_megatron(path("b"), small_set(25));
  write_megatron(path("val"), small_set(9));
  const std::string parts = format("data.blend=[{{path: {}, weight: 3}}, {{path: {}, weight: 1}}]",
                                   path("set"), path("b"));
  std::vector<test::StepMetrics> first;
  for (const Words& grid : grids()) {
    Words sets = grid;
    sets.insert(sets.end(),
                {"precision.compute=fp64", "train.micro_batch_size=1", "eval.interval_steps=0",
                 parts, "data.path=\"\"", "data.validation=" + path("val")});
    const std::string name = format("run-{}", ++jobs_);
    const Ended ended = run(training(name, sets));
    ASSERT_EQ(ended.code, 0) << ended.text;
    const auto steps = test::steps_of(path(name));
    if (first.empty())
      first = steps;
    else
      test::expect_equal_steps(steps, first, 1e-12);
  }
  ASSERT_EQ(first.size(), 10U);
  EXPECT_GT(first.back().val_loss, 0);
}

TEST_F(Data, what_is_wrong_with_data_for_validation_is_said_in_one_line_and_nothing_is_written) {
  write_megatron(path("set"), small_set());
  write_megatron(path("tiny"), {{1, 2, 3}});
  write_megatron(path("large"), {Documents::value_type(100, 70)});
  struct Case {
    Words sets;
    int code;
    Words parts;
  };
  const auto validation = [&](const std::string& name) { return "data.validation=" + path(name); };
  for (const Case& c : std::vector<Case>{
           {{validation("none")},
            3,
            {path("none.bin"), "cannot be opened", "data.validation is set by --set"}},
           {{validation("tiny")}, 3, {"has 3 tokens for validation, expected at least 17"}},
           {{validation("large")}, 3, {path("large"), "is 70, expected 0 to 63"}},
           {{"data.format=synthetic", "data.path=\"\"", validation("set")},
            2,
            {"data.format = synthetic reads no files, but data.validation names one",
             "leave data.validation out"}}}) {
    const Ended ended = run(training("run", c.sets));
    EXPECT_EQ(ended.code, c.code) << ended.text;
    expect_says(ended.text, c.parts);
  }
  EXPECT_FALSE(fs::exists(path("run/model.safetensors")));
  const CommandResult check =
      run_fourfold(format("config check configs/gpt-own-text.yaml --set data.validation={} --set "
                          "data.path={} --set model.vocab_size=64",
                          path("none"), path("set")));
  EXPECT_EQ(check.code, 0) << check.text;
  expect_says(check.text, {"note: data.validation = " + path("none.idx") + " is not there"});
}

TEST_F(Data, a_run_goes_on_with_other_data_for_validation_only_where_that_is_meant) {
  write_megatron(path("set"), small_set());
  write_megatron(path("val"), small_set(9));
  write_megatron(path("other"), small_set(8));
  const Words val{"data.validation=" + path("val")}, other{"data.validation=" + path("other")};
  ASSERT_EQ(run(training("run", val, {"--stop-at", "5"})).code, 0);
  Ended ended = run(training("run", other));
  EXPECT_EQ(ended.code, 2) << ended.text;
  expect_says(ended.text, {"--override data.validation"});
  // Another content under the same name.
  fs::rename(path("other.bin"), path("val.bin"));
  fs::rename(path("other.idx"), path("val.idx"));
  ended = run(training("run", val));
  EXPECT_EQ(ended.code, 3) << ended.text;
  expect_says(ended.text, {"the validation data has changed since step 5", "1,", " then, ",
                           "pass --override data.validation"});
  // The best of other data is no measure of these.
  ended = run(training("run", val, {"--override", "data.validation"}));
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_TRUE(test::Pattern("eval +10/10 [^\n]* best [0-9.]+ at step 10").is_in(ended.text))
      << ended.text;
}

TEST_F(Data, a_file_that_is_not_there_is_named_with_the_line_that_asks_for_it) {
  write_bytes(path("mine.yaml"), "data:\n  path: books/none.txt\ntrain:\n  steps: 2\n");
  const CommandResult result =
      run_fourfold(format("train {} --set run.dir={}", path("mine.yaml"), path("run")));
  EXPECT_EQ(result.code, 3) << result.text;
  expect_says(result.text,
              {"error: books/none.txt: cannot be opened: No such file or directory",
               "\n      data.path is set at " + path("mine.yaml") + ":2",
               "\n      paths are seen from the current directory, " FOURFOLD_SOURCE_DIR});
  EXPECT_FALSE(fs::exists(path("run")));
}

}  // namespace
}  // namespace fourfold
