// The kinds of tokenizers, as data.tokenizer names them.
#pragma once

namespace fourfold::tokenizer {

enum class TokenizerKind { character, byte, sentencepiece, gpt2, hub };

}  // namespace fourfold::tokenizer
