#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/file_limit.h"
#include "base/format.h"
#include "data/token_source.h"
#include "support/few_files.h"
#include "unit/data/expect_error.h"
#include "unit/data/token_files.h"

namespace fourfold::data::token_dataset_test {
namespace {

using Ids = std::vector<std::int32_t>;
using TokenDataset = DataFolderTest;

DataSpec spec_of(const std::string& path, std::int64_t samples_per_step = 4) {
  DataSpec spec;
  spec.format = Format::megatron;
  spec.path = path;
  spec.seq_length = 8;
  spec.split = 0.8;
  spec.seed = 42;
  spec.samples_per_step = samples_per_step;
  spec.vocab_size = 60000;
  return spec;
}

Ids train_tokens(const TokenSource& data, std::int64_t step, std::int64_t sample,
                 std::size_t length) {
  Ids ids(length);
  data.fill_train_tokens(step, sample, ids);
  return ids;
}

TEST_F(TokenDataset, each_window_of_an_epoch_is_seen_once_and_labels_are_the_next_tokens) {
  write_megatron(path("a"), counting_documents({700, 150, 150}));
  const TokenSource data(spec_of(path("a")));
  ASSERT_EQ(data.num_train(), 700);
  const std::int64_t windows = 699 / 8;
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int64_t> order;
    for (std::int64_t g = epoch * windows; g < (epoch + 1) * windows; ++g) {
      const Ids tokens = train_tokens(data, g / 4, g % 4, 8);
      Ids labels(8);
      data.fill_train_labels(g / 4, g % 4, labels);
      for (std::size_t i = 0; i < 8; ++i) {
        ASSERT_EQ(tokens[i], tokens[0] + static_cast<std::int32_t>(i));
        ASSERT_EQ(labels[i], tokens[i] + 1);
        ASSERT_LT(labels[i], 700) << "a label of the validation part";
      }
      order.push_back(tokens[0]);
    }
    orders.insert(order);
    const std::set<std::int64_t> seen(order.begin(), order.end());
    ASSERT_EQ(std::ssize(seen), windows) << "epoch " << epoch;
    ASSERT_EQ(*seen.rbegin() - *seen.begin(), 8 * (windows - 1)) << "side by side";
  }
  EXPECT_EQ(orders.size(), 3U) << "epochs have different orders";
}

TEST_F(TokenDataset, a_sample_is_a_pure_function_of_seed_step_and_sample) {
  write_megatron(path("a"), counting_documents({700, 300}));
  DataSpec spec = spec_of(path("a"));
  const TokenSource data(spec), same(spec);
  spec.seed = 43;
  const TokenSource other(spec);
  int differ = 0;
  for (std::int64_t step = 30; step-- > 0;)
    for (std::int64_t sample = 4; sample-- > 0;) {
      ASSERT_EQ(data.train_window(step, sample, 8), same.train_window(step, sample, 8));
      differ += data.train_window(step, sample, 8) != other.train_window(step, sample, 8);
    }
  EXPECT_GT(differ, 110);
}

TEST_F(TokenDataset, the_split_is_where_a_document_begins_and_cuts_the_only_one) {
  write_megatron(path("a"), counting_documents({300, 420, 180, 100}));
  EXPECT_EQ(TokenSource(spec_of(path("a"))).num_train(), 720) << "not 800, inside a document";
  write_megatron(path("a"), counting_documents({1000}));
  const TokenSource data(spec_of(path("a")));
  EXPECT_EQ(data.num_train(), 800);
  EXPECT_EQ(data.num_validation(), 200);
}

TEST_F(TokenDataset, a_blend_takes_from_its_sets_in_proportion_and_each_in_epochs) {
  write_megatron(path("a"), counting_documents({1000, 250}));
  write_megatron(path("b"), counting_documents({3000, 300}));
  DataSpec spec = spec_of("");
  spec.blend = {{path("a"), 3}, {path("b.idx"), 1}};
  const TokenSource data(spec);
  std::map<std::size_t, std::int64_t> count;
  std::map<std::size_t, std::set<std::int64_t>> starts;
  for (std::int64_t g = 0; g < 160; ++g) {
    const auto window = data.train_window(g / 4, g % 4, 8);
    ++count[window.set];
    if (count[window.set] <= 999 / 8) starts[window.set].insert(window.first);
  }
  EXPECT_EQ(count[0], 120);
  EXPECT_EQ(count[1], 40);
  EXPECT_EQ(starts[0].size(), 120U);
  EXPECT_EQ(starts[1].size(), 40U);
  EXPECT_EQ(data.name(), path("a.bin") + " and 1 more");
}

TEST_F(TokenDataset, a_blend_may_have_more_sets_than_a_process_may_open_at_first) {
  DataSpec spec = spec_of("", 50);
  for (int set = 0; set < 50; ++set) {
    write_megatron(path(format("{}", set)),
                   counting_documents({static_cast<std::size_t>(100 + set), 40}));
    spec.blend.push_back({path(format("{}", set)), 1});
  }
  const test::FewFiles few;
  expect_words(user_error(ExitCode::bad_data, [&] { TokenSource data(spec); }),
               {"Too many open files", "ulimit -n"});
  if (raise_file_limit() < 200) GTEST_SKIP() << "the hard limit is low";
  const TokenSource data(spec);
  std::set<std::size_t> sets;
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    sets.insert(data.train_window(0, sample, 8).set);
    const Ids tokens = train_tokens(data, 0, sample, 8);
    EXPECT_EQ(tokens[7], tokens[0] + 7);
  }
  EXPECT_EQ(sets.size(), 50U);
}

