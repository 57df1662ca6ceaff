// The whole check of data, whatever they are.
#pragma once

#include <string>

namespace fourfold::data {

/// Reads every byte of a set of tokens or of pictures and says what it holds, with the end of the
/// line. Errors: UserError(bad_data) with the first thing that is wrong.
std::string verify_data(const std::string& path);

}  // namespace fourfold::data
