// The command line: subcommands and their options. What each does stands in its own file, see
// commands.h.
#pragma once

#include "comm/launcher.h"

namespace fourfold::cli {

/// Parses the command line, runs the subcommand, prints any error as one message on standard error,
/// and returns the exit code of the table in base/error.h.
/// `variable` gives the value of a variable of the environment.
int run(int argc, char** argv, const comm::Variable& variable);

}  // namespace fourfold::cli
