#include "data/token_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold::data::token_source_test {
namespace {

using Ids = std::vector<std::int32_t>;

/// A file that goes away with the test.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    static int count = 0;
    path_ = testing::TempDir() + "dataset_test_" + std::to_string(::getpid()) + "_" +
            std::to_string(count++);
    std::ofstream(path_, std::ios::binary) << text;
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

DataSpec text_spec(const std::string& path, std::int64_t seq_length, double split) {
  DataSpec spec;
  spec.path = path;
  spec.tokenizer = tokenizer::TokenizerKind::byte;
  spec.seq_length = seq_length;
  spec.split = split;
  spec.seed = 42;
  return spec;
}

/// Bytes 0, 1, ... so that a token tells its place.
std::string counting(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text.push_back(static_cast<char>(i));
  return text;
}

Ids train_tokens(const TokenSource& data, std::int64_t step, std::int64_t sample,
                 std::size_t length) {
  Ids ids(length);
  data.fill_train_tokens(step, sample, ids);
  return ids;
}

Ids train_labels(const TokenSource& data, std::int64_t step, std::int64_t sample,
                 std::size_t length) {
  Ids ids(length);
  data.fill_train_labels(step, sample, ids);
  return ids;
}

/// All tokens of the validation part of a text.
Ids validation_tokens(const TokenSource& data) {
  Ids ids(static_cast<std::size_t>(data.num_validation()));
  data.fill_validation_tokens(0, ids);
  return ids;
}

TEST(TokenSource, the_text_is_split_at_a_token_with_nothing_lost_between_the_parts) {
  const TextFile file(counting(101));
  const TokenSource data(text_spec(file.path(), 4, 0.9));
  ASSERT_EQ(data.num_train(), 90);
  ASSERT_EQ(data.num_validation(), 11);
  EXPECT_EQ(validation_tokens(data), (Ids{90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100}));
}

/// JSON lines of documents of so many bytes each.
std::string lines_of(const std::vector<std::size_t>& sizes) {
  std::string lines;
  for (const std::size_t size : sizes) lines += "{\"text\":\"" + std::string(size, 'a') + "\"}\n";
  return lines;
}

/// The first of two documents is small, so that the border would move to where it ends.
TEST(TokenSource, a_document_that_is_longer_than_the_smaller_part_is_cut) {
  const TextFile file(lines_of({510, 9490}));
  const TokenSource data(text_spec(file.path(), 4, 0.9));
  EXPECT_EQ(data.num_train(), 9000);
  EXPECT_EQ(data.num_validation(), 1000);
  // In the second half of the data it is the training part that is the smaller one.
  EXPECT_EQ(TokenSource(text_spec(file.path(), 4, 0.1)).num_train(), 510);
  EXPECT_EQ(TokenSource(text_spec(file.path(), 4, 0.2)).num_train(), 2000);
}

TEST(TokenSource, a_border_that_would_move_by_more_than_a_tenth_cuts_a_document) {
  const auto trains = [](const std::vector<std::size_t>& sizes, double split) {
    const TextFile file(lines_of(sizes));
    return TokenSource(text_spec(file.path(), 4, split)).num_train();
  };
  EXPECT_EQ(trains({4000, 3500, 2500}, 0.7), 7000) << "3,000 of 10,000 would validate beside 3,000";
  EXPECT_EQ(trains({4000, 4000, 2000}, 0.5), 4000) << "just a tenth";
  EXPECT_EQ(trains({4000, 1900, 4100}, 0.6), 5900);
}

TEST(TokenSource, what_a_file_was_taken_for_is_told) {
  const std::string line = "{\"text\": \"some words of it\"}\n";
  const TextFile lines(line + line), text("some words of it, and more of them\n");
  DataSpec spec = text_spec(lines.path(), 4, 0.5);
  EXPECT_EQ(TokenSource(spec).read_as(),
            "1 file of JSON lines, a document in the member 'text' of each line");
  spec.validation = text.path();
  EXPECT_EQ(TokenSource(spec).read_as(),
            "1 file of JSON lines, a document in the member 'text' of each line; to validate 1 "
            "file of text, a document each");
  EXPECT_EQ(TokenSource(text_spec(text.path(), 4, 0.5)).read_as(),
            "1 file of text, a document each");
}

TEST(TokenSource, names_that_a_folder_has_beside_its_texts_are_told) {
  const TemporaryFolder folder;
  write_file_atomic(folder.file("a.txt"), "a text that is long enough for all of this");
  write_file_atomic(folder.file(".x"), "hidden");
  DataSpec spec;
  spec.path = folder.path();
  spec.tokenizer = tokenizer::TokenizerKind::byte;
  spec.seq_length = 2;
  spec.samples_per_step = 1;
  const std::vector<std::string> told = TokenSource(spec).warnings();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("1 name passed over: "), std::string::npos) << told[0];
  EXPECT_NE(told[0].find(".x: is hidden"), std::string::npos) << told[0];
}

