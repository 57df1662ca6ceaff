// Which checkpoints of a run stay, and why: what the configuration that saved them keeps. Not their
// removal: checkpoint/store.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "checkpoint/store.h"

namespace fourfold::job {

/// Steps that no pruning removes (checkpoint.keep_every, checkpoint.keep_best), each with the
/// reason in words: "every 1,000 steps", "validation loss 1.2345". Of a damaged one nobody knows
/// what it is: it is among them, without a word.
std::map<std::int64_t, std::string> kept_checkpoints(const checkpoint::Store& store);

}  // namespace fourfold::job
