// The tokenizer of a folder as the hub of Hugging Face has them: all files that describe it, read
// together. tokenizer.json is taken, and what the others say otherwise is noted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::tokenizer {

struct HubFolder {
  std::unique_ptr<Tokenizer> tokenizer;  // null: `reason`
  std::string reason;                    // why there is none
  std::vector<std::string> notes;
};

/// True if it has a tokenizer.json with a model.
bool has_hub_tokenizer(const std::string& folder);

/// Reads tokenizer.json, and beside it what special_tokens.h lists, vocab.json with merges.txt and
/// tokenizer.model. Where tokenizer.json is one that this program has written, the kind is that of
/// the tokenizer it was written of, and only that file is read. Errors: UserError(bad_data) for
/// files that cannot be read or contradict themselves.
HubFolder read_hub_folder(const std::string& folder);

/// For data.tokenizer = hub: a folder, its tokenizer.json, or what `import` wrote. Errors: as
/// above, also where there is no such tokenizer here.
HubFolder load_hub_tokenizer(const std::string& path);

}  // namespace fourfold::tokenizer
