// What a model sees of a prompt. Not the continuing of it (generate.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "generate/sample_spec.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::generate {

/// How many tokens of a prompt a model of so many positions sees: the last ones.
std::int64_t seen_of_prompt(std::int64_t tokens, std::int64_t positions);

/// A line for people if the model sees less than the whole prompt, which `name` names; else
/// nothing. Errors: UserError(bad_data) for a prompt that has no ids.
std::optional<std::string> cut_of_prompt(const SampleSpec& spec,
                                         const tokenizer::Tokenizer& tokenizer,
                                         std::int64_t positions, std::string_view name);

}  // namespace fourfold::generate
