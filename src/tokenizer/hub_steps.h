// The steps of tokenizer.json by which a text is changed and cut: its parts normalizer and
// pre_tokenizer.
#pragma once

#include <vector>

#include "base/json.h"
#include "tokenizer/hub_file.h"

namespace fourfold::tokenizer {

/// Errors of both: Unlike (json_members.h), with the part of the file. `part`: null where there is
/// none.
void read_normal_steps(const Json* part, std::vector<NormalStep>& steps);
/// True if the last step turns bytes into letters.
bool read_cut_steps(const Json* part, std::vector<CutStep>& steps);

}  // namespace fourfold::tokenizer
