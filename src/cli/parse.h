// From the words of a command line to the command that they choose.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace fourfold::cli {

/// Reads a command line, which begins with the program's name, fills the options of the command
/// that it chooses and returns that command; or null where the line asks for help or the version,
/// which it prints. Errors: UserError(bad_config) for words that mean nothing, with the nearest
/// ones that do, and for options that do not go together.
const Command* parse(const Commands& commands, const std::vector<std::string>& line);

}  // namespace fourfold::cli
