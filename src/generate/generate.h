// Continues a prompt with a trained model, token by token, by the programs "prefill" and "decode"
// of its bundle.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "generate/sample_spec.h"
#include "run/executor.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::generate {

/// Called with each new piece of text: whole UTF-8 characters, in order, as soon as they are known.
using OnText = std::function<void(std::string_view)>;

/// How tokens are computed: once, and their keys and values kept, or all again for each new one:
/// the same text, for checking and timing the cache.
enum class Cache : std::uint8_t { keep, compute_again };

/// What was written after the prompt.
struct Writing {
  std::string text;
  std::int64_t tokens = 0;  // without the one that ends the document
  bool ended = false;       // by that one
  bool was_cut = false;     // its caller wanted no more
};

/// Generates spec.tokens tokens after spec.prompt, fewer where the document ends before and
/// spec.stops_at_end; their text is all that `on_text` got. Token number n (from 0) of sample
/// number s is drawn with Random(spec.seed, "generate").uniform(n, s), so the text is a pure
/// function of the weights, the spec and s, whatever other samples are written. Bytes that are no
/// UTF-8 character become U+FFFD.
///
/// The context holds P tokens, the length of the prefill program. A prompt longer than P - 1 tokens
/// keeps its last P - 1. When P tokens are in the key/value cache and more are wanted, the last 3/4
/// P tokens are prefilled again and the loop goes on: amortised, a prefill every P/4 tokens. A
/// prompt without tokens starts from the token by which texts begin, or else from token 0.
///
/// Programs: prefill is fed tokens [1, P] (padded with 0), step.position 0 and step.index of the
/// last token; decode is fed tokens [1, 1], step.position tokens in the cache and step.index 0.
/// Both write the output buffer "logits", [1, 1, V] of f32 or f64, V at least the tokenizer's
/// vocabulary. Errors: UserError(bad_data) for a prompt outside the vocabulary,
/// UserError(numeric_stop) for logits that are no numbers.
/// `must_end` is asked before each token, on all ranks together.
Writing generate(const SampleSpec& spec, const tokenizer::Tokenizer& tokenizer,
                 run::Executor& executor, const OnText& on_text = {}, std::uint32_t sample = 0,
                 Cache cache = Cache::keep, const std::function<bool()>& must_end = {});

}  // namespace fourfold::generate
