#include "generate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tokenizer/byte_pair_vocabulary.h"
#include "tokenizer/gpt2.h"
#include "tokenizer/utf8.h"
#include "unit/data/expect_error.h"
#include "unit/generate/fake_model.h"

namespace fourfold::generate {
namespace {

using Ids = std::vector<std::int32_t>;

/// What generate() documents, written without a cache: the context of each new token.
Ids expected_tokens(Ids tokens, std::int64_t capacity, std::int64_t count,
                    std::int32_t vocab_size) {
  const std::size_t num_prompt = tokens.size();
  auto first = std::max<std::int64_t>(
      0, static_cast<std::int64_t>(tokens.size()) - std::max<std::int64_t>(capacity - 1, 1));
  for (std::int64_t i = 0; i < count; ++i) {
    if (static_cast<std::int64_t>(tokens.size()) - first > capacity)
      first =
          static_cast<std::int64_t>(tokens.size()) - std::max<std::int64_t>(capacity * 3 / 4, 1);
    tokens.push_back(
        next_token(std::span(tokens).subspan(static_cast<std::size_t>(first)), vocab_size));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(num_prompt), tokens.end()};
}

struct Setting {
  program::Bundle bundle;
  FakeModel backend;
  run::Executor executor;
  Setting(std::int64_t capacity, std::int32_t vocab_size, std::int64_t num_logits)
      : bundle(fake_bundle(capacity, num_logits)), backend(vocab_size), executor(bundle, backend) {}
};

SampleSpec greedy(const std::string& prompt, std::int64_t tokens) {
  SampleSpec spec;
  spec.prompt = prompt;
  spec.tokens = tokens;
  spec.temperature = 0;
  return spec;
}

TEST(Generate,
     each_token_follows_from_the_documented_context_for_all_capacities_and_prompt_lengths) {
  const auto tokenizer = tokenizer::number_tokenizer(97);
  for (std::int64_t capacity = 1; capacity <= 9; ++capacity) {
    for (std::size_t num_prompt = 1; num_prompt <= 12; ++num_prompt) {
      Setting setting(capacity, 97, 97);
      Ids prompt;
      for (std::size_t i = 0; i < num_prompt; ++i)
        prompt.push_back(static_cast<std::int32_t>(i * 31 % 97));
      const auto text =
          generate(greedy(tokenizer->decode(prompt), 40), *tokenizer, setting.executor).text;
      EXPECT_EQ(tokenizer->encode(text, "x"), expected_tokens(prompt, capacity, 40, 97))
          << "capacity " << capacity << ", prompt " << num_prompt;
    }
  }
}

TEST(Generate, a_full_context_is_prefilled_with_its_last_three_quarters) {
  const auto tokenizer = tokenizer::number_tokenizer(10);
  Setting setting(8, 10, 10);
  generate(greedy("1 2 3 4 5 6", 8), *tokenizer, setting.executor);
  const std::vector<FakeModel::Call> expected = {
      {op::ProgramKind::prefill, 0, 5}, {op::ProgramKind::decode, 6, 0},
      {op::ProgramKind::decode, 7, 0},  {op::ProgramKind::prefill, 0, 5},
      {op::ProgramKind::decode, 6, 0},  {op::ProgramKind::decode, 7, 0},
      {op::ProgramKind::prefill, 0, 5}, {op::ProgramKind::decode, 6, 0}};
  EXPECT_EQ(setting.backend.calls, expected);
}

TEST(Generate, no_tokens_asked_for_runs_nothing) {
  Setting setting(8, 10, 10);
  EXPECT_EQ(generate(greedy("1", 0), *tokenizer::number_tokenizer(10), setting.executor).text, "");
  EXPECT_TRUE(setting.backend.calls.empty());
}

TEST(Generate, a_stop_before_the_fourth_token_leaves_three) {
  const auto tokenizer = tokenizer::number_tokenizer(10);
  Setting setting(8, 10, 10), whole(8, 10, 10);
  int asked = 0;
  const Writing cut = generate(greedy("1", 9), *tokenizer, setting.executor, {}, 0, Cache::keep,
                               [&] { return ++asked == 4; });
  EXPECT_TRUE(cut.was_cut);
  EXPECT_FALSE(cut.ended);
  EXPECT_EQ(cut.tokens, 3);
  const Writing all = generate(greedy("1", 9), *tokenizer, whole.executor);
  EXPECT_FALSE(all.was_cut);
  EXPECT_TRUE(all.text.starts_with(cut.text)) << cut.text;
  EXPECT_EQ(tokenizer->encode(cut.text, "x").size(), 3U);
}

TEST(Generate, a_prompt_without_tokens_starts_from_token_zero) {
  Setting setting(8, 10, 10), other(8, 10, 10);
  const auto tokenizer = tokenizer::number_tokenizer(10);
  EXPECT_EQ(generate(greedy("\n", 5), *tokenizer, setting.executor).text,
            generate(greedy("0", 5), *tokenizer, other.executor).text);
}

TEST(Generate, a_prompt_without_tokens_starts_from_the_token_by_which_texts_begin) {
  tokenizer::BytePairVocabulary vocabulary;
  for (std::int32_t byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
    vocabulary.ids_of_bytes[static_cast<std::size_t>(byte)] = byte;
  }
  vocabulary.tokens.insert(vocabulary.tokens.end(), {"<end>", "<begin>"});
  vocabulary.end_of_document = 256;
  const auto without = tokenizer::gpt2_tokenizer(vocabulary);
  vocabulary.begin_of_text = 257;
  const auto with = tokenizer::gpt2_tokenizer(vocabulary);
  for (const auto& [tokenizer, first] : {std::pair(without.get(), 256), {with.get(), 257}}) {
    Setting setting(8, 258, 258);
    std::string expected;
    tokenizer::Utf8Stream stream;
    for (const std::int32_t id : expected_tokens({first}, 8, 5, 258))
      expected += stream.push(tokenizer->decode(std::span(&id, 1)));
    expected += stream.finish();
    SampleSpec spec = greedy("", 5);
    spec.stops_at_end = false;
    EXPECT_EQ(generate(spec, *tokenizer, setting.executor).text, expected) << first;
  }
}

TEST(Generate, tokens_that_pad_the_vocabulary_never_come) {
  Setting setting(8, 10, 16);
  EXPECT_NO_THROW(generate(greedy("1", 20), *tokenizer::number_tokenizer(10), setting.executor));
}

TEST(Generate, a_model_with_fewer_logits_than_the_vocabulary_is_a_bug) {
  Setting setting(8, 10, 10);
  EXPECT_THROW(generate(greedy("1", 1), *tokenizer::number_tokenizer(11), setting.executor),
               InternalError);
}

TEST(Generate, the_same_spec_gives_the_same_text_and_another_seed_another) {
  const auto tokenizer = tokenizer::number_tokenizer(50);
  SampleSpec spec = greedy("1", 60);
  spec.temperature = 20;  // flat enough that chance decides
  const auto run = [&] {
    Setting setting(16, 50, 50);
    return generate(spec, *tokenizer, setting.executor).text;
  };
  const std::string first = run();
  EXPECT_EQ(run(), first);
  const std::string start = first.substr(0, 20);
  spec.tokens = 30;
  EXPECT_EQ(run().substr(0, 20), start) << "the text does not depend on how much is wanted";
  spec.tokens = 60;
  spec.seed = 2;
  EXPECT_NE(run(), first);
}

TEST(Generate, pieces_of_text_are_whole_characters_and_together_the_result) {
  const auto tokenizer = tokenizer::byte_tokenizer();
  Setting setting(16, 256, 256);
  std::string pieces;
  const Writing writing =
      generate(greedy("abc", 500), *tokenizer, setting.executor, [&](std::string_view piece) {
        EXPECT_FALSE(piece.empty());
        for (std::string_view rest = piece; !rest.empty();) {
          const auto character = tokenizer::first_code_point(rest);
          ASSERT_TRUE(character);
          rest.remove_prefix(character->num_bytes);
        }
        pieces += piece;
      });
  EXPECT_EQ(pieces, writing.text);
  EXPECT_FALSE(pieces.empty());
  EXPECT_EQ(writing.tokens, 500);
  EXPECT_FALSE(writing.ended);
}

/// Numbers, of which 3 ends documents.
class NumbersAndEnd final : public tokenizer::Tokenizer {
 public:
  std::string_view name() const override { return "test"; }
  std::int64_t vocab_size() const override { return numbers_->vocab_size(); }
  std::optional<std::int32_t> end_of_document() const override { return 3; }
  Ids encode(std::string_view text, std::string_view source) const override {
    return numbers_->encode(text, source);
  }
  std::size_t last_cut(std::string_view text) const override { return numbers_->last_cut(text); }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return numbers_->decode(ids);
  }
  std::string to_text() const override { return numbers_->to_text(); }

