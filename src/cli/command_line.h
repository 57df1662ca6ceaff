// The command line: subcommands and their options. What each does stands in its own file, see
// commands.h.
#pragma once

namespace fourfold::cli {

/// Parses the command line, runs the subcommand, prints any error as one message on standard error,
/// and returns the exit code of the table in base/error.h.
int run(int argc, char** argv);

}  // namespace fourfold::cli
