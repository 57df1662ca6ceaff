#include "generate/generate.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "generate/prompt.h"
#include "generate/sample_token.h"
#include "generate/text_model.h"
#include "tokenizer/utf8.h"

namespace fourfold::generate {
namespace {

std::span<const std::int32_t> last(const std::vector<std::int32_t>& tokens, std::int64_t count) {
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(count, 1));
  return std::span(tokens).last(std::min(wanted, tokens.size()));
}

/// The logits after the last of `tokens`, of which all but that one are in the cache already, or
/// have left it.
std::vector<double> logits_behind(const std::vector<std::int32_t>& tokens, TextModel& model,
                                  Cache cache) {
  if (model.num_cached() == 0)
    return model.prefill(last(tokens, seen_of_prompt(std::ssize(tokens), model.capacity())));
  if (model.num_cached() == model.capacity())
    return model.prefill(last(tokens, model.capacity() * 3 / 4));
  if (cache == Cache::compute_again) return model.prefill(last(tokens, model.num_cached() + 1));
  return model.decode(tokens.back());
}

}  // namespace

Writing generate(const SampleSpec& spec, const tokenizer::Tokenizer& tokenizer,
                 run::Executor& executor, const OnText& on_text, std::uint32_t sample, Cache cache,
                 const std::function<bool()>& must_end) {
  std::vector<std::int32_t> tokens = tokenizer.encode(spec.prompt, "the prompt");
  if (tokens.empty()) tokens.push_back(tokenizer.begin_of_text().value_or(0));
  TextModel model(executor, spec.capacity);
  const Random random(spec.seed, random_stream("generate"));
  const auto vocab_size = static_cast<std::size_t>(tokenizer.vocab_size());
  const std::vector<std::int32_t> ends =
      spec.stops_at_end ? tokenizer.ends_of_text() : std::vector<std::int32_t>();
  tokenizer::Utf8Stream stream;
  Writing writing;
  const auto emit = [&](const std::string& piece) {
    if (piece.empty()) return;
    writing.text += piece;
    if (on_text) on_text(piece);
  };
  while (writing.tokens < spec.tokens) {
    writing.was_cut = must_end && must_end();
    if (writing.was_cut) break;
    const std::vector<double> logits = logits_behind(tokens, model, cache);
    require(logits.size() >= vocab_size, "the model has a logit for each token of the vocabulary");
    const double uniform = random.uniform(static_cast<std::uint64_t>(writing.tokens), sample);
    tokens.push_back(sample_token(std::span(logits).first(vocab_size), spec, uniform));
    writing.ended = std::ranges::count(ends, tokens.back()) > 0;
    if (writing.ended) break;
    ++writing.tokens;
    emit(stream.push(tokenizer.decode(last(tokens, 1))));
  }
  emit(stream.finish());
  return writing;
}

}  // namespace fourfold::generate
