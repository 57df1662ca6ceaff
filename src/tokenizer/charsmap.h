// The normalisation rules inside a sentencepiece model: a double array of prefixes to be replaced
// (darts-clone) and their replacements. Read only to know that the library, which checks neither
// bounds nor lengths, can use them; nothing is normalised here.
#pragma once

#include <string>
#include <string_view>
#include <variant>

namespace fourfold::tokenizer {

struct CharsmapFacts {
  /// True if a text may be normalised in parts that are cut between a printable ASCII character
  /// and a space: no rule sees both, and none makes or removes a space there.
  bool keeps_spaces_apart = true;
};

/// `blob`: NormalizerSpec.precompiled_charsmap, not empty. A text says what is wrong. Cost: 256
/// probes a node, some 10 ms for a usual one.
std::variant<CharsmapFacts, std::string> check_charsmap(std::string_view blob);

}  // namespace fourfold::tokenizer
