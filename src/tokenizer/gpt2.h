// GPT-2's tokenizer: byte pair encoding of bytes. Every text has ids, also one that is not UTF-8.
#pragma once

#include <memory>

#include "tokenizer/byte_pair_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::tokenizer {

/// Cost of encoding: some 100 ns a word that came lately, n log n for other pieces of n bytes. The
/// token at the end of documents is never made from a text, not even from one that looks like it.
std::unique_ptr<Tokenizer> gpt2_tokenizer(BytePairVocabulary vocabulary);

}  // namespace fourfold::tokenizer