 private:
  std::unique_ptr<tokenizer::Tokenizer> numbers_ = tokenizer::number_tokenizer(10);
};

TEST(Generate, the_end_of_a_document_ends_the_text_unless_it_is_to_go_on) {
  const NumbersAndEnd tokenizer;
  int ended = 0;
  for (const char* prompt : {"1", "2", "3", "4 5", "6 7"}) {
    const auto write = [&](bool stops_at_end) {
      Setting setting(8, 10, 10);
      SampleSpec spec = greedy(prompt, 12);
      spec.stops_at_end = stops_at_end;
      return generate(spec, tokenizer, setting.executor);
    };
    const Writing whole = write(false), writing = write(true);
    const Ids all = tokenizer.encode(whole.text, "x");
    ASSERT_EQ(all.size(), 12U);
    EXPECT_EQ(whole.tokens, 12);
    EXPECT_FALSE(whole.ended) << "it went on";
    const auto end = std::find(all.begin(), all.end(), 3);
    EXPECT_EQ(tokenizer.encode(writing.text, "x"), Ids(all.begin(), end));
    EXPECT_EQ(writing.tokens, end - all.begin());
    EXPECT_EQ(writing.ended, end != all.end());
    ended += writing.ended;
  }
  EXPECT_GT(ended, 0);
}

TEST(Generate, a_prompt_outside_the_vocabulary_is_an_error_that_names_the_prompt) {
  Setting setting(8, 3, 3);
  const auto tokenizer = tokenizer::character_tokenizer("abc", "x");
  const auto message = user_error(
      ExitCode::bad_data, [&] { generate(greedy("abd", 5), *tokenizer, setting.executor); });
  expect_words(message, {"the prompt", "\"d\"", "byte 2"});
}

}  // namespace
}  // namespace fourfold::generate
