// The command line: one command of it is run. What each command is stands in a file of commands/.
#pragma once

#include "comm/launcher.h"

namespace fourfold::cli {

/// Parses the command line, runs the subcommand, prints any error as one message on standard error,
/// and returns the exit code of the table in base/error.h.
/// `variable` gives the value of a variable of the environment.
int run(int argc, char** argv, const comm::Variable& variable);

}  // namespace fourfold::cli
