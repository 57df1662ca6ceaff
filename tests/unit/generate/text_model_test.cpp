#include "generate/text_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/generate/fake_model.h"

namespace fourfold::generate {
namespace {

using Ids = std::vector<std::int32_t>;

std::int32_t largest(const std::vector<double>& logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TEST(TextModel, decoding_token_by_token_gives_the_logits_of_prefilling_them_all) {
  const auto bundle = fake_bundle(6, 11);
  FakeModel backend(11);
  run::Executor executor(bundle, backend);
  TextModel model(executor);
  EXPECT_EQ(model.capacity(), 6);
  const Ids tokens = {3, 1, 4, 1, 5, 9};
  for (std::size_t prompt = 1; prompt <= tokens.size(); ++prompt) {
    auto logits = model.prefill(std::span(tokens).first(prompt));
    EXPECT_EQ(largest(logits), next_token(std::span(tokens).first(prompt), 11));
    for (std::size_t size = prompt + 1; size <= tokens.size(); ++size) {
      logits = model.decode(tokens[size - 1]);
      EXPECT_EQ(model.num_cached(), static_cast<std::int64_t>(size));
      EXPECT_EQ(largest(logits), next_token(std::span(tokens).first(size), 11));
    }
  }
}

TEST(TextModel, position_and_index_tell_the_programs_where_the_tokens_go) {
  const auto bundle = fake_bundle(4, 5);
  FakeModel backend(5);
  run::Executor executor(bundle, backend);
  TextModel model(executor);
  model.prefill(Ids{1, 2});
  model.decode(3);
  model.decode(4);
  const std::vector<FakeModel::Call> expected = {{op::ProgramKind::prefill, 0, 1},
                                                 {op::ProgramKind::decode, 2, 0},
                                                 {op::ProgramKind::decode, 3, 0}};
  EXPECT_EQ(backend.calls, expected);
}

TEST(TextModel, logits_are_read_in_any_dtype) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const auto bundle = fake_bundle(4, 5, dtype);
    FakeModel backend(5);
    run::Executor executor(bundle, backend);
    const auto logits = TextModel(executor).prefill(Ids{1, 2});
    ASSERT_EQ(logits.size(), 5U);
    EXPECT_EQ(logits[static_cast<std::size_t>(next_token(Ids{1, 2}, 5))], 50);
  }
}

TEST(TextModel, tokens_beyond_the_cache_are_a_bug) {
  const auto bundle = fake_bundle(2, 5);
  FakeModel backend(5);
  run::Executor executor(bundle, backend);
  TextModel model(executor);
  EXPECT_THROW(model.decode(1), InternalError);
  EXPECT_THROW(model.prefill({}), InternalError);
  EXPECT_THROW(model.prefill(Ids{1, 2, 3}), InternalError);
  model.prefill(Ids{1, 2});
  EXPECT_THROW(model.decode(1), InternalError);
}

}  // namespace
}  // namespace fourfold::generate
