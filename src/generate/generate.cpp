#include "generate/generate.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "data/utf8.h"
#include "generate/sample_token.h"
#include "generate/text_model.h"

namespace fourfold::generate {
namespace {

std::span<const std::int32_t> last(const std::vector<std::int32_t>& tokens, std::int64_t count) {
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(count, 1));
  return std::span(tokens).last(std::min(wanted, tokens.size()));
}

/// The logits behind the last of `tokens`, of which all but that one are in the cache already, or
/// have left it.
std::vector<double> logits_behind(const std::vector<std::int32_t>& tokens, TextModel& model) {
  if (model.num_cached() == 0) return model.prefill(last(tokens, model.capacity() - 1));
  if (model.num_cached() == model.capacity())
    return model.prefill(last(tokens, model.capacity() * 3 / 4));
  return model.decode(tokens.back());
}

}  // namespace

std::string generate(const SampleSpec& spec, const data::Tokenizer& tokenizer,
                     run::Executor& executor, const OnText& on_text) {
  std::vector<std::int32_t> tokens = tokenizer.encode(spec.prompt, "the prompt");
  if (tokens.empty()) tokens.push_back(0);
  TextModel model(executor);
  const Random random(spec.seed, random_stream("generate"));
  const auto vocab_size = static_cast<std::size_t>(tokenizer.vocab_size());
  data::Utf8Stream stream;
  std::string text;
  const auto emit = [&](const std::string& piece) {
    if (piece.empty()) return;
    text += piece;
    if (on_text) on_text(piece);
  };
  for (std::int64_t number = 0; number < spec.tokens; ++number) {
    const std::vector<double> logits = logits_behind(tokens, model);
    require(logits.size() >= vocab_size, "the model has a logit for each token of the vocabulary");
    const double uniform = random.uniform(static_cast<std::uint64_t>(number), 0);
    tokens.push_back(sample_token(std::span(logits).first(vocab_size), spec, uniform));
    emit(stream.push(tokenizer.decode(last(tokens, 1))));
  }
  emit(stream.finish());
  return text;
}

}  // namespace fourfold::generate