TEST_F(TokenDataset, validation_windows_of_all_sets_hold_every_label_once) {
  write_megatron(path("a"), counting_documents({800, 173}));
  write_megatron(path("b"), counting_documents({1600, 205}));
  DataSpec spec = spec_of("");
  spec.blend = {{path("a"), 1}, {path("b"), 1}};
  spec.split = 0.89;
  const TokenSource data(spec);
  std::multiset<std::int32_t> seen;
  Ids labels(8), tokens(8);
  const std::int64_t windows = data.validation_windows(8);
  EXPECT_EQ(windows, (172 + 7) / 8 + (204 + 7) / 8);
  for (std::int64_t window = 0; window < windows; ++window) {
    data.fill_validation_tokens(window, tokens);
    data.fill_validation_labels(window, labels);
    for (std::size_t i = 0; i < 8; ++i) {
      if (labels[i] == no_label) continue;
      ASSERT_EQ(labels[i], tokens[i] + 1);
      seen.insert(labels[i]);
    }
  }
  EXPECT_EQ(seen.size(), 172U + 204U);
  EXPECT_EQ(seen.count(801), 1U);
  EXPECT_EQ(seen.count(972), 1U);
  EXPECT_EQ(seen.count(1804), 1U);
  data.fill_validation_labels(windows, labels);
  EXPECT_EQ(labels, Ids(8, no_label));
}

TEST_F(TokenDataset, document_starts_tell_which_positions_belong_together) {
  const std::vector<std::size_t> sizes = {3, 40, 1, 1, 5, 0, 100, 2, 2, 2, 60, 9, 200, 5, 5, 5, 90};
  const Documents documents = counting_documents(sizes);
  write_megatron(path("a"), documents);
  std::vector<std::int64_t> begin_of;
  for (const auto& document : documents)
    for (std::size_t i = 0; i < document.size(); ++i) begin_of.push_back(document.front());
  const TokenSource data(spec_of(path("a")));
  for (const std::int64_t length : {8, 20})
    for (std::int64_t g = 0; g < 80; ++g) {
      const auto first = static_cast<std::size_t>(data.train_window(g / 4, g % 4, length).first);
      Ids starts(static_cast<std::size_t>(length));
      data.fill_train_document_starts(g / 4, g % 4, starts);
      for (std::size_t i = 0; i < starts.size(); ++i)
        ASSERT_EQ(starts[i], std::max<std::int64_t>(
                                 begin_of[first + i] - static_cast<std::int64_t>(first), 0));
    }
  Ids starts(8);
  data.fill_validation_document_starts(data.validation_windows(8), starts);
  EXPECT_EQ(starts, Ids(8, 0));
}

TEST_F(TokenDataset, shards_of_llmc_are_one_stream_whose_documents_begin_with_the_end_of_text) {
  const auto shard = [&](const std::string& name, const std::vector<std::int64_t>& ids) {
    Bytes bytes;
    bytes.add(std::int32_t{20240520})
        .add(std::int32_t{1})
        .add(static_cast<std::int32_t>(ids.size()));
    for (int word = 3; word < 256; ++word) bytes.add(std::int32_t{0});
    for (const std::int64_t id : ids) bytes.add_id(id, 2);
    write_bytes(path(name), bytes.text());
  };
  shard("x_000001.bin", {50256, 1, 2, 3, 50256, 4, 5});
  shard("x_000002.bin", {6, 7, 50256, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20});
  DataSpec spec = spec_of(std::filesystem::path(path("x_000001.bin")).parent_path().string(), 1);
  spec.format = Format::llmc;
  spec.seq_length = 3;
  spec.split = 0.48;
  const TokenSource data(spec);
  EXPECT_EQ(data.num_train(), 9) << "11 lies in the document that begins at 9";
  EXPECT_EQ(data.num_validation(), 14);
  Ids ids(9), starts(9);
  data.fill_validation_tokens(0, ids);
  for (std::int64_t step = 0; step < 2; ++step) {
    const auto first = data.train_window(step, 0, 3).first;
    const Ids all = {50256, 1, 2, 3, 50256, 4, 5, 6, 7};
    const Ids tokens = train_tokens(data, step, 0, 3);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), all.begin() + first));
    Ids begins(3);
    data.fill_train_document_starts(step, 0, begins);
    for (std::int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(begins[static_cast<std::size_t>(i)],
                std::max<std::int64_t>((first + i >= 4 ? 4 : 0) - first, 0));
  }
}

