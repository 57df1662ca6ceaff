// Two files of a folder that describe one tokenizer: whether they agree.
#pragma once

#include <string>

#include "tokenizer/tokenizer.h"

namespace fourfold::tokenizer {

/// `tokenizer` was read from tokenizer.json; `path`, which messages call `name`, is a vocab.json
/// with a merges.txt beside it, or a tokenizer.model. A note: which file is read, and that the
/// other has the same tokens and gives some texts the same ids, or the first difference.
std::string compare_with_file(const Tokenizer& tokenizer, const std::string& path,
                              const std::string& name);

}  // namespace fourfold::tokenizer