TEST(TokenSource, the_split_counts_characters_not_bytes) {
  const TextFile file("\u20AC\u20AC\u20AC\u20AC\u20ACaaaaa");
  DataSpec spec = text_spec(file.path(), 2, 0.5);
  spec.tokenizer = tokenizer::TokenizerKind::character;
  const TokenSource data(spec);
  EXPECT_EQ(data.vocab_size(), 2);
  EXPECT_EQ(data.num_train(), 5);
  EXPECT_EQ(data.tokenizer()->decode(validation_tokens(data)), "aaaaa");
}

TEST(TokenSource, a_training_sample_is_a_window_and_its_labels_are_the_next_tokens) {
  const TextFile file(counting(200));
  const TokenSource data(text_spec(file.path(), 8, 0.9));
  for (std::int64_t step = 0; step < 50; ++step) {
    for (std::int64_t sample = 0; sample < 8; ++sample) {
      const auto start = data.train_window(step, sample, 8).first;
      ASSERT_GE(start, 0);
      ASSERT_LT(start, 180 - 8);
      const Ids tokens = train_tokens(data, step, sample, 8),
                labels = train_labels(data, step, sample, 8);
      for (std::size_t i = 0; i < 8; ++i) {
        ASSERT_EQ(tokens[i], start + static_cast<std::int64_t>(i));
        ASSERT_EQ(labels[i], tokens[i] + 1);
      }
    }
  }
}

TEST(TokenSource, the_windows_place_is_the_documented_formula) {
  const TextFile file(counting(200));
  const TokenSource data(text_spec(file.path(), 8, 0.9));
  const Random random(42, random_stream("data.order"));
  EXPECT_EQ(data.train_window(3, 5, 8).first,
            static_cast<std::int64_t>(random.below(180 - 8, 5, 3)));
}

TEST(TokenSource, a_sample_is_a_pure_function_of_seed_step_and_sample) {
  const TextFile file(counting(250));
  const TokenSource data(text_spec(file.path(), 4, 0.9)), same(text_spec(file.path(), 4, 0.9));
  std::map<std::pair<int, int>, Ids> forwards;
  for (int step = 0; step < 10; ++step)
    for (int sample = 0; sample < 10; ++sample)
      forwards[{step, sample}] = train_tokens(data, step, sample, 4);
  for (int sample = 9; sample >= 0; --sample)
    for (int step = 9; step >= 0; --step)
      EXPECT_EQ(train_tokens(same, step, sample, 4), (forwards[{step, sample}]));
}

TEST(TokenSource, seed_step_and_sample_each_change_the_window) {
  const TextFile file(std::string(100000, 'a'));
  DataSpec spec = text_spec(file.path(), 4, 0.9);
  const TokenSource data(spec);
  spec.seed = 43;
  const TokenSource other(spec);
  std::set<std::int64_t> starts;
  for (std::int64_t step = 0; step < 10; ++step) {
    for (std::int64_t sample = 0; sample < 10; ++sample) {
      starts.insert(data.train_window(step, sample, 4).first);
      starts.insert(other.train_window(step, sample, 4).first);
    }
  }
  EXPECT_GT(starts.size(), 190U);
}

TEST(TokenSource, every_possible_window_is_drawn_about_equally_often) {
  const TextFile file(counting(20));
  const TokenSource data(text_spec(file.path(), 4, 0.6));  // 12 training tokens: 8 places
  std::map<std::int64_t, int> count;
  for (std::int64_t sample = 0; sample < 8000; ++sample)
    ++count[data.train_window(0, sample, 4).first];
  ASSERT_EQ(count.size(), 8U);
  double chi_square = 0;
  for (const auto& [start, times] : count)
    chi_square += (times - 1000.0) * (times - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 24.3);  // 7 degrees of freedom, p = 0.001
}