TEST_F(TokenDataset, row_11_a_bad_id_is_named_with_file_sample_and_position_wherever_it_stands) {
  const std::vector<std::size_t> places = {0, 17, 399, 790, 800, 999};
  for (const std::size_t place : places) {
    Documents documents = {std::vector<std::int64_t>(800, 1), std::vector<std::int64_t>(200, 1)};
    (place < 800 ? documents[0][place] : documents[1][place - 800]) = 777;
    write_megatron(path("a"), documents);
    DataSpec spec = spec_of(path("a"));
    spec.vocab_size = 777;
    const TokenSource data(spec);
    std::set<std::string> messages;
    Ids ids(8);
    const auto collect = [&](const auto& fill) {
      try {
        fill();
      } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::bad_data);
        messages.insert(error.what());
      }
    };
    for (std::int64_t g = 0; g < 2 * (799 / 8); ++g) {
      collect([&] { data.fill_train_tokens(g / 4, g % 4, ids); });
      collect([&] { data.fill_train_labels(g / 4, g % 4, ids); });
    }
    for (std::int64_t window = 0; window < data.validation_windows(8); ++window) {
      collect([&] { data.fill_validation_tokens(window, ids); });
      collect([&] { data.fill_validation_labels(window, ids); });
    }
    ASSERT_FALSE(messages.empty()) << place;
    // Where it is both a last label and a first token, two samples name it.
    for (const std::string& message : messages)
      expect_words(message, {path("a.bin") + ", token " + std::to_string(place) + " at byte " +
                                 std::to_string(2 * place),
                             "is 777", "0 to 776", "position"});
  }
}

TEST_F(TokenDataset, row_12_sets_of_zero_to_many_samples_are_refused_until_a_step_has_enough) {
  int accepted = 0;
  for (std::size_t train = 0; train <= 60; ++train) {
    write_megatron(path("a"), counting_documents({train, 9}));
    DataSpec spec = spec_of(path("a"), 4);
    spec.split =
        train == 0 ? 0.5 : (static_cast<double>(train) + 0.5) / static_cast<double>(train + 9);
    try {
      const TokenSource data(spec);
      EXPECT_GE(train, 33U);
      ++accepted;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      EXPECT_LT(train, 33U) << error.what();
      expect_words(error.what(), {"a.bin", "expected"});
    }
  }
  EXPECT_EQ(accepted, 28);
  write_megatron(path("a"), {});
  expect_words(user_error(ExitCode::bad_data, [&] { TokenSource(spec_of(path("a"))); }),
               {"a.bin", "0 of 0 tokens"});
}

TEST_F(TokenDataset, a_vocabulary_must_be_known_and_parts_of_a_blend_must_share_it) {
  write_megatron(path("a"), counting_documents({900, 100}));
  DataSpec spec = spec_of(path("a"));
  spec.vocab_size = 0;
  expect_words(user_error(ExitCode::bad_config, [&] { TokenSource{spec}; }),
               {path("a"), "data.tokenizer", "model.vocab_size"});
  spec.tokenizer = tokenizer::TokenizerKind::byte;
  EXPECT_EQ(TokenSource(spec).vocab_size(), 256);
  const std::string sidecar =
      R"({"format": 1, "dtype": "u16", "documents": 2, "tokens": 1000, "vocab_size": 2,
          "ends_documents": false, "bin_hash": "", "idx_hash": "",
          "tokenizer_fingerprint": "another",
          "tokenizer": {"tokenizer":"character","vocabulary":"ab"}})";
  write_bytes(path("a.json"), sidecar);
  expect_words(user_error(ExitCode::bad_data, [&] { TokenSource{spec}; }),
               {"a.json", "another", "byte"});
  write_bytes(path("a.json"), "{\"format\": 2}");
  expect_words(user_error(ExitCode::bad_data, [&] { TokenSource{spec}; }), {"a.json", "format 2"});
  spec.blend = {{path("a"), 1}, {path("b"), 1e-9}};
  write_megatron(path("b"), counting_documents({900, 100}));
  std::filesystem::remove(path("a.json"));
  expect_words(user_error(ExitCode::bad_config, [&] { TokenSource{spec}; }), {"b.bin", "weight"});
}

}  // namespace
}  // namespace fourfold::data::token_dataset_test
