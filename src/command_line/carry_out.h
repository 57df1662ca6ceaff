// From the words of a command line to the action that they choose.
#pragma once

#include "comm/launcher.h"
#include "command_line/commands.h"

namespace fourfold::command_line {

/// Reads a command line and calls the action that it chooses, with its arguments; calls none where
/// the line asks for help or the version, which it prints. `variable` gives the value of a variable
/// of the environment. Errors: UserError(bad_config) for words that mean nothing, with the nearest
/// ones that do; those of the action.
void carry_out(int argc, char** argv, const comm::Variable& variable, const Actions& actions);

}  // namespace fourfold::command_line