TEST(TokenSource, one_token_more_than_a_window_leaves_one_place_for_it) {
  const TextFile file(counting(10));
  const TokenSource data(text_spec(file.path(), 4, 0.5));
  EXPECT_EQ(train_tokens(data, 7, 7, 4), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(train_labels(data, 7, 7, 4), (Ids{1, 2, 3, 4}));
  EXPECT_THROW(train_tokens(data, 0, 0, 5), InternalError);
}

TEST(TokenSource, validation_windows_hold_every_token_but_the_first_once_as_a_label) {
  const TextFile file(counting(200));
  for (std::int64_t length = 1; length <= 30; ++length) {
    const TokenSource data(text_spec(file.path(), 30, 0.69));
    const Ids all = validation_tokens(data);
    Ids seen;
    for (std::int64_t window = 0; window < data.validation_windows(length); ++window) {
      Ids tokens(static_cast<std::size_t>(length)), labels(tokens);
      data.fill_validation_tokens(window, tokens);
      data.fill_validation_labels(window, labels);
      EXPECT_NE(labels.front(), no_label) << "an empty window is counted";
      for (std::size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] == no_label) continue;
        ASSERT_EQ(labels[i], tokens[i] + 1);
        seen.push_back(labels[i]);
      }
    }
    EXPECT_EQ(seen, Ids(all.begin() + 1, all.end())) << "for windows of " << length;
  }
}

TEST(TokenSource, the_last_validation_window_is_padded_and_the_next_has_no_labels) {
  const TextFile file(counting(16));
  const TokenSource data(text_spec(file.path(), 4, 0.625));  // validation: 10 .. 15
  ASSERT_EQ(data.validation_windows(4), 2);
  Ids tokens(4), labels(4);
  data.fill_validation_tokens(1, tokens);
  data.fill_validation_labels(1, labels);
  EXPECT_EQ(tokens, (Ids{14, 15, 0, 0}));
  EXPECT_EQ(labels, (Ids{15, -1, -1, -1}));
  for (const std::int64_t window : {2, 3, 1000000}) {
    data.fill_validation_tokens(window, tokens);
    data.fill_validation_labels(window, labels);
    EXPECT_EQ(tokens, (Ids{0, 0, 0, 0}));
    EXPECT_EQ(labels, (Ids{-1, -1, -1, -1}));
  }
}

TEST(TokenSource, the_shortest_text_is_accepted_and_one_token_less_is_an_error_in_either_part) {
  EXPECT_NO_THROW(TokenSource(text_spec(TextFile(counting(10)).path(), 4, 0.5)));
  for (const auto& [size, split, part] : {std::tuple{9, 0.5, "training"},
                                          {10, 0.6, "validation"},
                                          {10, 0.0, "training"},
                                          {10, 1.0, "validation"},
                                          {1, 0.5, "training"}}) {
    const TextFile file(counting(static_cast<std::size_t>(size)));
    const auto message = user_error(ExitCode::bad_data,
                                    [&, s = split] { TokenSource(text_spec(file.path(), 4, s)); });
    expect_words(message, {file.path(), part, "at least 5", "data.split"});
  }
}

TEST(TokenSource, an_empty_text_is_an_error_for_each_tokenizer) {
  const TextFile file("");
  for (const auto kind : {tokenizer::TokenizerKind::character, tokenizer::TokenizerKind::byte}) {
    DataSpec spec = text_spec(file.path(), 4, 0.5);
    spec.tokenizer = kind;
    expect_words(user_error(ExitCode::bad_data, [&] { TokenSource{spec}; }), {file.path()});
  }
}

TEST(TokenSource, a_missing_file_and_an_empty_folder_are_errors_naming_the_path) {
  const std::string folder = testing::TempDir() + "dataset_test_empty";
  std::filesystem::create_directories(folder);
  for (const std::string& path : {testing::TempDir() + "no such file", folder})
    expect_words(user_error(ExitCode::bad_data, [&] { TokenSource(text_spec(path, 4, 0.5)); }),
                 {path});
}

