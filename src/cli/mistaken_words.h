// What to say about words of a command line that mean nothing here. Not about wrong values, of
// which each option says its own.
#pragma once

#include <span>
#include <string>

#include "cli/completion.h"

namespace fourfold::cli {

/// One line a word, with the nearest one there is. `path`: the names of the commands that were
/// understood, outermost first; `words`: those that nothing takes, in order.
std::string mistaken_words(const CommandSpec& root, std::span<const std::string> path,
                           std::span<const std::string> words);

}  // namespace fourfold::cli
