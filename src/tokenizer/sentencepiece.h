// Tokenizers of the sentencepiece library: read from the bytes of a model, and trained. Foreign
// models are taken as they are, with their own normalisation.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::tokenizer {

/// The tokenizer of a serialized model; `source` names it in messages. Errors: UserError(code) for
/// bytes that are no model that this library can use without harm (sentencepiece_model.h).
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(std::string model, std::string_view source,
                                                   ExitCode code = ExitCode::bad_data);

}  // namespace fourfold::tokenizer