TEST(TokenSource, synthetic_data_come_without_a_file_and_do_not_depend_on_the_seed) {
  DataSpec spec;
  spec.format = Format::synthetic;
  spec.vocab_size = 31;
  const TokenSource data(spec);
  spec.seed = 9;
  const TokenSource other(spec);
  EXPECT_EQ(data.vocab_size(), 31);
  EXPECT_EQ(data.fingerprint(), other.fingerprint());
  EXPECT_NE(data.train_window(0, 0, 64).first, other.train_window(0, 0, 64).first);
}

TEST(TokenSource, synthetic_data_need_a_vocabulary_size) {
  DataSpec spec;
  spec.format = Format::synthetic;
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{1} << 40}) {
    spec.vocab_size = size;
    expect_words(user_error(ExitCode::bad_data, [&] { TokenSource{spec}; }),
                 {"data.vocab_size", std::to_string(size)});
  }
}

TEST(TokenSource, data_of_their_own_for_validation_leave_all_the_others_for_training) {
  const TextFile train(counting(40)), validation("validate me");
  DataSpec spec = text_spec(train.path(), 4, 0.5);
  const TokenSource cut(spec);
  spec.validation = validation.path();
  const TokenSource data(spec);
  EXPECT_EQ(data.num_train(), 40);
  EXPECT_EQ(data.num_validation(), 11);
  EXPECT_EQ(data.name(), train.path());
  EXPECT_EQ(data.validation_name(), validation.path());
  EXPECT_EQ(cut.validation_name(), "");
  Ids tokens(4), labels(4);
  std::string seen;
  ASSERT_EQ(data.validation_windows(4), 3);
  for (const std::int64_t window : {0, 1, 2}) {
    data.fill_validation_tokens(window, tokens);
    data.fill_validation_labels(window, labels);
    for (const std::int32_t label : labels)
      if (label != no_label) seen.push_back(static_cast<char>(label));
  }
  EXPECT_EQ(seen, "alidate me");
  // As the same text without a part that validates: the last token may be a label.
  std::set<std::int64_t> places;
  for (std::int64_t step = 0; step < 400; ++step)
    places.insert(data.train_window(step, 0, 4).first);
  EXPECT_EQ(places.size(), 36U);
  EXPECT_EQ(*places.rbegin(), 35);
}

TEST(TokenSource, the_alphabet_is_that_of_both_texts_and_each_is_named_in_its_errors) {
  const TextFile train("abcabcabcabc"), validation("abcdabcd"), empty(""), odd("ab\xff"),
      small("ab");
  DataSpec spec = text_spec(train.path(), 4, 0.5);
  spec.tokenizer = tokenizer::TokenizerKind::character;
  spec.validation = validation.path();
  EXPECT_EQ(TokenSource(spec).vocab_size(), 4);
  for (const TextFile* bad : {&empty, &odd, &small}) {
    spec.validation = bad->path();
    expect_words(user_error(ExitCode::bad_data, [&] { TokenSource{spec}; }), {bad->path()});
  }
  expect_words(user_error(ExitCode::bad_data, [&] { TokenSource{spec}; }),
               {"has 2 tokens for validation, expected at least 5"});
  spec.validation = train.path();
  spec.path = small.path();
  expect_words(user_error(ExitCode::bad_data, [&] { TokenSource{spec}; }),
               {small.path(), "has 2 tokens for training"});
}

TEST(TokenSource, the_fingerprint_tells_what_trains_from_what_validates) {
  const TextFile train(counting(40)), one("validate me"), other("validate us");
  DataSpec spec = text_spec(train.path(), 4, 0.5);
  const std::string cut = TokenSource(spec).fingerprint();
  spec.validation = one.path();
  const std::string with_one = TokenSource(spec).fingerprint();
  spec.validation = other.path();
  const std::string with_other = TokenSource(spec).fingerprint();
  EXPECT_EQ(with_one.substr(0, with_one.find("; ")), cut);
  EXPECT_EQ(with_other.substr(0, with_other.find("; ")), cut);
  EXPECT_NE(with_one, with_other);
}

}  // namespace
}  // namespace fourfold::data::token_source_test
