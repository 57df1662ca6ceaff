// The pieces in which GPT-2 cuts a text before it looks for tokens, and those of GPT-4, as Llama 3
// and Qwen have them: no token reaches over a cut.
// Letters, numbers and white space are those of Unicode 16.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace fourfold::tokenizer {

/// General categories L* and N*, and the property White_Space: \p{L}, \p{N} and \s of regular
/// expressions.
enum class CharacterClass : std::uint8_t { other = 0, letter = 1, number = 2, space = 3 };

/// A byte for each code point, 1.1 MB, made at the first call.
const std::vector<CharacterClass>& character_classes();

/// Bytes of the first piece of `text`, which goes on to the end of the document; 0 when it is
/// empty. The piece is what this expression matches, of its alternatives the first (OpenAI gpt-2,
/// src/encoder.py):
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// A byte that is not UTF-8 counts as a character that is neither letter, number nor space.
std::size_t first_gpt2_chunk(std::string_view text);

/// The same for this expression, whose {1,3} is {1,most_digits} (OpenAI tiktoken, cl100k_base; Qwen
/// has single digits):
///   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
///   | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
std::size_t first_gpt4_chunk(std::string_view text, int most_digits);

/// The last place in `text`, above 0, that is a cut whatever stands before and follows: a letter or
/// a number, or a sign before white space or a number, ends there. 0 where there is none. Cost: the
/// characters after it.
std::size_t last_gpt2_cut(std::string_view text);

}  // namespace fourfold::tokenizer
